"""Work of learning a task up to a threshold, and the tasks.

Peers import this file too, in an interpreter that may have no TensorFlow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

OURS, PEER = "learn_ours", "learn_sb3"


@dataclasses.dataclass(frozen=True)
class Learning:
    """Training until greedy episodes have a mean return of ``threshold``.

    Training uses the preset's environment: ``env``, or its version in the graph.
    Schedules do not depend on ``steps``.
    """

    env: str  # Gymnasium id for evaluations
    preset: str  # our preset; the peer has its own for the id
    threshold: float  # mean return of an evaluation that ends the run
    steps: int  # env steps that end the run anyway
    eval_every: int  # env steps between evaluations, after an iteration; 0: none
    episodes: int  # of an evaluation
    seed: int = 1  # of the run and of the evaluations' episodes
    seconds: float | None = None  # to train after the first iteration, for ``steps``
    # Seconds from the launch, with evaluations. The iteration that reaches them is the
    # last, even if the threshold is not reached.
    deadline: float | None = None
    # Settings of the peer: ``threads`` of PyTorch, ``vectorisation``.
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    cache_home: str = ""  # folder for our caches; "" for the user's
    launched: float = 0.0  # ``time.time()`` when the process was launched

    def episode_seeds(self) -> list[int]:
        """Return the seeds of an evaluation's episodes, different for every run."""
        return [10_000 * self.seed + i for i in range(self.episodes)]

    def config(self) -> dict[str, Any]:
        """Return the fields to publish, without those of this machine."""
        fields = dataclasses.asdict(self)
        return {k: v for k, v in fields.items() if k not in ("cache_home", "launched")}


class Task(NamedTuple):
    """A threshold to reach; ``steps`` and ``deadline`` change its work."""

    title: str  # in tables
    work: Learning  # of every contender
    steps: Mapping[str, int]  # env steps; a contender without an entry does not run
    goal: float  # ratio of the peer's time to ours; without a peer, most seconds
    deadline: float  # seconds of one run, with evaluations
    # Vectorisations of the peer that may be its fastest.
    vectorisations: tuple[str, ...] = ("dummy", "forkserver")


TASKS = {
    "cartpole-475": Task(
        "CartPole-v1, mean return 475",
        Learning("CartPole-v1", "cartpole", 475, 200_000, 5_000, 20),
        # The peer's preset learns no longer, because its learning rate ends at 0.
        {OURS: 200_000, PEER: 100_000},
        goal=2,
        deadline=1200,
    ),
    "pendulum-200": Task(
        "Pendulum-v1, mean return -200",
        Learning("Pendulum-v1", "pendulum", -200, 300_000, 10_000, 20),
        {OURS: 300_000, PEER: 300_000},
        goal=2,
        deadline=1800,
    ),
    "halfcheetah-2000": Task(
        "HalfCheetah-v5, mean return 2000",
        Learning("HalfCheetah-v5", "halfcheetah", 2000, 1_500_000, 20_000, 5),
        {OURS: 1_000_000, PEER: 1_500_000},
        goal=4,
        deadline=7200,
        vectorisations=("dummy",),  # the peer's preset has one environment
    ),
    "tf-cartpole-475": Task(
        "CartPole-v1 in the graph, mean return 475",
        Learning("CartPole-v1", "tf/cartpole", 475, 200_000, 5_000, 20),
        {OURS: 200_000},
        goal=15,
        deadline=1200,
    ),
}
ALIASES = {"PF-11": tuple(name for name, task in TASKS.items() if PEER in task.steps)}
