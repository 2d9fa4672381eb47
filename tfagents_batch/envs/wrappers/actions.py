"""Wrappers that clip or repeat actions."""

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
    """Declare an unbounded Box of actions and clip them to the bounds of ``env``.

    ``info["action_clipped_fraction"]`` is the fraction of the action's numbers outside
    the bounds (float in [0, 1], 0 after a reset). The batch sees no bounds, so its
    metric ``env/action_clipped_fraction`` counts nothing. Read the info instead:
    ``make_env(..., info_keys={"action_clipped_fraction": "float32"})``.

    Args:
      env: environment with a Box of float actions.

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
                "ClipAction out: a batch clips actions to bounds itself"
            )
        self._low, self._high, self._dtype = space.low, space.high, space.dtype
        self._size = max(space.low.size, 1)
        self.action_space = gs.Box(-np.inf, np.inf, space.shape, space.dtype)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, INFO_KEY: 0.0}

    def step(self, action: Any):
        action = layers.shaped("ClipAction", "action", action, self._low.shape)
        clipped = np.minimum(np.maximum(action, self._low), self._high)
        fraction = int(np.count_nonzero(clipped != action)) / self._size
        clipped = np.asarray(clipped, self._dtype)
        observation, reward, terminated, truncated, info = self.env.step(clipped)
        return observation, reward, terminated, truncated, {**info, INFO_KEY: fraction}


class ActionRepeat(gymnasium.Wrapper, RecordConstructorArgs):
    """Step ``amount`` times with one action and sum the rewards.

    Repetition stops when the episode ends. Observation, flags and info are those of the
    last step taken. An inner time limit is reported as ``ceil(limit / amount)``.

    Args:
      env: environment to step.
      amount: number of inner steps per outer step, at least 1.

    Raises:
      UserError: for another ``amount``, or if ``env`` restarts by itself.
    """

    def __init__(self, env: gymnasium.Env, amount: int):
        RecordConstructorArgs.__init__(self, amount=amount)
        gymnasium.Wrapper.__init__(self, env)
        layers.refuse_restarts("ActionRepeat", env)
        self._amount = layers.count("ActionRepeat", "amount", amount)
        limit = layers.time_limit(env)
        self._max_episode_steps = None if limit is None else -(-limit // self._amount)

    def step(self, action: Any):
        total, left = 0.0, self._amount
        while True:
            observation, reward, terminated, truncated, info = self.env.step(action)
            total, left = total + float(reward), left - 1
            if terminated or truncated or not left:
                return observation, total, terminated, truncated, info
