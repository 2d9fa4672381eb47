"""Copy batched observations into the shared arrays of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.envs.shared import observation_rules
from tfagents_batch.envs.shared.observations import ObservationWriter


class ObservationReader:
    """Reader that checks batched observations and copies them into the shared arrays.

    Args:
      space: observation space of one environment.
      arrays: one ``[B, ...]`` per leaf.

    Attributes:
      writer: writer of single observations to the same arrays.
    """

    def __init__(self, space: gymnasium.Space, arrays: Sequence[np.ndarray]):
        self._space = space
        self._leaves = [
            (leaf, spaces.field(leaf.path), array)
            for leaf, array in zip(spaces.leaves(space), arrays, strict=True)
        ]
        self.writer = ObservationWriter(space, list(arrays))

    def read(self, observation: Any) -> None:
        """Check and copy a batched observation.

        Raises:
          Defect: for wrong nesting, shapes or dtypes, and integers out of range.
        """
        flat = observation_rules.flat(self._space, observation)
        for batch, (leaf, name, array) in zip(flat, self._leaves, strict=True):
            value = np.asanyarray(batch)  # masks remain, and are refused
            rules = [observation_rules.form_defects, observation_rules.fit_defects]
            if not isinstance(leaf.space, gs.Box):  # discrete values must be in range
                rules.insert(1, observation_rules.bounds_defects)
            for rule in rules:
                observation_rules.refuse(rule(leaf, value, name, array.shape[:1]))
            array[:] = value

    def outside(self) -> dict[str, int]:
        """Return ``{leaf: rows outside the bounds of its Box}``, not a defect."""
        counts = {}
        for leaf, name, array in self._leaves:
            if isinstance(leaf.space, gs.Box):
                low, high = leaf.space.low, leaf.space.high
                if array.dtype.kind == "f":  # round the bounds like the observation
                    low, high = low.astype(array.dtype), high.astype(array.dtype)
                wrong = (array < low) | (array > high)
                count = int(wrong.reshape(len(array), -1).any(axis=1).sum())
                if count:
                    counts[name] = count
        return counts
