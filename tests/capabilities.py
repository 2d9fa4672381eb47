"""What goes together: cells that are trained, what is refused, and the page of both.

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


def pairs(cell: Cell) -> set[frozenset[Level]]:
    """All pairs of a cell's levels."""
    return _pairs(zip(FACTORS, cell, strict=True))


def _pairs(levels: Iterable[Level]) -> set[frozenset[Level]]:
    return {frozenset(pair) for pair in itertools.combinations(levels, 2)}


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
    """As plain a cell as can be with these levels; little else in it is refused."""
    chosen = dict(levels)
    least = len(refusals(chosen.items()))
    best = None
    for cell in itertools.product(
        *([chosen[f]] if f in chosen else names for f, names in FACTORS.items())
    ):
        count = len(refusals(zip(FACTORS, cell, strict=True)))
        if best is None or count < best[0]:
            best = count, cell
        if count == least:
            break
    return best[1]


@functools.cache
def cells() -> tuple[Cell, ...]:
    """Cells to be trained: every pair of levels that go together is in one of them."""
    every = [(factor, name) for factor, names in FACTORS.items() for name in names]
    missing = {pair for pair in _pairs(every) if len(dict(pair)) == 2}
    found = []
    while missing:
        pair = min(missing, key=lambda pair: sorted(map(every.index, pair)))
        cell = _completed(dict(pair), missing)
        if cell is None:  # they do not go together
            missing.remove(pair)
        else:
            found.append(cell)
            missing -= pairs(cell)
    return tuple(found)


def _completed(chosen: Mapping[str, str], missing: set) -> Cell | None:
    """A cell with the levels that are chosen, and many of the missing pairs."""
    if refusals(chosen.items()):
        return None
    rest = [factor for factor in FACTORS if factor not in chosen]
    if not rest:
        return tuple(chosen[factor] for factor in FACTORS)
    factor = rest[0]

    def gain(name):
        new = [frozenset(((factor, name), other)) for other in chosen.items()]
        return len(missing.intersection(new))

    for name in sorted(FACTORS[factor], key=gain, reverse=True):
        cell = _completed({**chosen, factor: name}, missing)
        if cell is not None:
            return cell
    return None


@functools.cache
def quick() -> tuple[Cell, ...]:
    """Some of the cells, in which every level occurs that can be trained at all."""
    missing = {level for cell in cells() for level in zip(FACTORS, cell, strict=True)}
    found = []
    while missing:
        best = max(cells(), key=lambda cell: (_new(cell, missing), -_cost(cell)))
        found.append(best)
        missing -= set(zip(FACTORS, best, strict=True))
    return tuple(found)


def _new(cell: Cell, missing: set[Level]) -> int:
    return len(missing.intersection(zip(FACTORS, cell, strict=True)))


def _cost(cell: Cell) -> int:
    """Compiling is what takes long."""
    recurrent = level(cell, "core") != "feed-forward"
    return FACTORS["compile"].index(level(cell, "compile")) * (1 + recurrent)


# ---- the page

_INTRO = """\
# What goes together

Made by `python -m tests.capabilities` from the cells that `tests/test_capabilities.py`
runs; do not edit. *yes*: a cell below with both was trained for two updates on tiny
environments; all that it gave was finite and the weights moved. A number: refused, with
a `UserError` that says what to do, for the reason of that number. Every pair that is
not refused is in a cell.

Observations: *Box* is a vector of floats, *image* bytes; *Dict* and *Tuple* hold a
vector and discrete values. A *mask* is `observation["action_mask"]`, beside any of
them. Routes: environments in *this process* (`--num_workers=0`), in worker processes on
the *portable* or the *native* route, or *in the graph* (`tf/...`). *off*, *update* and
*full* are of `--compile`, *episodes* is `--update_every`, *overlap* `--overlap`,
*bfloat16* `--precision=mixed_bfloat16`, *several* `--seeds`. All cells are of
{algorithms}.
"""
_SHOWN = {
    "core": FACTORS["core"],
    "route": FACTORS["route"],
    "compile": FACTORS["compile"],
    "source": ("episodes",),
    "collecting": ("overlap",),
    "precision": ("bfloat16",),
    "seeds": ("several",),
}


def page() -> str:
    """The text of ``docs/capabilities.md``."""
    ways = [(factor, name) for factor, names in _SHOWN.items() for name in names]
    seen = [("observation", name) for name in FACTORS["observation"]]
    seen.append(("mask", "mask"))
    acted = [("action", name) for name in FACTORS["action"]]
    used = " and ".join(name.upper() for name in FACTORS["algorithm"])
    parts = [
        _INTRO.format(algorithms=used),
        "## Observations and actions\n",
        _table(seen, acted),
        "## Spaces and ways to train\n",
        _table(seen + acted, ways),
        "## Ways to train, with each other\n",
        _table(ways, ways),
        "## What is refused\n",
        _reasons(),
        "## The cells\n",
        f"{len(quick())} of them, in bold, in every run of the tests, the others with "
        "`-m slow`.\n",
        _cells(),
    ]
    return "\n".join(parts)


def _table(rows: list[Level], columns: list[Level]) -> str:
    trained = set().union(*map(pairs, cells()))

    def entry(one, other):
        if one[0] == other[0]:
            return ""
        if frozenset((one, other)) in trained:
            return "yes"
        reasons = refusals((one, other))
        return ", ".join(str(REFUSED.index(each) + 1) for each in reasons) or "no"

    table = [["", *map(_title, columns)]]
    table += [[_title(row), *(entry(row, each) for each in columns)] for row in rows]
    return _markdown(table)


def _title(level: Level) -> str:
    factor, name = level
    kinds = {"observation": "observe ", "action": "act ", "compile": "compile "}
    return kinds.get(factor, "") + name + (" seeds" if factor == "seeds" else "")


def _reasons() -> str:
    def side(part):
        factor, names = part
        return " or ".join(_title((factor, name)) for name in names)

    lines = []
    for number, (one, other, why, _) in enumerate(REFUSED, 1):
        what = side(one) + (f" with {side(other)}" if other else "")
        lines.append(f"{number}. {what}: {why}\n")
    return "".join(lines)


def _cells() -> str:
    table = [[*FACTORS]]
    for cell in cells():
        mark = "**" if cell in quick() else ""
        table.append([f"{mark}{name}{mark}" for name in cell])
    return _markdown(table)


def _markdown(table: list[list[str]]) -> str:
    lines = ["|" + "".join(f" {x} |" if x else " |" for x in row) for row in table]
    lines.insert(1, "|" + "---|" * len(table[0]))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
