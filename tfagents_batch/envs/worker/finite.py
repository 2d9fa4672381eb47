"""Reactions to NaN and infinity in the rows of a stepper (finite_check)."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from tfagents_batch.envs.shared import layout, validation
from tfagents_batch.envs.shared.failures import Defect
from tfagents_batch.envs.shared.observations import ObservationWriter
from tfagents_batch.envs.shared.options import OFF, RAISE, REPLACE, TRUNCATE


class FiniteCheck:
    """Check of all rows of a stepper after each reset and step, see ``EnvOptions``.

    ``note`` takes row, control word and text, and counts a replaced number.
    """

    def __init__(
        self,
        reaction: str,
        observations: ObservationWriter,
        arrays: layout.Arrays,
        note: Callable[[int, int, str], None] | None = None,
    ):
        self.enabled = reaction != OFF
        self._reaction = reaction
        self._observations = observations
        self._arrays = arrays
        self._note = note
        self._truncated: list[int] = []  # rows of this step
        # Previous observations, needed to replace numbers that are not finite.
        used = reaction in (REPLACE, TRUNCATE)
        self._last = [(array.copy(), array) for array in arrays.observation if used]

    def reward(self, row: int, reward: float) -> float:
        """Return what replaces a reward that float32 cannot represent, or raise."""
        if self._reaction == RAISE:
            validation.refuse(validation.reward_defects(reward))
        self._replaced(row, "reward")
        return 0.0

    def check(self, failed: Collection[int] = ()) -> list[Defect]:
        """Return the defects of rows that have not ``failed``; none if replaced."""
        if not self.enabled:
            return []
        defects = []
        for row, name in sorted(self._observations.not_finite().items()):
            if row in failed:
                continue
            if self._reaction == RAISE:
                where = self._observations.where_not_finite(row)
                text = f"{name} has NaN or infinite values{where}"
                defects.append(Defect(text, "finite", name, row))
                continue
            self._replaced(row, name)
            first = bool(self._arrays.first[row])
            for stored, array in self._last:
                if array.dtype.kind == "f":
                    last = np.zeros_like(stored[row]) if first else stored[row]
                    array[row] = np.where(np.isfinite(array[row]), array[row], last)
        return defects

    def truncated(self) -> list[int]:
        """Return the rows to truncate, with their previous observations restored.

        To be called once at the end of each reset and step.
        """
        rows, self._truncated = self._truncated, []
        for stored, array in self._last:
            array[rows] = stored[rows]
            stored[...] = array
        return rows

    def _replaced(self, row: int, name: str) -> None:
        check = f"(finite_check={self._reaction!r}); counted in env/not_finite"
        assert self._note is not None  # see the class
        self._note(row, layout.NOT_FINITE, f"{name} has NaN or infinite values {check}")
        if self._reaction == TRUNCATE:
            self._truncated.append(row)
