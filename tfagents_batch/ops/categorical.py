"""Distributions over finite sets: Categorical, MultiCategorical, Bernoulli."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.ops import event, masked


def gumbel_noise(shape: Sequence[int], seed) -> tf.Tensor:
    """Draw Gumbel noise -log(-log u), f32; argmax(logits + noise) is a sample.

    Drawn once for a whole rollout, it leaves only an addition and an argmax for each
    step. That is cheaper than softmax, cumsum and search of the inverse CDF.
    """
    return gumbel(seeds.uniform(shape, seeds.key(seed, "action")))


def gumbel(uniform: tf.Tensor) -> tf.Tensor:
    """Return Gumbel noise of numbers in [0, 1)."""
    return -tf.math.log(-tf.math.log(_inside(uniform)))


def logistic_noise(shape: Sequence[int], seed) -> tf.Tensor:
    """Draw logistic noise log(u / (1 - u)), f32; logit + noise > 0 is a sample."""
    u = _inside(seeds.uniform(shape, seeds.key(seed, "action")))
    return tf.math.log(u) - tf.math.log1p(-u)


class Categorical:
    """Distribution over the ``n`` actions ``start .. start + n - 1``.

    Attributes:
      logits: f32 ``[..., n]``; invalid actions have a probability of exactly 0.
    """

    def __init__(
        self, logits: tf.Tensor, start: int = 0, mask: tf.Tensor | None = None
    ):
        """Mask logits by bool ``[..., n]``; a row without a valid one is not masked."""
        self.logits = logits if mask is None else masked.logits(logits, mask)
        self._start = start

    @property
    def params(self) -> dict[str, tf.Tensor]:
        return {"logits": self.logits}

    def with_params(self, params: dict[str, tf.Tensor]) -> Categorical:
        return Categorical(params["logits"], self._start)

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """Return actions, int32 ``[...]``."""
        return _argmax(self.logits + noise) + self._start

    def mode(self) -> tf.Tensor:
        """Return the most probable action (the first of equals), int32 ``[...]``."""
        return _argmax(self.logits) + self._start

    def probabilities(self) -> tf.Tensor:
        """Return the probability of every action, f32 ``[..., n]``."""
        return tf.nn.softmax(self.logits)

    def log_prob(self, action: tf.Tensor) -> tf.Tensor:
        """Return log-probabilities, f32 ``[...]``."""
        return _chosen(tf.nn.log_softmax(self.logits), action - self._start)

    def entropy(self) -> tf.Tensor:
        """Return the entropy over valid actions in nats, f32 ``[...]``."""
        return _entropy(self.logits)

    def kl(self, other: Categorical) -> tf.Tensor:
        """Return KL(self || other) in nats, f32 ``[...]``."""
        return _kl(self.logits, other.logits)


class MultiCategorical:
    """Independent categoricals, one for each entry of ``nvec`` (MultiDiscrete).

    Attributes:
      logits: f32 ``[..., sum(nvec)]``, the logits of all entries concatenated.
    """

    def __init__(
        self,
        logits: tf.Tensor,
        nvec: np.ndarray | Sequence[int],
        start: np.ndarray | Sequence[int] | int = 0,
        mask: tf.Tensor | None = None,
    ):
        """Mask invalid choices, bool ``[..., sum(nvec)]``.

        ``nvec``, the number of choices of each entry, has the shape of an action, and
        ``start`` the first choices. In an entry without any valid one, all are valid.
        """
        self._nvec = np.asarray(nvec)
        self._sizes = [int(n) for n in self._nvec.ravel()]
        self._k = len(self._sizes)
        self._start = np.broadcast_to(start, self._nvec.shape).astype(np.int32)
        if mask is not None:
            mask = tf.cast(mask, logits.dtype)  # LiteRT does not split a bool
            pairs = zip(self._split(logits), self._split(mask), strict=True)
            logits = tf.concat([masked.logits(*pair) for pair in pairs], -1)
        self.logits = logits

    @property
    def params(self) -> dict[str, tf.Tensor]:
        return {"logits": self.logits}

    def with_params(self, params: dict[str, tf.Tensor]) -> MultiCategorical:
        return MultiCategorical(params["logits"], self._nvec, self._start)

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """Return actions, int32 ``[..., *nvec.shape]``."""
        return self._action(self.logits + noise)

    def mode(self) -> tf.Tensor:
        """Return each entry's most probable choice, int32 ``[..., *nvec.shape]``."""
        return self._action(self.logits)

    def log_prob(self, action: tf.Tensor) -> tf.Tensor:
        """Return log-probabilities, summed over entries, f32 ``[...]``."""
        choice = event.reshape(action - self._start, self._nvec.ndim, [self._k])
        log_prob = _chosen(tf.nn.log_softmax(self._rows(self.logits)), choice)
        return tf.reduce_sum(log_prob, -1)

    def entropy(self) -> tf.Tensor:
        """Return the entropy in nats, summed over entries, f32 ``[...]``."""
        return tf.reduce_sum(_entropy(self._rows(self.logits)), -1)

    def kl(self, other: MultiCategorical) -> tf.Tensor:
        """Return KL(self || other) in nats, summed over entries, f32 ``[...]``."""
        rows = self._rows(self.logits), self._rows(other.logits)
        return tf.reduce_sum(_kl(*rows), -1)

    def _split(self, flat: tf.Tensor) -> list[tf.Tensor]:
        return tf.split(flat, self._sizes, axis=-1)

    def _rows(self, flat: tf.Tensor) -> tf.Tensor:
        """Pad ``[..., sum(nvec)]`` with invalid choices to ``[..., k, max(nvec)]``."""
        widest = max(self._sizes)
        if min(self._sizes) == widest:
            return event.reshape(flat, 1, [self._k, widest])
        pad = partial(tf.pad, constant_values=masked.INVALID_LOGIT)
        lead = [[0, 0]] * (flat.shape.rank - 1)
        parts = zip(self._split(flat), self._sizes, strict=True)
        return tf.stack(
            [pad(part, [*lead, [0, widest - size]]) for part, size in parts], axis=-2
        )

    def _action(self, scores: tf.Tensor) -> tf.Tensor:
        choice = _argmax(self._rows(scores))
        return event.reshape(choice, 1, self._nvec.shape) + self._start


