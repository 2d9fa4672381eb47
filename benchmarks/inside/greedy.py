"""Greedy episodes, with the same seeds and rules for all contenders."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import gymnasium
import numpy as np

from benchmarks.work.stepping import make

Act = Callable[[np.ndarray], np.ndarray]


class EvaluationEnvs:
    """Environments for evaluations only, one for each episode.

    Args:
      env: Gymnasium id.
      seeds: seeds of the episodes, the same in every evaluation.
    """

    def __init__(self, env: str, seeds: Sequence[int]):
        self._seeds = seeds
        self._envs = [make(env, {}) for _ in seeds]
        self._space = self._envs[0].action_space

    def returns(self, act: Act) -> list[float]:
        """Play one episode in each environment; return the undiscounted returns.

        Args:
          act: function from observations ``[n, ...]`` to actions ``[n, ...]`` for n
            episodes; actions of finished episodes are ignored.
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
