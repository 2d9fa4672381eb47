"""Bootstrap over episodes that are seen once, in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np


class Bootstrap:
    """Sums over all episodes and over resamples of them.

    In a resample, an episode is counted as often as a Poisson variable with mean 1
    says. For many episodes this is drawing with replacement (Chamandy et al. 2012), and
    needs no memory of them. Draws do not depend on how episodes are cut into blocks.

    Args:
      resamples: number of resamples, B.
      seed: seed of the draws.

    Attributes:
      sums: sums over all episodes, as a tuple of the type that was added; None before.
      resampled: sums over resamples, ``[B, ...]``.
    """

    def __init__(self, resamples: int, seed: int):
        self._resamples, self._random = resamples, np.random.default_rng(seed)
        self.sums: Any = None
        self.resampled: Any = None

    def add(self, given: Any) -> None:
        """Add the terms of n episodes, a named tuple of arrays ``[n, ...]``."""
        kind = type(given)
        counts = self._random.poisson(1.0, (len(given[0]), self._resamples)).T
        counts = counts.astype(np.float64)
        sums = kind(*(x.sum(0) for x in given))
        resampled = kind(*(_times(counts, x) for x in given))
        if self.sums is not None:
            sums = kind(*map(np.add, self.sums, sums))
            resampled = kind(*map(np.add, self.resampled, resampled))
        self.sums, self.resampled = sums, resampled


def _times(counts: np.ndarray, x: np.ndarray) -> np.ndarray:
    return (counts @ x.reshape(len(x), -1)).reshape(len(counts), *x.shape[1:])
