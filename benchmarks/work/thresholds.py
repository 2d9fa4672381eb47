"""The work of learning a task up to a threshold, and the tasks.

Peers run this file too, in an interpreter that may have no TensorFlow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

OURS, PEER = "learn_ours", "learn_sb3"


@dataclasses.dataclass(frozen=True)
class Learning:
    """Train until greedy episodes have a mean return of ``threshold``.

    Attributes:
      env: Gymnasium id, which evaluations play; training is on the preset's, that
        or the same in the graph.
      preset: name of ours; the peer has its own for the id.
      threshold: mean return of an evaluation that ends the run.
      steps: environment steps after which it ends anyway; schedules do not know them.
      eval_every: environment steps between evaluations, which happen at the end of an
        iteration; 0 never.
      episodes: of an evaluation.
      seed: of everything, and of the evaluations' episodes.
      seconds: to train for after the first iteration, instead of ``steps``.
      deadline: seconds from the launch, evaluations included, after which it ends with
        its iteration; what it has not reached by then takes longer.
      settings: of the peer: ``threads`` of PyTorch, ``vectorisation``.
      cache_home: folder for what ours keeps between processes; "" for the user's.
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
        """Of one evaluation; those of other runs are others."""
        return [10_000 * self.seed + i for i in range(self.episodes)]

    def config(self) -> dict[str, Any]:
        """What to publish: nothing of this machine."""
        kept = dataclasses.asdict(self)
        return {k: v for k, v in kept.items() if k not in ("cache_home", "launched")}


class Task(NamedTuple):
    """A threshold to reach.

    Attributes:
      title: in tables.
      work: of every contender, but for what follows.
      steps: each contender's own budget; who has none does not run.
      goal: how many times sooner ours shall be; without a peer, its seconds.
      deadline: seconds for one run, evaluations included; it then counts as one that
        has not reached the threshold by the time its clock had.
      vectorisations: of the peer that may be its fastest.
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
        # The peer's preset has learned all it will by then: its step size is 0.
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
