"""What is compared: rows, declared as data. Training rows will stand beside these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.contenders import ASYNC, LIMIT, SUBPROC, Contender
from benchmarks.stepping import Stepping
from tfagents_batch.errors import UserError
from tfagents_batch.suggest import unknown


class Row(NamedTuple):
    """One comparison.

    Attributes:
      title: in tables.
      work: a dataclass with ``seconds``, ``blocks`` and ``num_workers``; every
        contender does it.
      subject: the contender whose ratios are taken.
      rivals: the contenders they are taken to.
      goals: least ratio, by the peer or the kind of rivals.
    """

    title: str
    work: Any
    subject: str
    rivals: tuple[str, ...]
    goals: Mapping[str, float] = {}

    def goal(self, rival: Contender) -> float | None:
        """Least ratio to such a rival; None if there is no goal."""
        return self.goals.get(rival.kind, self.goals.get(rival.peer))


_RIVALS = (
    *("bare", "portable", "gymnasium_async", "gymnasium_async_limited"),
    *("gymnasium_sync", "sb3_forkserver", "sb3_spawn", "sb3_dummy"),
)

ENVIRONMENTS = {
    "cartpole-32": Row(
        "32 CartPole-v1",
        Stepping("CartPole-v1", 32),
        "native",
        _RIVALS,
        {ASYNC: 8, SUBPROC: 8, LIMIT: 0.6},
    ),
    "cartpole-8": Row("8 CartPole-v1", Stepping("CartPole-v1", 8), "native", _RIVALS),
    "halfcheetah-8": Row(
        "8 HalfCheetah-v5",
        Stepping("HalfCheetah-v5", 8),
        "native",
        _RIVALS,
        {LIMIT: 0.9},
    ),
}

# The goals page numbers its rows; these are the ones that they mean.
ALIASES = {
    "PF-7": ("cartpole-32",),
    "PF-8": ("cartpole-32", "halfcheetah-8"),
}


def select(
    names: Sequence[str],
    rows: Mapping[str, Any],
    aliases: Mapping[str, Sequence[str]] = ALIASES,
) -> dict[str, Any]:
    """Rows by name or alias, all if none is named, each once and in their order.

    Raises:
      UserError: for a name that is neither.
    """
    wanted = set()
    for name in names or rows:
        if name not in rows and name not in aliases:
            raise UserError(unknown("row", name, [*rows, *aliases]))
        wanted |= set(aliases.get(name, [name]))
    return {name: row for name, row in rows.items() if name in wanted}