class Bernoulli:
    """Distribution of independent bits (MultiBinary).

    Attributes:
      logits: f32 ``[..., *event]``, log-odds of a 1; an event is one action.
    """

    def __init__(self, logits: tf.Tensor, event_ndims: int = 1):
        self.logits, self._event_ndims = logits, event_ndims

    @property
    def params(self) -> dict[str, tf.Tensor]:
        return {"logits": self.logits}

    def with_params(self, params: dict[str, tf.Tensor]) -> Bernoulli:
        return Bernoulli(params["logits"], self._event_ndims)

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """Return actions, int32 ``[..., *event]``."""
        return tf.cast(self.logits + noise > 0, tf.int32)

    def mode(self) -> tf.Tensor:
        """Return the most probable bits (0 at even odds), int32 ``[..., *event]``."""
        return tf.cast(self.logits > 0, tf.int32)

    def log_prob(self, action: tf.Tensor) -> tf.Tensor:
        """Return log-probabilities, summed over the event, f32 ``[...]``."""
        sign = 1 - 2 * tf.cast(action, self.logits.dtype)
        return -self._sum(tf.math.softplus(sign * self.logits))

    def entropy(self) -> tf.Tensor:
        """Return the entropy in nats, summed over the event, f32 ``[...]``."""
        return self._sum(
            tf.sigmoid(self.logits) * tf.math.softplus(-self.logits)
            + tf.sigmoid(-self.logits) * tf.math.softplus(self.logits)
        )

    def kl(self, other: Bernoulli) -> tf.Tensor:
        """Return KL(self || other) in nats, summed over the event, f32 ``[...]``."""
        p, q = self.logits, other.logits
        one = tf.sigmoid(p) * (tf.math.softplus(-q) - tf.math.softplus(-p))
        zero = tf.sigmoid(-p) * (tf.math.softplus(q) - tf.math.softplus(p))
        return self._sum(one + zero)

    def _sum(self, x: tf.Tensor) -> tf.Tensor:
        return event.sum(x, self._event_ndims)


def _inside(uniform: tf.Tensor) -> tf.Tensor:
    """Return multiples of 2^-23 in [0, 1), shifted by half a step into (0, 1)."""
    return uniform + 2.0**-24


def _argmax(scores: tf.Tensor) -> tf.Tensor:
    """Return the int32 index of the largest score.

    NaN is replaced by 0. Otherwise results would differ between kernels, and a network
    with NaN could choose an invalid action.
    """
    scores = tf.where(tf.math.is_nan(scores), 0.0, scores)
    return tf.argmax(scores, axis=-1, output_type=tf.int32)


def _chosen(log_probs: tf.Tensor, choice: tf.Tensor) -> tf.Tensor:
    """Return entry ``choice`` of the last axis, without the slow gradient of gather."""
    one_hot = tf.one_hot(choice, log_probs.shape[-1], dtype=log_probs.dtype)
    return tf.reduce_sum(one_hot * log_probs, -1)


def _entropy(logits: tf.Tensor) -> tf.Tensor:
    log_probs = tf.nn.log_softmax(logits)
    return -tf.reduce_sum(tf.exp(log_probs) * log_probs, -1)


def _kl(logits: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    log_probs, other = tf.nn.log_softmax(logits), tf.nn.log_softmax(other)
    return tf.reduce_sum(tf.exp(log_probs) * (log_probs - other), -1)
