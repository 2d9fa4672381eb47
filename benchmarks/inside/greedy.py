"""Greedy episodes, played the same way and from the same starts for all contenders."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import gymnasium
import numpy as np

from benchmarks.work.stepping import make

Act = Callable[[np.ndarray], np.ndarray]


class Games:
    """Environments of an evaluation's own, one for each episode.

    Args:
      env: Gymnasium id.
      seeds: of the episodes; every evaluation plays these.
    """

    def __init__(self, env: str, seeds: Sequence[int]):
        self._seeds = seeds
        self._envs = [make(env, {}) for _ in seeds]
        self._space = self._envs[0].action_space

    def returns(self, act: Act) -> list[float]:
        """Play one episode in each environment, all in step; undiscounted returns.

        Args:
          act: actions ``[n, ...]`` of observations ``[n, ...]``, where n is the number
            of episodes; rows that are over are asked for too, and ignored.
        """
        pairs = zip(self._envs, self._seeds, strict=True)
        observations = np.stack([env.reset(seed=seed)[0] for env, seed in pairs])
        returns, running = np.zeros(len(self._envs)), set(range(len(self._envs)))
        while running:
            actions = act(observations)
            for i in sorted(running):
                observation, reward, terminated, truncated, _ = self._envs[i].step(
                    self._valid(actions[i])
                )
                observations[i] = observation
                returns[i] += reward
                if terminated or truncated:
                    running.remove(i)
        return returns.tolist()

    def close(self) -> None:
        """Close the environments."""
        for env in self._envs:
            env.close()

    def _valid(self, action: np.ndarray):
        if isinstance(self._space, gymnasium.spaces.Box):
            return np.clip(action, self._space.low, self._space.high)
        return int(action)
