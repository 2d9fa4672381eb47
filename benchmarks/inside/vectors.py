"""Loops in Python over the peers' vectorised environments."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.inside import session
from benchmarks.work.stepping import Stepping, versions


class NextStep:
    """Loop over Gymnasium's: the step after an episode ignores its action and restarts.

    Args:
      work: what to step.
      envs: a ``gymnasium.vector.VectorEnv`` in its default autoreset mode.
      workers: number of its processes.
      actions: actions of a block of steps.
    """

    unit = "env steps"

    def __init__(self, work: Stepping, envs: Any, workers: int, actions: np.ndarray):
        mode = envs.metadata["autoreset_mode"].name
        if mode != "NEXT_STEP":
            raise ValueError(f"autoreset mode is {mode}; expected NEXT_STEP")
        self.same = work.same(work.constructor(), actions)
        self.own = {"workers": workers, "autoreset": "next step"}
        self.versions: dict[str, str] = {}
        self._envs, self._actions = envs, actions
        envs.reset(seed=work.seed)
        self._over = np.zeros(work.num_envs, bool)

    def compile(self) -> int:
        return 0

    def measure(self, seconds: float, blocks: int | None) -> session.Measured:
        return session.repeat(self._block, seconds, blocks)

    def close(self) -> None:
        self._envs.close()

    def _block(self) -> int:
        step, over, restarts = self._envs.step, self._over, 0
        for action in self._actions:
            restarts += np.count_nonzero(over)
            _, _, terminated, truncated, _ = step(action)
            over = terminated | truncated
        self._over = over
        return self._actions.shape[0] * self._actions.shape[1] - int(restarts)


class SameStep:
    """Loop over Stable-Baselines3's: an environment restarts in its last step.

    Args:
      work: what to step.
      envs: a ``VecEnv``.
      workers: number of its processes.
      actions: actions of a block of steps.
    """

    unit = "env steps"

    def __init__(self, work: Stepping, envs: Any, workers: int, actions: np.ndarray):
        self.same = work.same(work.constructor(), actions)
        self.own = {"workers": workers, "autoreset": "same step"}
        self.versions = versions("stable-baselines3", "torch")
        self._envs, self._actions = envs, actions
        envs.seed(work.seed)
        envs.reset()

    def compile(self) -> int:
        return 0

    def measure(self, seconds: float, blocks: int | None) -> session.Measured:
        return session.repeat(self._block, seconds, blocks)

    def close(self) -> None:
        self._envs.close()

    def _block(self) -> int:
        step = self._envs.step
        for action in self._actions:
            step(action)
        return self._actions.shape[0] * self._actions.shape[1]
