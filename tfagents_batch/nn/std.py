"""The standard deviation of a Box policy: trained, and the same in every state."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import tensorflow as tf

Std = Literal["exp", "softplus"]


class TrainedStd(NamedTuple):
    """Map from trained parameters x to standard deviations between smooth bounds.

    - Without ``most``: least + exp(x), or least + softplus(x).
    - With ``most``: least + (most - least) sigmoid(x).

    Clipping would have no gradient: a value that reached a bound would stay there.

    Attributes:
      first: initial standard deviation, between ``least`` and ``most``.
      least: lower bound.
      most: upper bound; None sets no bound.
      kind: function to use without an upper bound.
    """

    first: float
    least: float
    most: float | None
    kind: Std

    @property
    def name(self) -> str:
        """Name of the trained parameter."""
        return "log_std" if self._is_exp else "raw_std"

    @property
    def start(self) -> float:
        """Initial value of x, which gives ``first``."""
        excess = self.first - self.least
        if self.most is not None:
            return math.log(excess) - math.log(self.most - self.first)
        if self._is_exp:
            return math.log(excess)
        # The inverse of softplus; log(expm1(x)) would overflow for large x.
        return excess + math.log(-math.expm1(-excess))

    def of(self, x: tf.Tensor) -> tf.Tensor:
        """Return the standard deviation for x, f32 with the shape of x."""
        if self.most is not None:
            return self.least + (self.most - self.least) * tf.sigmoid(x)
        return self.least + (tf.exp(x) if self._is_exp else tf.math.softplus(x))

    @property
    def _is_exp(self) -> bool:
        return self.most is None and self.kind == "exp"
