"""The rule for ``observation["action_mask"]``: some action is possible."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.envs.shared.failures import Defect

KEY = "action_mask"


class Rule:
    """Finds masks that allow no action.

    Args:
      starts: first entry of each part of a mask; each number of an action has a part.
    """

    def __init__(self, starts: np.ndarray):
        self._starts = starts

    def broken(self, masks: np.ndarray) -> np.ndarray:
        """Return bool ``[...]``: where a part of a mask ``[..., entries]`` is 0."""
        possible = np.logical_or.reduceat(np.asarray(masks) != 0, self._starts, -1)
        return ~possible.all(-1)


def rule(observation: gymnasium.Space, action: gymnasium.Space) -> Rule | None:
    """Return the rule for two spaces; None if there is no mask."""
    if not isinstance(observation, gs.Dict) or KEY not in observation.spaces:
        return None
    if not isinstance(action, (gs.Discrete, gs.MultiDiscrete)):
        return None
    sizes = np.ravel(action.n if isinstance(action, gs.Discrete) else action.nvec)
    if observation[KEY].shape != (int(sizes.sum()),):
        return None
    return Rule(np.cumsum(sizes) - sizes)


def leaf(observation: gymnasium.Space) -> int:
    """Return the index of the mask among the leaves of the observations."""
    return [each.path for each in spaces.leaves(observation)].index((KEY,))


def defect(row: int | None = None) -> Defect:
    """Return the defect of a mask that allows no action, in a row of a batch."""
    name = f"observation[{KEY!r}]"
    text = (
        f"{name} allows no action; expected at least one in every state that is not "
        "terminal: allow an action without effect, or return terminated=True"
    )
    return Defect(text, "no action", name, row)
