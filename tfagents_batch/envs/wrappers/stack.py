"""Standard stack of wrappers."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch.envs.wrappers.actions import ClipAction
from tfagents_batch.envs.wrappers.episodes import LimitDuration
from tfagents_batch.envs.wrappers.ranges import RangeNormalize


def standard_stack(
    env: gymnasium.Env,
    *,
    max_episode_steps: int | None = None,
    normalize_ranges: bool = True,
) -> gymnasium.Env:
    """Wrap an environment as BatchPPO does. From the inside out:

    1. ``LimitDuration``, if ``max_episode_steps`` is given
    2. ``RangeNormalize`` for each Box with finite bounds, if ``normalize_ranges``
    3. ``ClipAction``, if the action space is then a Box of floats

    BatchPPO's ``ConvertTo32Bit`` and ``CacheSpaces`` are not needed: a batch converts
    to 32-bit numbers, checks for NaN and stores its spaces.

    Images (uint8 of rank 2 or more) stay uint8: networks scale them, and they are four
    times smaller to transfer. Call it in a constructor, and use the same constructor
    for training and evaluation::

        def make():
            return standard_stack(gymnasium.make("Pendulum-v1"))

        env = tfb.make_env(make, num_envs=8)

    Args:
      env: environment with any supported spaces; Discrete and nested actions pass
        unchanged.
      max_episode_steps: limit in steps; None adds no limit.
      normalize_ranges: scale to [-1, 1].

    Returns:
      The wrapped environment.

    Raises:
      UserError: for arguments or spaces that cannot be used.
    """
    if max_episode_steps is not None:
        env = LimitDuration(env, max_episode_steps)
    if normalize_ranges:
        space = env.observation_space
        bytes_ = isinstance(space, gs.Box) and space.dtype == np.uint8
        image = bytes_ and len(space.shape or ()) >= 2
        env = RangeNormalize(env, observation=False if image else None)
    space = env.action_space
    if isinstance(space, gs.Box) and space.dtype.kind == "f":
        env = ClipAction(env)
    return env
