"""Combinations of options that train, pairs that are refused, and the page about them.

A cell is one combination. ``python -m tests.support.capabilities`` writes
``docs/capabilities.md``, and the table of algorithms in README. ``test_capabilities``
trains the cells and checks the refusals, so every claim on the page is tested.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import config
from tfagents_batch.algorithms import REGISTRY
from tfagents_batch.errors import UserError
from tfagents_batch.types import EnvSpec

README = pathlib.Path(__file__).parents[2] / "README.md"
PAGE = README.parent / "docs/capabilities.md"

# The options of a run and their levels. The first level is the default of a cell.
FACTORS: dict[str, tuple[str, ...]] = {
    "algorithm": ("ppo",),  # others have tests of their own
    "observation": (
        *("Box", "image", "Dict", "Tuple"),
        *("Discrete", "MultiBinary", "MultiDiscrete"),
    ),
    "action": ("Discrete", "MultiDiscrete", "MultiBinary", "Box", "Dict"),
    "mask": ("no mask", "mask"),
    "core": ("feed-forward", "GRU", "LSTM"),
    "backend": ("in process", "portable", "native", "in the graph"),
    "compile": ("off", "update", "full"),
    "source": ("steps", "episodes"),
    "collecting": ("before", "overlap"),
    "precision": ("float32", "bfloat16"),
}

Level = tuple[str, str]  # factor, level
Cell = tuple[str, ...]  # a level of every factor


class Refusal(NamedTuple):
    """Levels that are refused together, and their row on the page.

    Attributes:
      one: factor and levels.
      other: another factor and its levels; None if ``one`` is refused with everything.
      choice: text for ``one`` on the page.
      against: text for ``other`` on the page.
      why: the reason, and what to do instead.
      error: regular expression of the error's text.
    """

    one: tuple[str, tuple[str, ...]]
    other: tuple[str, tuple[str, ...]] | None
    choice: str
    against: str
    why: str
    error: str


REFUSED = (
    Refusal(
        ("mask", ("mask",)),
        ("action", ("MultiBinary", "Box")),
        '`observation["action_mask"]`',
        "a MultiBinary or Box action space",
        "only numbered actions can be masked; use a Discrete or MultiDiscrete space",
        r"cannot mask actions; only Discrete and MultiDiscrete",
    ),
    Refusal(
        ("compile", ("full",)),
        ("backend", ("in process", "portable")),
        "`--compile=full`",
        "environments in this process (`--num_workers=0`), or the portable backend",
        "XLA cannot call Python, which steps them; use `--compile=auto`",
        r"--compile=full needs environments that run under XLA",
    ),
    Refusal(
        ("precision", ("bfloat16",)),
        (
            "observation",
            ("Box", "Dict", "Tuple", "Discrete", "MultiBinary", "MultiDiscrete"),
        ),
        "`--precision=mixed_bfloat16`",
        "observations that are not an image, and hidden layers below 512 units",
        "only convolutions and wide layers use it; leave out `--precision`",
        r"--precision=mixed_bfloat16 changes nothing",
    ),
)


def level(cell: Cell, factor: str) -> str:
    return cell[list(FACTORS).index(factor)]


def groups(levels: Iterable[Level], size: int) -> set[frozenset[Level]]:
    """Return all combinations of ``size`` levels."""
    return set(map(frozenset, itertools.combinations(levels, size)))


def refusals(levels: Iterable[Level]) -> list[Refusal]:
    """Return the refusals of these levels; empty if they work together."""
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
    """Return the levels, or pairs of levels, of one refusal."""
    sides = [
        [(factor, name) for name in names]
        for factor, names in filter(None, (refusal.one, refusal.other))
    ]
    return list(itertools.product(*sides))


def refused_cell(levels: Iterable[Level]) -> Cell:
    """Return a cell with these levels and as few other refusals as possible."""
    chosen = dict(levels)
    for factor, names in FACTORS.items():

        def count(name, factor=factor):
            return len(refusals({**chosen, factor: name}.items()))

        chosen[factor] = chosen.get(factor) or min(names, key=count)
    return tuple(chosen[factor] for factor in FACTORS)


@functools.cache
def cells(size: int) -> tuple[Cell, ...]:
    """Return cells that contain every allowed combination of ``size`` levels."""
    every = [(factor, name) for factor, names in FACTORS.items() for name in names]
    missing = {group for group in groups(every, size) if len(dict(group)) == size}
    found = []
    while missing:
        group = min(missing, key=lambda group: sorted(map(every.index, group)))
        cell = _completed(dict(group), missing)
        if cell is None:  # these levels do not work together
            missing.remove(group)
        else:
            found.append(cell)
            missing -= groups(zip(FACTORS, cell, strict=True), size)
    return tuple(found)


def _completed(chosen: Mapping[str, str], missing: set) -> Cell | None:
    """Return a cell with the chosen levels and many missing combinations."""
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

## Choices

Almost every combination of these choices works:

* observation space, action space, and an action mask
* feed-forward, GRU or LSTM network (`--algorithm.network.core`)
* environments in this process (`--num_workers=0`), in worker processes with the native
  backend (`backend="native"`) or the portable one, or written in TensorFlow (`tf/...`)
* `--compile`, `--precision`, `--overlap`
* a fixed number of steps (`--rollout.length`) or whole episodes (`--rollout.episodes`)

The table lists the pairs that do not work. Tests have trained with every other pair. A
pair of the table is refused before training, with a `UserError` that says what to do
instead. The last column quotes it; `...` stands for text that depends on the run.

| choice | does not work with | reason, and what to do | error |
|---|---|---|---|
"""
_ALGORITHMS = """\
<!-- Written by `python -m tests.support.capabilities`; do not edit. -->
# What works together

## Algorithms

Every algorithm takes all observations: Box, images, Discrete, MultiDiscrete,
MultiBinary, and Dicts and Tuples of these.

"""
_VARIES = re.compile(r"(?:\.|\\w|\\d)[*+]")  # variable part of a regular expression


