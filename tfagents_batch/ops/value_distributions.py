"""Distributions of returns, and the losses that learn them.

An action value is the mean of a distribution of returns. A network returns ``size``
outputs for each action; each class says what they mean. ``ReturnMean`` is a plain
value, ``ReturnQuantiles`` are those of QR-DQN, and ``ReturnCategories`` have the
probabilities of C51. All classes have the methods of ``ReturnMean``.

A target is a sample of m returns with probabilities, f32 ``[N, m]`` each. So every
target (double, n-step, that of a soft policy) serves every class.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from tfagents_batch.ops import td


@dataclasses.dataclass(frozen=True)
class ReturnMean:
    """The mean only: the action value itself."""

    loss: td.Loss = "huber"  # of the TD error, see ``td.error_loss``
    size = 1

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        """Return action values, f32 ``[...]``, of outputs ``[..., size]``."""
        return tf.squeeze(outputs, -1)

    def returns(self, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the returns and their probabilities, f32 ``[..., size]`` each."""
        return outputs, tf.ones_like(outputs)

    def losses(
        self, outputs: tf.Tensor, returns: tf.Tensor, probability: tf.Tensor
    ) -> tf.Tensor:
        """Return the loss of each row, f32 ``[N]``, of outputs ``[N, size]``.

        ``returns`` and ``probability``, f32 ``[N, m]``, are the target; no gradient
        flows into it.
        """
        goal = tf.reduce_sum(returns * probability, -1)
        return td.error_loss(goal - outputs[:, 0], self.loss)


@dataclasses.dataclass(frozen=True)
class ReturnQuantiles:
    """Quantiles of the returns (Dabney et al. 2018, arXiv:1710.10044)."""

    size: int  # N; output i is the quantile (i + 1/2) / N

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        """Return the mean of the quantiles."""
        return tf.reduce_mean(outputs, -1)

    def returns(self, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the quantiles, each with probability 1 / N."""
        return outputs, tf.fill(tf.shape(outputs), 1 / self.size)

    def losses(
        self, outputs: tf.Tensor, returns: tf.Tensor, probability: tf.Tensor
    ) -> tf.Tensor:
        """Return the quantile Huber loss, f32 ``[N]`` (equation 10, kappa 1).

        It is the sum over quantiles i of the mean over returns j of
        abs(tau_i - 1[u < 0]) huber(u), with u = return j - quantile i.
        """
        fixed, returns, probability = map(
            tf.stop_gradient, (outputs, returns, probability)
        )
        error = returns[:, tf.newaxis] - fixed[:, :, tf.newaxis]
        tau = (tf.range(self.size, dtype=tf.float32) + 0.5) / self.size
        side = tf.abs(tau[:, tf.newaxis] - tf.cast(error < 0, tf.float32))
        slope = tf.clip_by_value(error, -1.0, 1.0)  # of huber(error)
        weighted = side * probability[:, tf.newaxis] * slope
        loss = _sums(weighted * (error - 0.5 * slope))
        # Zero, with the gradient of the loss: one product serves all returns.
        loss -= _sums(weighted) * (outputs - fixed)
        return tf.reduce_sum(loss, -1)


@dataclasses.dataclass(frozen=True)
class ReturnCategories:
    """Probabilities of fixed returns (Bellemare et al. 2017, arXiv:1707.06887)."""

    size: int  # number of returns ("atoms")
    low: float  # the smallest of them
    high: float  # the largest; low < high

    @property
    def atoms(self) -> tf.Tensor:
        """The returns, f32 ``[size]``, evenly spaced."""
        return tf.linspace(tf.constant(self.low), tf.constant(self.high), self.size)

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        """Return the mean of the returns. Outputs are logits."""
        return tf.reduce_sum(tf.nn.softmax(outputs) * self.atoms, -1)

    def returns(self, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the atoms and their probabilities."""
        return tf.broadcast_to(self.atoms, tf.shape(outputs)), tf.nn.softmax(outputs)

    def losses(
        self, outputs: tf.Tensor, returns: tf.Tensor, probability: tf.Tensor
    ) -> tf.Tensor:
        """Return the cross-entropy with the projected target, f32 ``[N]``."""
        goal = tf.stop_gradient(self.project(returns, probability))
        return -tf.reduce_sum(goal * tf.nn.log_softmax(outputs), -1)

    def project(self, returns: tf.Tensor, probability: tf.Tensor) -> tf.Tensor:
        """Return probabilities of the atoms, f32 ``[N, size]`` (equation 7).

        Returns ``[N, m]`` are clipped to [low, high]; the probability of a return
        between two atoms is split between them by its distance.
        """
        space = (self.high - self.low) / (self.size - 1)
        place = (tf.clip_by_value(returns, self.low, self.high) - self.low) / space
        atom = tf.range(self.size, dtype=tf.float32)[:, tf.newaxis]
        near = tf.maximum(1 - tf.abs(place[:, tf.newaxis] - atom), 0.0)
        return _sums(near * probability[:, tf.newaxis])


def _sums(x: tf.Tensor) -> tf.Tensor:
    """Return sums over the last axis, f32 ``[N, k]``, of ``[N, k, m]``.

    They are a product with ones, because XLA reduces on a CPU without vectors.
    """
    _, count, size = x.shape
    return tf.reshape(tf.reshape(x, [-1, size]) @ tf.ones([size, 1]), [-1, count])


Distribution = ReturnMean | ReturnQuantiles | ReturnCategories
