"""The rule for ``observation["action_mask"]``: some action is possible."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.envs.shared.failures import Defect

KEY = "action_mask"


def rule(
    observation: gymnasium.Space, action: gymnasium.Space
) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return the rule for two spaces; None if there is no mask.

    Returns:
      A function from masks ``[..., entries]`` to bool ``[...]``: where a part of the
      mask is 0. Each number of an action has a part.
    """
    if not isinstance(observation, gs.Dict) or KEY not in observation.spaces:
        return None
    parts = sizes(action)
    if parts is None or observation[KEY].shape != (int(parts.sum()),):
        return None
    starts = np.cumsum(parts) - parts

    def broken(masks: np.ndarray) -> np.ndarray:
        possible = np.logical_or.reduceat(np.asarray(masks) != 0, starts, -1)
        return np.asarray(~possible.all(-1))

    return broken


def rows(
    observation: gymnasium.Space, action: gymnasium.Space, arrays: list[np.ndarray]
) -> Callable[[], np.ndarray] | None:
    """Return a function that finds rows whose mask allows no action, bool ``[B]``.

    Args:
      observation, action: spaces of one environment.
      arrays: leaves of the observations, ``[B, ...]`` each.

    Returns:
      The function, which reads the arrays when it is called; None if there is no mask.
    """
    broken = rule(observation, action)
    if broken is None:
        return None
    paths = [leaf.path for leaf in spaces.leaves(observation)]
    masks = arrays[paths.index((KEY,))]
    return lambda: broken(masks)


def sizes(action: gymnasium.Space) -> np.ndarray | None:
    """Return the entries of a mask for each number of an action; None without masks."""
    if isinstance(action, gs.Discrete):
        return np.ravel(action.n)
    return np.ravel(action.nvec) if isinstance(action, gs.MultiDiscrete) else None


def defect(row: int | None = None) -> Defect:
    """Return the defect of a mask that allows no action, in a row of a batch."""
    name = f"observation[{KEY!r}]"
    text = (
        f"{name} allows no action; expected at least one in every state that is not "
        "terminal: allow an action without effect, or return terminated=True"
    )
    return Defect(text, "no action", name, row)