def page() -> str:
    """Return the text of ``docs/capabilities.md``."""
    rows = [
        f"| {each.choice} | {each.against} | {each.why} | {_quoted(each.error)} |\n"
        for each in REFUSED
    ]
    return "".join([_ALGORITHMS, algorithms(), _INTRO, *rows])


# ---- the table of algorithms, which README has too

_PART = gs.Dict(
    numbers=gs.Box(-1, 1, (3,)),
    image=gs.Box(0, 255, (10, 10, 1), np.uint8),
    pair=gs.Tuple([gs.Discrete(3), gs.MultiDiscrete([2, 3]), gs.MultiBinary(2)]),
)
_ACTIONS = {
    "Discrete": gs.Discrete(3),
    "MultiDiscrete": gs.MultiDiscrete([3, 2]),
    "MultiBinary": gs.MultiBinary(3),
    "Box": gs.Box(-1, 1, (2,)),
    "Dict and Tuple": gs.Tuple([gs.Discrete(3), gs.Box(-1, 1, (2,))]),
}
_EXPERIENCE = {
    "rollouts": "rollouts",
    "windows": "a replay",
    "rows": "[logged rows](offline.md)",
}


def with_algorithms(readme: str) -> str:
    """Return the text of README with the current table of algorithms."""
    rows = algorithms().replace("](", "](docs/")
    return re.sub(r"\| algorithm \| actions .*?\n(?!\|)", rows, readme, flags=re.DOTALL)


@functools.cache
def algorithms() -> str:
    """Return the table of algorithms, as found by the construction of each one."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, (_, settings) in REGISTRY.items():
        taken = [each for each in _ACTIONS if _takes(name, each)]
        masked = [each for each in taken if _takes(name, each, mask=True)]
        fields = {x.name for x in dataclasses.fields(settings().network)}
        memory = ["GRU, LSTM"] if "core" in fields else []
        memory += ["your own"] if "value_core" in fields else []
        one_step = {"n_step": 1} if hasattr(settings, "n_step") else {}
        accepted = config.replace(settings(), one_step).accepts()
        learns = [_EXPERIENCE[each] for each in accepted]
        row = taken, masked, memory, learns
        cells = tuple(", ".join(each) or "no" for each in row)
        found.setdefault(cells, []).append(name)
    head = "| algorithm | actions | action masks | memory | learns from |\n"
    lines = [f"| {_names(x)} | {' | '.join(cells)} |\n" for cells, x in found.items()]
    return head + "|---|---|---|---|---|\n" + "".join(lines)


def _takes(name: str, action: str, mask: bool = False) -> bool:
    """Return whether an algorithm can be created for actions, observing everything."""
    space = _ACTIONS[action]
    parts = {**_PART.spaces}
    if mask:
        width = {"MultiDiscrete": 5, "Box": 2}
        parts["action_mask"] = gs.MultiBinary(width.get(action, 3))
    kind, settings = REGISTRY[name]
    small = config.replace(settings(), {"network": {"hidden": (4,)}})
    try:
        kind(small, EnvSpec(2, gs.Dict(parts), space, {}))
    except UserError:
        return False
    return True


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _quoted(error: str) -> str:
    """Show a regular expression as the text that it matches."""
    return f'"{_VARIES.sub("...", error)}"'


if __name__ == "__main__":
    PAGE.write_text(page())
    README.write_text(with_algorithms(README.read_text()))
