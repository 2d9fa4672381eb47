"""Observed ranges of numbers, and numbers whose changes float32 does not have.

A time stamp of 1.7e9 seconds that changes by 60 is almost constant in float32, whose
neighboring numbers are 128 apart there. Normalization comes too late for it.
"""

from __future__ import annotations

import numpy as np

LARGE = 1e4  # smaller numbers are not examined: their changes may be rounding errors
FEWEST = 16  # float32 numbers that a range should have


class Extent:
    """Lowest and highest values of each entry of an array, in float64.

    Args:
      shape: shape of the array.
    """

    def __init__(self, shape: tuple[int, ...]):
        self.low, self.high = np.full(shape, np.inf), np.full(shape, -np.inf)
        self.count = 0

    def add(self, value: np.ndarray) -> None:
        """Extend the ranges by one array of numbers."""
        np.minimum(self.low, value, out=self.low)
        np.maximum(self.high, value, out=self.high)
        self.count += 1

    @property
    def spread(self) -> np.ndarray:
        """Difference of the highest and the lowest value of each entry."""
        return self.high - self.low

    def unresolved(self) -> str:
        """Return a text on the first entry of which float32 keeps hardly any change.

        It follows the name of the numbers; "" if there is no such entry.
        """
        largest = np.maximum(abs(self.low), abs(self.high))
        with np.errstate(over="ignore", invalid="ignore"):
            step = np.spacing(largest.astype(np.float32)).astype(np.float64)
            noise = 64 * np.spacing(largest)
            few = (self.spread > noise) & (self.spread < FEWEST * step)
        places = np.argwhere(few & (largest >= LARGE))
        if not len(places):
            return ""
        place = tuple(int(i) for i in places[0])
        where = f" at {list(place)}" if place else ""
        low, high = (f"{bound[place]:.15g}" for bound in (self.low, self.high))
        return (
            f"{where} is {low} to {high}; it hardly changes as float32, whose numbers "
            f"are {step[place]:.3g} apart there; expected numbers closer to 0: "
            "subtract an offset in the environment, or by "
            "gymnasium.wrappers.TransformObservation"
        )
