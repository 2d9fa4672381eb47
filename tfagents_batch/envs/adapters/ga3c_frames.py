"""Frames of Atari games as GA3C observes them: gray, stretched, 84 x 84."""

from __future__ import annotations

import gymnasium
import numpy as np

SIZE = 84
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


class GA3CFrames(gymnasium.ObservationWrapper):
    """Observe screens as uint8 ``[84, 84, 1]``.

    Gray values of each frame are stretched from their own range to 0 to 255, because
    the original resizes with a function of SciPy that does so (Babaeizadeh et al. 2017,
    arXiv:1611.06256, and its code). It resizes by linear interpolation whose width
    grows with the reduction, like Pillow's.

    Args:
      env: game that observes RGB screens.
    """

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        screen = env.observation_space.shape
        assert screen is not None  # of a Box
        height, width, _ = screen
        self._rows, self._columns = _linear(height, SIZE), _linear(width, SIZE).T
        self.observation_space = gymnasium.spaces.Box(0, 255, (SIZE, SIZE, 1), np.uint8)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        gray = observation.astype(np.float32) @ _LUMA
        low, high = gray.min(), gray.max()
        stretched = np.rint((gray - low) * (255 / max(high - low, 1e-6)))
        reduced = self._rows @ stretched @ self._columns
        return np.rint(reduced).clip(0, 255).astype(np.uint8)[..., None]


def _linear(size: int, wanted: int) -> np.ndarray:
    """Return the matrix ``[wanted, size]`` that reduces a side."""
    scale = size / wanted
    centers = (np.arange(wanted)[:, None] + 0.5) * scale
    distance = np.abs(np.arange(size) + 0.5 - centers) / scale
    weights = np.maximum(1 - distance, 0)
    return (weights / weights.sum(1, keepdims=True)).astype(np.float32)
