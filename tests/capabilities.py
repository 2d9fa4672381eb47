"""Cells that are trained, combinations that are refused, and the page about both.

``python -m tests.capabilities`` writes ``docs/capabilities.md``; ``test_capabilities``
trains the cells and meets the refusals, so the page says nothing that was not run.
"""

from __future__ import annotations

import functools
import itertools
import pathlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tfagents_batch import algorithms

PAGE = pathlib.Path(__file__).parents[1] / "docs/capabilities.md"

# Everything that a run can be chosen by, with its levels. The first one is the plain
# one, which a cell has where it is not about something else.
FACTORS: dict[str, tuple[str, ...]] = {
    "algorithm": tuple(algorithms.REGISTRY),
    "observation": (
        *("Box", "image", "Dict", "Tuple"),
        *("Discrete", "MultiBinary", "MultiDiscrete"),
    ),
    "action": ("Discrete", "MultiDiscrete", "MultiBinary", "Box", "Dict"),
    "mask": ("no mask", "mask"),
    "core": ("feed-forward", "GRU", "LSTM"),
    "route": ("in process", "portable", "native", "in the graph"),
    "compile": ("off", "update", "full"),
    "source": ("steps", "episodes"),
    "collecting": ("before", "overlap"),
    "precision": ("float32", "bfloat16"),
    "seeds": ("one", "several"),
}

Level = tuple[str, str]  # factor, level
Cell = tuple[str, ...]  # a level of every factor


class Refusal(NamedTuple):
    """Levels that are refused together.

    Attributes:
      one: factor and levels.
      other: the same of another factor; None where ``one`` is refused with everything.
      why: for the page.
      says: regular expression of the error's text.
    """

    one: tuple[str, tuple[str, ...]]
    other: tuple[str, tuple[str, ...]] | None
    why: str
    says: str


_SEVERAL = ("seeds", ("several",))
REFUSED = (
    Refusal(
        ("action", ("Dict",)),
        None,
        "Actions are one array; a wrapper can join the parts.",
        r"action space Dict.* is not supported; use .*wrapper",
    ),
    Refusal(
        ("mask", ("mask",)),
        ("action", ("MultiBinary", "Box")),
        "Only choices among numbered actions can be masked.",
        r"cannot mask actions; only Discrete and MultiDiscrete",
    ),
    Refusal(
        ("compile", ("full",)),
        ("route", ("in process", "portable")),
        "Environments are stepped by Python calls from the graph, which XLA has not; "
        "`--compile=auto` compiles the update.",
        r"--compile=full needs environments that run under XLA",
    ),
    Refusal(
        ("precision", ("bfloat16",)),
        (
            "observation",
            ("Box", "Dict", "Tuple", "Discrete", "MultiBinary", "MultiDiscrete"),
        ),
        "It is for convolutions; these have no image among their parts.",
        r"--precision=mixed_bfloat16 changes nothing",
    ),
    Refusal(
        _SEVERAL,
        ("route", ("in process", "portable", "native")),
        "Several seeds are one compiled program.",
        r"need an environment that is written in TensorFlow",
    ),
    Refusal(
        _SEVERAL,
        ("compile", ("off", "update")),
        "Several seeds are one compiled program.",
        r"compile=\w+ is not for several seeds",
    ),
    Refusal(
        _SEVERAL,
        ("observation", ("image",)),
        "Every seed has its own kernels, which convolutions of TensorFlow do not take.",
        r"networks without convolutions",
    ),
    Refusal(
        _SEVERAL,
        ("source", ("episodes",)),
        "Iterations of several seeds have a fixed length.",
        r"update_every=\d+ is not for several seeds",
    ),
    Refusal(
        _SEVERAL,
        ("collecting", ("overlap",)),
        "There are no processes to wait for.",
        r"overlap=True is not for several seeds",
    ),
    Refusal(
        _SEVERAL,
        ("precision", ("bfloat16",)),
        "It is for convolutions.",
        r"precision=mixed_bfloat16 is not for several seeds",
    ),
)


def level(cell: Cell, factor: str) -> str:
    return cell[list(FACTORS).index(factor)]


