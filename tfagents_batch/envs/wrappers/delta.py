"""Observe what changed."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs
from gymnasium.utils import RecordConstructorArgs

from tfagents_batch.envs import arguments
from tfagents_batch.envs.wrappers import layers
from tfagents_batch.errors import UserError

RAW, ZEROS = "raw", "zeros"  # reset_value
# Integers double in width, so that no difference overflows.
_WIDER = {1: np.int16, 2: np.int32, 4: np.int64, 8: np.int64}


class FrameDelta(gymnasium.Wrapper, RecordConstructorArgs):
    """Observes ``s[t] - s[t-1]``, and after a reset ``s[0]`` or zeros.

    The declared space is ``[low - high, high - low]``, widened where ``s[0]`` needs it.
    Integers are widened first (uint8 to int16, int16 to int32, the rest to int64),
    floats keep their dtype.

    Args:
      env: with a Box of observations.
      reset_value: "raw", the first observation itself, or "zeros".

    Raises:
      UserError: for another space or ``reset_value``, for 64-bit integers whose
        differences may not fit, or if ``env`` restarts by itself.
    """

    def __init__(self, env: gymnasium.Env, reset_value: str = RAW):
        RecordConstructorArgs.__init__(self, reset_value=reset_value)
        gymnasium.Wrapper.__init__(self, env)
        layers.refuse_restarts("FrameDelta", env)
        arguments.one_of("FrameDelta: reset_value", reset_value, (RAW, ZEROS))
        space = layers.box("FrameDelta", "observation", env.observation_space)
        self._raw = reset_value == RAW
        self._inner = space.dtype
        self._dtype = _difference_dtype(space)
        self._last: np.ndarray | None = None
        with np.errstate(over="ignore"):  # a range of more than float32: infinite
            low, high = (b.astype(self._dtype) for b in (space.low, space.high))
            least, most = low - high, high - low
        if self._raw:
            least, most = np.minimum(least, low), np.maximum(most, high)
        least, most = np.asarray(least), np.asarray(most)  # not scalars
        self.observation_space = gs.Box(least, most, dtype=self._dtype)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        observation, info = self.env.reset(seed=seed, options=options)
        self._last = frame = self._frame(observation)
        return frame.copy() if self._raw else np.zeros_like(frame), info

    def step(self, action: Any):
        observation, *rest = self.env.step(action)
        frame = self._frame(observation)
        delta = np.asarray(frame - self._last)  # of scalars NumPy makes no array
        self._last = frame
        return (delta, *rest)

    def _frame(self, observation: Any) -> np.ndarray:
        """A copy, wide enough; a wrong dtype stays wrong, for the batch to refuse."""
        frame = np.array(observation)
        if frame.dtype != self._inner:
            return frame
        return frame.astype(self._dtype, copy=False)


def _difference_dtype(space: gs.Box) -> np.dtype:
    if space.dtype.kind == "f":
        return space.dtype
    dtype = np.dtype(_WIDER[space.dtype.itemsize])
    if space.dtype.itemsize == 8 and space.low.size:
        low, high = int(space.low.min()), int(space.high.max())
        if max(abs(low), abs(high), high - low) > np.iinfo(dtype).max:
            raise UserError(
                f"FrameDelta: differences of {space} do not fit int64; give it closer "
                "bounds, or convert observations to floats first"
            )
    return dtype
