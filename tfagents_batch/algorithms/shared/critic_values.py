"""Outputs of critics in targets, in losses and for the actor, by the settings.

Without settings it is clipped double Q-learning (Fujimoto et al. 2018): the minimum of
all target critics. Targets of few critics drawn at random are REDQ's (Chen et al. 2021,
arXiv:2101.05982), quantiles of which the largest are dropped TQC's (Kuznetsov et al.
2020, arXiv:2005.04269). Dropout in all of it is DroQ's (Hiraoka et al. 2022,
arXiv:2110.02034), states and next states in one pass CrossQ's (Bhatt et al. 2024,
arXiv:1902.05605).

Shapes: N rows, K critics, M quantiles of each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_batch import nest, seeds
from tfagents_batch.nn.critics import Critics
from tfagents_batch.ops import masked, td
from tfagents_batch.ops.value_distributions import ReturnQuantiles
from tfagents_batch.ops.windows import Transition
from tfagents_batch.types import Nest, TimeStep


class Returns(NamedTuple):
    """Returns from a state on, or targets of critics.

    Attributes:
      values: f32 ``[N]`` or, of quantiles, ``[N, K M]``.
      probability: f32 ``[N, K M]``; ``()`` without quantiles.
    """

    values: tf.Tensor
    probability: Nest = ()

    @property
    def mean(self) -> tf.Tensor:
        """The mean, f32 ``[N]``."""
        if isinstance(self.probability, tuple):
            return self.values
        return tf.reduce_sum(self.values * self.probability, -1)

    def minus(self, x: tf.Tensor) -> Returns:
        """Return the returns less x, f32 ``[N]``."""
        x = tf.expand_dims(x, -1) if self.values.shape.rank > x.shape.rank else x
        return self._replace(values=self.values - x)

    def target(self, batch: Transition) -> Returns:
        """Return the targets of a batch, if these are those of its last states."""
        values = td.target(batch.reward, batch.discount, self.values)
        return self._replace(values=masked.safe(values, batch.mask))


def later(config: Any, targets: Critics, step: TimeStep, action, seed) -> tf.Tensor:
    """Return the outputs of target critics in the last states, see ``Critics``.

    ``seed`` is None for critics as they are evaluated: without dropout, and all.
    """
    key = _dropout(config, seed, "target")
    return targets.outputs(step, action, _few(config, seed), key)


def returns(config: Any, outputs: tf.Tensor) -> Returns:
    """Return the pessimistic returns of the outputs of target critics.

    They are the minimum of f32 ``[K, N, ...]``. Of quantiles, ``[K, N, M]``, they are
    all but the ``dropped K`` largest.
    """
    if not config.quantiles:
        return Returns(tf.reduce_min(outputs, 0))
    count, _, size = outputs.shape
    values = tf.reshape(tf.transpose(outputs, [1, 0, 2]), [-1, count * size])
    return without_largest(values, count * config.dropped)


def without_largest(values: tf.Tensor, count: int) -> Returns:
    """Return f32 ``[N, m]`` without the ``count`` largest of each row.

    The dropped ones have a probability of 0, the others are equally likely. A loop
    finds one after the other, the first of equal ones: to drop 4 of 50, XLA's top_k
    takes six times as long on a CPU. And what leaves a loop is stored: other results
    would be computed again for every quantile that is compared with them.
    """
    values = tf.stop_gradient(values)
    _, size = values.shape.as_list()
    assert size
    place = tf.range(size)

    def drop(x, chance):
        largest = tf.reduce_max(tf.where(chance > 0, x, x.dtype.min), -1, keepdims=True)
        found = tf.where((x == largest) & (chance > 0), place, size)
        first = tf.reduce_min(found, -1, keepdims=True)
        return x, tf.where(place == first, 0.0, chance)

    start = values, tf.fill(tf.shape(values), 1 / (size - count))
    found = tf.while_loop(lambda *_: True, drop, start, maximum_iterations=count)
    return Returns(*found)


def joint(
    config: Any, critics: Critics, batch: Transition, action, next_action, seed
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the outputs of critics in states and in next states, by one pass.

    So the statistics of BatchRenorm are those of both. Actions are scaled to [-1, 1],
    None for values of all actions. The second result may serve as target only.
    """
    both = (batch.step._replace(info={}), batch.next._replace(info={}))
    step = nest.map(lambda x, y: tf.concat([x, y], 0), *both)
    taken = None if action is None else tf.concat([action, next_action], 0)
    rows = tf.concat([batch.mask, batch.mask], 0)
    key = _dropout(config, seed, "critics")
    now, then = tf.split(critics.outputs(step, taken, None, key, rows), 2, 1)
    few = _few(config, seed)
    return now, tf.stop_gradient(then if few is None else tf.gather(then, few))


def now(config: Any, critics: Critics, step: TimeStep, action, seed) -> tf.Tensor:
    """Return the outputs of critics that learn, see ``Critics.outputs``."""
    return critics.outputs(step, action, None, _dropout(config, seed, "critics"))


def of_actor(config: Any, critics: Critics, step: TimeStep, action, seed) -> tf.Tensor:
    """Return the values that an actor raises, f32 ``[N]``; of all, ``[N, A]``."""
    kind = config.actor_value
    first = 1 if kind == "first" else None
    q = critics(step, action, which=first, key=_dropout(config, seed, "actor"))
    if kind == "first":
        return q[0]
    return tf.reduce_min(q, 0) if kind == "min" else tf.reduce_mean(q, 0)


def loss(
    config: Any, outputs: tf.Tensor, target: Returns, mask: tf.Tensor, weight: Nest
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the loss of critics, f32 ``[]``, the errors ``[N]`` and Q ``[K, N]``.

    ``outputs`` are of the actions taken. For quantiles it is the mean over rows of
    sum_k of the mean over a critic's quantiles and over returns of the quantile Huber
    loss (TQC, eq. 10). See ``td.critics_loss``.
    """
    if not config.quantiles:
        return (*td.critics_loss(outputs, target.values, mask, weight), outputs)
    count, rows, size = outputs.shape.as_list()
    assert count and size
    each = tf.reshape(outputs, [count * rows, size])
    goals = (tf.tile(x, [count, 1]) for x in (target.values, target.probability))
    losses = ReturnQuantiles(size).losses(each, *goals) / size
    losses = tf.reduce_sum(tf.reshape(losses, [count, rows]), 0)
    q = tf.reduce_mean(outputs, -1)
    error = masked.safe(tf.reduce_mean(tf.abs(target.mean - q), 0), mask)
    return td.loss(losses, mask, weight), error, q


def _few(config: Any, seed) -> tf.Tensor | None:
    """Return the critics in targets, int32 ``[critics_in_target]``; None for all."""
    if config.critics_in_target is None or seed is None:
        return None
    drawn = seeds.uniform([config.num_critics], seeds.key(seed, "critics"))
    # Sorted, because dropout's masks go by place, and XLA has another order.
    return tf.math.top_k(drawn, config.critics_in_target).indices


def _dropout(config: Any, seed, purpose: str) -> tf.Tensor | None:
    if not config.critic.dropout or seed is None:
        return None
    return seeds.key(seed, f"dropout/{purpose}")
