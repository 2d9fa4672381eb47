"""Pictures of environments' states."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium
import numpy as np


def cells(colors: np.ndarray, size: int = 20) -> np.ndarray:
    """Return a picture of squares with the colors uint8 ``[rows, columns, 3]``."""
    return np.kron(colors, np.ones([size, size, 1], np.uint8))


def like_gymnasium(id: str, state: Any) -> np.ndarray:
    """Return the picture of a state in the form of Gymnasium's environment ``id``.

    It is uint8 ``[height, width, 3]``, and needs pygame as Gymnasium's own does.
    """
    env = _environment(id)
    env.state = state
    return np.asarray(env.render())


@functools.cache
def _environment(id: str) -> gymnasium.Env:
    mode = {"render_mode": "rgb_array", "disable_env_checker": True}
    env = gymnasium.make(id, **mode).unwrapped
    env.reset(seed=0)
    return env
