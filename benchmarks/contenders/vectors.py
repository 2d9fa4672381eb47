"""Vectorised environments of Gymnasium and Stable-Baselines3, in a loop in Python."""

from __future__ import annotations

import gymnasium
import numpy as np

from benchmarks.inside import sb3, session
from benchmarks.work.works import Stepping, versions


class Loop:
    """Blocks of steps.

    Stable-Baselines3's environments restart in an episode's last step. Those of
    Gymnasium restart in the step after it, which ignores its action.
    """

    def __init__(self, work: Stepping, vectorisation: str):
        self._actions = work.actions()
        self._over = np.zeros(work.num_envs, bool)
        kind = getattr(gymnasium.vector, vectorisation, None)
        self._restarts_later = kind is not None
        if kind:
            self._envs = kind([work.constructor()] * work.num_envs, copy=False)
            assert self._envs.metadata["autoreset_mode"].name == "NEXT_STEP"
            self._envs.reset(seed=work.seed)
        else:
            constructor = work.constructor()
            self._envs = sb3.vectorised(constructor, work.num_envs, vectorisation)
            self._envs.seed(work.seed)
            self._envs.reset()
        here = vectorisation in ("SyncVectorEnv", "dummy")
        self.same = work.same(self._actions)
        self.own = {
            "workers": 0 if here else work.num_envs,
            "autoreset": "next step" if kind else "same step",
        }
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


if __name__ == "__main__":
    session.main(Loop)
