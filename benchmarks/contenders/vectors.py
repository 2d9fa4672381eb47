"""Vectorised environments of Gymnasium and Stable-Baselines3, in loops in Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.inside import sb3, session
from benchmarks.work.works import Stepping, versions


def start(
    work: Stepping,
    vectorisation: str,
    library: str = "gymnasium",
    max_concurrency: int | None = None,
) -> NextStep | SameStep:
    """Return a session.

    Args:
      work: what to step.
      vectorisation: of Gymnasium "sync" or "async"; of Stable-Baselines3 as in
        ``sb3.vectorised``.
      library: "gymnasium" or "sb3".
      max_concurrency: largest number of Gymnasium's processes that step at a time.
    """
    workers = 0 if vectorisation in ("sync", "dummy") else work.num_envs
    if library == "sb3":
        envs = sb3.vectorised(work.constructor(), work.num_envs, vectorisation)
        return SameStep(work, envs, workers)

    from gymnasium import vector

    constructors = [work.constructor()] * work.num_envs
    if vectorisation == "sync":
        envs: Any = vector.SyncVectorEnv(constructors, copy=False)
    else:
        options = {"shared_memory": True, "max_concurrency": max_concurrency}
        envs = vector.AsyncVectorEnv(constructors, copy=False, **options)
    return NextStep(work, envs, workers)


class NextStep:
    """Loop over Gymnasium's: the step after an episode ignores its action and restarts.

    The environments are a ``VectorEnv`` in its default autoreset mode.
    """

    def __init__(self, work: Stepping, envs: Any, workers: int):
        mode = envs.metadata["autoreset_mode"].name
        if mode != "NEXT_STEP":
            raise ValueError(f"autoreset mode is {mode}; expected NEXT_STEP")
        self._envs, self._actions = envs, work.actions()
        self.same = work.same(self._actions)
        self.own = {"workers": workers, "autoreset": "next step"}
        self.versions: dict[str, str] = {}
        self.close = envs.close
        envs.reset(seed=work.seed)
        self._over = np.zeros(work.num_envs, bool)

    def block(self) -> int:
        step, over, restarts = self._envs.step, self._over, 0
        for action in self._actions:
            restarts += np.count_nonzero(over)
            _, _, terminated, truncated, _ = step(action)
            over = terminated | truncated
        self._over = over
        return self._actions.shape[0] * self._actions.shape[1] - int(restarts)


class SameStep:
    """Loop over Stable-Baselines3's: an environment restarts in its last step."""

    def __init__(self, work: Stepping, envs: Any, workers: int):
        self._envs, self._actions = envs, work.actions()
        self.same = work.same(self._actions)
        self.own = {"workers": workers, "autoreset": "same step"}
        self.versions = versions("stable-baselines3", "torch")
        self.close = envs.close
        envs.seed(work.seed)
        envs.reset()

    def block(self) -> int:
        step = self._envs.step
        for action in self._actions:
            step(action)
        return self._actions.shape[0] * self._actions.shape[1]


def load(library: str = "gymnasium", **_: Any) -> None:
    """Import a library."""
    if library == "sb3":
        import stable_baselines3.common.vec_env  # noqa: F401
    else:
        import gymnasium.vector  # noqa: F401


if __name__ == "__main__":
    session.main(load, start, Stepping)
