"""Target network: a copy of the learned network that changes slowly."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf


class TargetNetwork(tf.Module):
    """Weights of a target network, moved towards those of the learned network.

    After every ``every`` updates: target <- (1 - tau) target + tau learned. With tau 1
    it copies them (Mnih et al. 2015); with every 1 and a small tau the target is a
    moving mean (Lillicrap et al. 2016, arXiv:1509.02971, algorithm 1).

    Integers, which a user's layers may have, are always copied.

    Args:
      target, learned: weights in the same order; the target starts as a copy.
      every: number of updates.
      tau: in (0, 1], a number or a variable.
    """

    def __init__(
        self,
        target: Sequence[keras.Variable],
        learned: Sequence[keras.Variable],
        every: int,
        tau: float | tf.Variable,
    ):
        super().__init__()
        self._pairs = lambda: list(zip(target, learned, strict=True))
        self._every, self._tau = every, tau
        self.updates = keras.Variable(0, dtype="int64", trainable=False)
        for copy, original in self._pairs():
            copy.assign(original.value)

    def update(self) -> None:
        """Count an update, and move the target if it is time."""
        count = self.updates.value + 1
        self.updates.assign(count)
        moves = count % self._every == 0
        for target, learned in self._pairs():
            old, new = target.value, learned.value
            if new.dtype.is_floating:
                mean = old + tf.cast(self._tau, new.dtype) * (new - old)
                new = tf.where(self._tau < 1, mean, new)  # a copy is exact
            # A select instead of a branch, because branches are slow.
            target.assign(tf.where(moves, new, old))
