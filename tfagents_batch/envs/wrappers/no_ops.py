"""Names of wrappers whose work a batch does itself, for lists that have them."""

from __future__ import annotations

import gymnasium


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
