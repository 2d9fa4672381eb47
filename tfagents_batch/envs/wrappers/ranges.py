"""Wrapper that scales observations and actions from their bounds to [-1, 1]."""

from __future__ import annotations

import logging
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs
from gymnasium.utils import RecordConstructorArgs

from tfagents_batch.envs.wrappers import layers
from tfagents_batch.errors import UserError

HUGE = 1e30  # finite bounds of this size or more mean "unbounded"
_LOG = logging.getLogger("tfagents_batch")


class RangeNormalize(gymnasium.ObservationWrapper, RecordConstructorArgs):
    """Scale observations to [-1, 1] and accept actions in [-1, 1], both float32.

    observation' = 2 (observation - low) / (high - low) - 1, and 0 where low = high
    action       = (action' + 1) / 2 (high - low) + low

    Every dtype is computed in float64, so uint8 does not overflow: 200 in [0, 255]
    becomes 0.5686. Values outside their bounds are scaled, not clipped. Actions of an
    integer Box are rounded. All bounds must be between -1e30 and 1e30, because many
    environments use larger ones for "unbounded".

    Args:
      env: environment to scale.
      observation: True requires scaling, None scales if all bounds are finite (else it
        is logged), False leaves observations unchanged.
      action: as ``observation``, for actions.

    Raises:
      UserError: for True if the space is not a Box or has infinite bounds.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        observation: bool | None = None,
        action: bool | None = None,
    ):
        RecordConstructorArgs.__init__(self, observation=observation, action=action)
        gymnasium.ObservationWrapper.__init__(self, env)
        self._observation = _range(env.observation_space, "observation", observation)
        self._action = _range(env.action_space, "action", action)
        if self._observation is not None:
            self.observation_space = gs.Box(-1.0, 1.0, env.observation_space.shape)
        if self._action is not None:
            self.action_space = gs.Box(-1.0, 1.0, env.action_space.shape)

    def observation(self, observation: Any) -> Any:
        if self._observation is None:
            return observation
        return self._observation.to_unit(observation)

    def step(self, action: Any):
        if self._action is not None:
            action = self._action.from_unit(action)
        return super().step(action)


class _Range:
    """Affine map between a Box and [-1, 1]."""

    def __init__(self, space: gs.Box):
        self._shape = space.shape
        self._dtype = space.dtype
        self._low = space.low.astype(np.float64)
        self._high = space.high.astype(np.float64)
        self._width = self._high - self._low
        flat = self._width == 0
        self._divisor = np.where(flat, 1.0, self._width)
        self._offset = np.where(flat, 0.0, 1.0)

    def to_unit(self, value: Any) -> np.ndarray:
        value = layers.shaped("RangeNormalize", "observation", value, self._shape)
        value = value.astype(np.float64)
        unit = 2.0 * (value - self._low) / self._divisor - self._offset
        return np.asarray(unit, np.float32)

    def from_unit(self, unit: Any) -> np.ndarray:
        unit = layers.shaped("RangeNormalize", "action", unit, self._shape)
        unit = unit.astype(np.float64)
        value = (unit + 1.0) / 2.0 * self._width + self._low
        # Rounding may exceed a bound slightly, which environments refuse. np.clip is
        # slower for a few numbers.
        bounded = np.minimum(np.maximum(value, self._low), self._high)
        value = np.where(np.abs(unit) <= 1.0, bounded, value)
        if self._dtype.kind != "f":
            value = np.rint(value)
        return np.asarray(value, self._dtype)


def _range(space: gymnasium.Space, field: str, wanted: bool | None) -> _Range | None:
    """Return the map, or None for no scaling; see ``RangeNormalize``."""
    if wanted is False:
        return None
    if wanted is not True and wanted is not None:
        raise UserError(
            f"RangeNormalize: {field} is {wanted!r}; expected True, False or None"
        )
    why = "is not a Box"
    if isinstance(space, gs.Box):
        bounds = np.stack([space.low, space.high]).astype(np.float64)
        if (np.abs(bounds) < HUGE).all():
            return _Range(space)
        why = "has bounds that are not finite"
    if wanted is True:
        raise UserError(
            f"RangeNormalize: {field}=True, but its space, {space}, {why}; give it "
            f"finite bounds, or use {field}=None, which scales only finite bounds"
        )
    _LOG.info("RangeNormalize leaves %ss unchanged: %s %s", field, space, why)
    return None