def groups(levels: Iterable[Level], size: int) -> set[frozenset[Level]]:
    """Return all combinations of ``size`` levels."""
    return set(map(frozenset, itertools.combinations(levels, size)))


def refusals(levels: Iterable[Level]) -> list[Refusal]:
    """Why these levels do not go together; empty if they do."""
    chosen = dict(levels)
    return [
        each
        for each in REFUSED
        if all(
            chosen.get(factor) in names
            for factor, names in filter(None, (each.one, each.other))
        )
    ]


def combinations(refusal: Refusal) -> list[tuple[Level, ...]]:
    """The levels, or pairs of them, that are refused for one reason."""
    sides = [
        [(factor, name) for name in names]
        for factor, names in filter(None, (refusal.one, refusal.other))
    ]
    return list(itertools.product(*sides))


def refused_cell(levels: Iterable[Level]) -> Cell:
    """Return a cell with these levels in which little else is refused."""
    chosen = dict(levels)
    for factor, names in FACTORS.items():

        def count(name, factor=factor):
            return len(refusals({**chosen, factor: name}.items()))

        chosen[factor] = chosen.get(factor) or min(names, key=count)
    return tuple(chosen[factor] for factor in FACTORS)


@functools.cache
def cells(size: int) -> tuple[Cell, ...]:
    """Cells in which all combinations of ``size`` levels occur that go together."""
    every = [(factor, name) for factor, names in FACTORS.items() for name in names]
    missing = {group for group in groups(every, size) if len(dict(group)) == size}
    found = []
    while missing:
        group = min(missing, key=lambda group: sorted(map(every.index, group)))
        cell = _completed(dict(group), missing)
        if cell is None:  # they do not go together
            missing.remove(group)
        else:
            found.append(cell)
            missing -= groups(zip(FACTORS, cell, strict=True), size)
    return tuple(found)


def _completed(chosen: Mapping[str, str], missing: set) -> Cell | None:
    """Return a cell with the levels that are chosen, and many that are missing."""
    if refusals(chosen.items()):
        return None
    rest = [factor for factor in FACTORS if factor not in chosen]
    if not rest:
        return tuple(chosen[factor] for factor in FACTORS)
    factor, size = rest[0], len(next(iter(missing)))

    def gain(name):
        others = groups(chosen.items(), size - 1)
        return len(missing & {other | {(factor, name)} for other in others})

    for name in sorted(FACTORS[factor], key=gain, reverse=True):
        cell = _completed({**chosen, factor: name}, missing)
        if cell is not None:
            return cell
    return None


# ---- the page

_INTRO = """\
# What goes together

Made by `python -m tests.capabilities`; do not edit. Any two of these go together,
unless they are refused below: a test trained each pair for two updates on tiny
environments, after which all numbers were finite and the weights had moved. Refusals
come before training, as a `UserError` that says what to do.

| | | |
|---|---|---|
"""
_MEANINGS = {
    "algorithm": "`--algorithm`",
    "observation": "*Box* is a vector of floats, *image* bytes; *Dict* and *Tuple* "
    "hold a vector and discrete values",
    "action": "space of the actions",
    "mask": '`observation["action_mask"]`, beside any observation',
    "core": "`--algorithm.network.core`",
    "route": "environments in this process (`--num_workers=0`), in worker processes by "
    "the portable or the native route, or in the graph (`tf/...`)",
    "compile": "`--compile`",
    "source": "`--rollout_length` steps or `--update_every` episodes",
    "collecting": "before the update, or beside it (`--overlap`)",
    "precision": "`--precision=mixed_bfloat16`",
    "seeds": "`--seeds`, in one program",
}


def page() -> str:
    """Return the text of ``docs/capabilities.md``."""
    rows = [
        f"| {factor} | {', '.join(names)} | {_MEANINGS[factor]} |\n"
        for factor, names in FACTORS.items()
    ]
    refused = [f"* {_refused(each)}: {each.why}\n" for each in REFUSED]
    return "".join([_INTRO, *rows, "\n## What is refused\n\n", *refused])


def _refused(refusal: Refusal) -> str:
    return " with ".join(
        f"{factor} *{' or '.join(names)}*"
        for factor, names in filter(None, (refusal.one, refusal.other))
    )


if __name__ == "__main__":
    PAGE.write_text(page())
