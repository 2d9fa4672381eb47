"""Take any action and clip it to the bounds."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs
from gymnasium.utils import RecordConstructorArgs

from tfagents_batch.envs.wrappers import layers
from tfagents_batch.errors import UserError

INFO_KEY = "action_clipped_fraction"


class ClipAction(gymnasium.Wrapper, RecordConstructorArgs):
    """Shows an unbounded Box of actions and clips to the bounds of ``env``.

    ``info["action_clipped_fraction"]`` is the share of the action's numbers that lay
    outside (float in [0, 1], 0 after a reset). A batch sees no bounds any more and so
    counts nothing in ``env/action_clipped_fraction``; ask for the key instead, by
    ``make_env(..., info_keys={"action_clipped_fraction": "float32"})``.

    Args:
      env: with a Box of float actions.

    Raises:
      UserError: for another action space.
    """

    def __init__(self, env: gymnasium.Env):
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        space = layers.box("ClipAction", "action", env.action_space)
        if space.dtype.kind != "f":
            raise UserError(
                f"ClipAction: the action space is {space}, and integers have no "
                "unbounded Box; wrap it in RangeNormalize(action=True) first, or leave "
                "ClipAction out: a batch clips to bounds that it sees"
            )
        self._low, self._high, self._dtype = space.low, space.high, space.dtype
        self._size = max(space.low.size, 1)
        self.action_space = gs.Box(-np.inf, np.inf, space.shape, space.dtype)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, INFO_KEY: 0.0}

    def step(self, action: Any):
        action = np.asarray(action)
        if action.shape != self._low.shape:
            raise ValueError(
                f"ClipAction: the action has shape {list(action.shape)}; the space "
                f"says {list(self._low.shape)}"
            )
        clipped = np.minimum(np.maximum(action, self._low), self._high)
        fraction = int(np.count_nonzero(clipped != action)) / self._size
        clipped = np.asarray(clipped, self._dtype)
        observation, reward, terminated, truncated, info = self.env.step(clipped)
        return observation, reward, terminated, truncated, {**info, INFO_KEY: fraction}
