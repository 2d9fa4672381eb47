"""The standard stack of wrappers, and names of what a batch does itself."""

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
    finite_check: str = "raise",
) -> gymnasium.Env:
    """Wrap an environment as BatchPPO does, from the inside out.

    1. ``LimitDuration``, if ``max_episode_steps`` is given
    2. ``RangeNormalize``, if ``normalize_ranges``: whatever is a Box with finite bounds
    3. ``ClipAction``, if actions are a Box of floats by now

    BatchPPO's ``ConvertTo32Bit`` and ``CacheSpaces`` are not needed: a batch has 32-bit
    numbers, looks for NaN and keeps its spaces.

    Images (uint8 of rank 2 or more) stay uint8: networks scale them, and they are four
    times smaller on their way there. Call it in a constructor, the same one for
    training and evaluation::

        def make():
            return standard_stack(gymnasium.make("Pendulum-v1"))

        env = tfb.make_env(make, num_envs=8)

    Args:
      env: of any supported spaces; Discrete and nested actions pass unchanged.
      max_episode_steps: truncates episodes, None leaves them as long as they are.
      normalize_ranges: scale to [-1, 1].
      finite_check: not used; that of the batch says what is done about NaN.

    Returns:
      The wrapped environment.

    Raises:
      UserError: for arguments or spaces that cannot be used.
    """
    del finite_check
    if max_episode_steps is not None:
        env = LimitDuration(env, max_episode_steps)
    if normalize_ranges:
        space = env.observation_space
        image = isinstance(space, gs.Box) and space.dtype == np.uint8
        image = image and len(space.shape) >= 2
        env = RangeNormalize(env, observation=False if image else None)
    space = env.action_space
    if isinstance(space, gs.Box) and space.dtype.kind == "f":
        env = ClipAction(env)
    return env


def CacheSpaces(env: gymnasium.Env) -> gymnasium.Env:
    """Return ``env``: a batch asks for its spaces once, and keeps them."""
    return env


def ConvertTo32Bit(env: gymnasium.Env, finite_check: str = "raise") -> gymnasium.Env:
    """Return ``env``: a batch has 32-bit numbers and looks for NaN and infinity.

    Args:
      env: of any supported spaces.
      finite_check: not used; that of the batch says what is done about NaN.
    """
    del finite_check
    return env
