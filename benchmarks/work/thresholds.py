"""Work of learning a task up to a threshold, and the tasks.

Peers run this file too, in an interpreter that may have no TensorFlow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

OURS, PEER = "learn_ours", "learn_sb3"


@dataclasses.dataclass(frozen=True)
class Learning:
    """Training until greedy episodes have a mean return of ``threshold``.

    Attributes:
      env: Gymnasium id for evaluations. Training uses the preset's environment: the
        same id, or its version in the graph.
      preset: name of our preset; the peer has its own for the id.
      threshold: mean return of an evaluation that ends the run.
      steps: environment steps that end the run anyway; schedules do not depend on them.
      eval_every: environment steps between evaluations, which run at the end of an
        iteration; 0 for none.
      episodes: number of episodes of an evaluation.
      seed: seed of the run and of the evaluations' episodes.
      seconds: seconds to train after the first iteration, instead of ``steps``.
      deadline: seconds from the launch, with evaluations. The iteration that reaches
        them is the last, even if the threshold is not reached.
      settings: settings of the peer: ``threads`` of PyTorch, ``vectorisation``.
      cache_home: folder for our caches; "" for the user's.
      launched: ``time.time()`` when the process was launched.
    """

    env: str
    preset: str
    threshold: float
    steps: int
    eval_every: int
    episodes: int
    seed: int = 1
    seconds: float | None = None
    deadline: float | None = None
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    cache_home: str = ""
    launched: float = 0.0

    def episode_seeds(self) -> list[int]:
        """Return the seeds of an evaluation's episodes, different for every run."""
        return [10_000 * self.seed + i for i in range(self.episodes)]

    def config(self) -> dict[str, Any]:
        """Return the fields to publish, without those of this machine."""
        fields = dataclasses.asdict(self)
        return {k: v for k, v in fields.items() if k not in ("cache_home", "launched")}


class Task(NamedTuple):
    """A threshold to reach.

    Attributes:
      title: title in tables.
      work: work of every contender; the next fields change it.
      steps: environment steps of each contender; one without an entry does not run.
      goal: ratio of the peer's time to ours; without a peer, our maximum of seconds.
      deadline: seconds of one run, with evaluations. A run that it ends has not reached
        the threshold.
      vectorisations: vectorisations of the peer that may be its fastest.
    """

    title: str
    work: Learning
    steps: Mapping[str, int]
    goal: float
    deadline: float
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
