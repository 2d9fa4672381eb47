"""Replay of steps in NumPy arrays, sampled as windows within episodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Windows(NamedTuple):
    """N windows of T steps."""

    observation: np.ndarray  # f32 [T + 1, N, n], with the one after the last step
    action: np.ndarray  # f32 [T, N, A]
    reward: np.ndarray  # f32 [T, N]
    terminated: np.ndarray  # f32 [T, N]
    state: np.ndarray  # f32 [N, units], recurrent, before the first step


class Replay:
    """The newest ``rows`` steps of each of B environments.

    Args:
      rows, num_envs: see above.
      length: T.
      sizes: numbers of an observation, of an action and of a recurrent state.
      seed: of the windows.
    """

    def __init__(
        self,
        rows: int,
        num_envs: int,
        length: int,
        sizes: tuple[int, int, int],
        seed: int,
    ):
        self._shape, self._length = (rows, num_envs), length
        self._random = np.random.default_rng(seed)
        numbers, actions, units = sizes
        self._observation, self._next, self._action, self._state = (
            np.zeros((rows, num_envs, size), np.float32)
            for size in (numbers, numbers, actions, units)
        )
        self._reward, self._terminated = np.zeros((2, rows, num_envs), np.float32)
        self._age = np.zeros((rows, num_envs), int)  # steps before it in its episode
        self._now, self._count = np.zeros(num_envs, int), 0

    def add(
        self,
        observation: np.ndarray,  # f32 [B, n]
        action: np.ndarray,  # f32 [B, A]
        reward: np.ndarray,  # f32 [B]
        after: np.ndarray,  # f32 [B, n], the next observation, before a restart
        terminated: np.ndarray,  # f32 [B]
        over: np.ndarray,  # bool [B]
        state: np.ndarray,  # f32 [B, units], before the step
    ) -> None:
        """Store a step of all environments."""
        row = self._count % self._shape[0]
        self._observation[row], self._next[row] = observation, after
        self._action[row], self._state[row] = action, state
        self._reward[row], self._terminated[row] = reward, terminated
        self._age[row] = self._now
        self._now = np.where(over, 0, self._now + 1)
        self._count += 1

    def sample(self, count: int) -> Windows:
        """Return windows drawn uniformly from those within an episode."""
        last, env = self._ends(count)
        rows = (last - np.arange(self._length)[::-1, np.newaxis]) % self._shape[0]
        return Windows(
            np.concatenate([self._observation[rows, env], self._next[rows[-1:], env]]),
            self._action[rows, env],
            self._reward[rows, env],
            self._terminated[rows, env],
            self._state[rows[0], env],
        )

    def _ends(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and environments of last steps, int ``[count]`` each."""
        size, before = self._shape[0], self._length - 1
        found = np.empty((2, 0), int)
        oldest = max(0, self._count - size)
        while found.shape[1] < count:  # most draws are of use
            row = self._random.integers(oldest + before, self._count, 2 * count)
            drawn = np.stack(
                [row % size, self._random.integers(self._shape[1], size=2 * count)]
            )
            whole = self._age[drawn[0], drawn[1]] >= before
            found = np.concatenate([found, drawn[:, whole]], 1)
        return found[0, :count], found[1, :count]
