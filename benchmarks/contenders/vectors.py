"""Vectorised environments of Gymnasium and Stable-Baselines3, in a loop in Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.inside import sb3, session
from benchmarks.work.works import Stepping, versions


def load(library: str, **_: Any) -> None:
    """Import a library."""
    if library == "sb3":
        import stable_baselines3.common.vec_env  # noqa: F401
    else:
        import gymnasium.vector  # noqa: F401


class Loop:
    """Blocks of steps.

    Stable-Baselines3's environments restart in an episode's last step. Those of
    Gymnasium restart in the step after it, which ignores its action.
    """

    def __init__(self, work: Stepping, vectorisation: str, library: str):
        self._actions = work.actions()
        self._over = np.zeros(work.num_envs, bool)
        self._restarts_later = library == "gymnasium"
        autoreset = "same step"
        if self._restarts_later:
            self._envs = _gymnasium(work, vectorisation)
            self._envs.reset(seed=work.seed)
            autoreset = "next step"
        else:
            constructor = work.constructor()
            self._envs = sb3.vectorised(constructor, work.num_envs, vectorisation)
            self._envs.seed(work.seed)
            self._envs.reset()
        workers = 0 if vectorisation in ("sync", "dummy") else work.num_envs
        self.same = work.same(self._actions)
        self.own = {"workers": workers, "autoreset": autoreset}
        self.versions = versions("stable-baselines3", "torch")
        self.close = self._envs.close

    def block(self) -> int:
        step, over, restarts = self._envs.step, self._over, 0
        if self._restarts_later:
            for action in self._actions:
                restarts += np.count_nonzero(over)
                _, _, terminated, truncated, _ = step(action)
                over = terminated | truncated
            self._over = over
        else:
            for action in self._actions:
                step(action)
        return self._actions.shape[0] * self._actions.shape[1] - int(restarts)


def _gymnasium(work: Stepping, vectorisation: str) -> Any:
    from gymnasium import vector

    constructors = [work.constructor()] * work.num_envs
    kind = {"sync": vector.SyncVectorEnv, "async": vector.AsyncVectorEnv}[vectorisation]
    envs = kind(constructors, copy=False)
    mode = envs.metadata["autoreset_mode"].name
    if mode != "NEXT_STEP":
        raise ValueError(f"autoreset mode is {mode}; expected NEXT_STEP")
    return envs


if __name__ == "__main__":
    session.main(load, Loop, Stepping)
