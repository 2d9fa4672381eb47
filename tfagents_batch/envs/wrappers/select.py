"""Hide a part of what is observed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs
from gymnasium.utils import RecordConstructorArgs

from tfagents_batch.envs.wrappers import layers
from tfagents_batch.errors import UserError


class SelectEntries(gymnasium.Wrapper, RecordConstructorArgs):
    """Observes chosen entries of a vector, in the order in which they are named.

    ``SelectEntries(env, [0, 2])`` of CartPole hides both velocities, which then have to
    be remembered.

    Args:
      env: with a Box of observations of rank 1.
      indices: of the entries, from 0, each at most once.

    Raises:
      UserError: for another space, or for indices that are not entries of it.
    """

    def __init__(self, env: gymnasium.Env, indices: Sequence[int]):
        RecordConstructorArgs.__init__(self, indices=indices)
        gymnasium.Wrapper.__init__(self, env)
        space = layers.box("SelectEntries", "observation", env.observation_space)
        if len(space.shape) != 1:
            raise UserError(
                f"SelectEntries: observations have shape {list(space.shape)}; expected "
                "vectors (gymnasium.wrappers.FlattenObservation makes them)"
            )
        self._indices = _checked(indices, space.shape[0])
        low, high = space.low[self._indices], space.high[self._indices]
        self.observation_space = gs.Box(low, high, dtype=space.dtype)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        observation, info = self.env.reset(seed=seed, options=options)
        return self._selected(observation), info

    def step(self, action: Any):
        observation, *rest = self.env.step(action)
        return (self._selected(observation), *rest)

    def _selected(self, observation: Any) -> np.ndarray:
        return np.asarray(observation)[self._indices]


def _checked(indices: Sequence[int], size: int) -> list[int]:
    try:
        listed = list(indices)
    except TypeError:
        raise UserError(
            f"SelectEntries: indices is {indices!r}; expected a list such as [0, 2]"
        ) from None
    for index in listed:
        layers.count("SelectEntries", "one of indices", index, least=0)
    if not listed or max(listed) >= size or len({*listed}) < len(listed):
        raise UserError(
            f"SelectEntries: indices is {listed}; expected different numbers of 0 to "
            f"{size - 1}, at least one"
        )
    return [int(index) for index in listed]
