"""Conservative Q-learning (Kumar et al. 2020, arXiv:2006.04779): SAC on logged rows.

CQL adds one term to the loss of SAC's critics: alpha times the difference between a
soft maximum of Q over all actions and Q of the logged action. So actions that were not
logged have low values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.metrics import Metrics
from tfagents_batch.nn.actor import bounds
from tfagents_batch.nn.critics import Critics
from tfagents_batch.nn.optimizer import Optimizer
from tfagents_batch.nn.policies.box import SquashedNormal
from tfagents_batch.ops import td
from tfagents_batch.ops.windows import Transition
from tfagents_batch.types import EnvSpec


class DrawnActions(NamedTuple):
    """Drawn actions, scaled to [-1, 1]."""

    action: tf.Tensor  # f32 [N, M, A]
    log_density: tf.Tensor  # f32 [N, M]


class Conservative(tf.Module):
    """Conservative loss of critics, and its weight alpha; settings are ``CQLConfig``.

    Attributes:
      trained: weights by the name of their optimizer.
      learned: variables of a checkpoint.
    """

    def __init__(self, config: Any, spec: EnvSpec):
        super().__init__()
        self._config, self._size = config, bounds(spec).size
        start = math.log(config.cql_scale)
        self._log_scale = keras.Variable(start, dtype="float32")
        learned = config.cql_gap is not None
        self.trained = {"cql": [self._log_scale]} if learned else {}
        self.learned = {"log_cql_scale": self._log_scale} if learned else {}

    def draw(self, policy: SquashedNormal, batch: Transition, seed) -> DrawnActions:
        """Draw actions: uniform ones, and those of the policy in s and in s'."""
        count, rows = self._config.cql_samples, batch.mask.shape[0]
        shape = [count, rows, self._size]
        uniform = 2 * seeds.uniform(shape, seeds.key(seed, "cql/uniform")) - 1
        parts = [(uniform, tf.fill(shape[:2], -self._size * math.log(2)))]
        for name, step in (("now", batch.step), ("next", batch.next)):
            noise = seeds.normal(shape, seeds.key(seed, f"cql/{name}"))
            parts.append(policy.distribution(step).sample_with_log_prob(noise))
        actions, log_densities = (tf.concat(x, 0) for x in zip(*parts, strict=True))
        actions = tf.transpose(actions, [1, 0, 2])
        return DrawnActions(actions, tf.transpose(log_densities))

    def loss(
        self,
        critics: Critics,
        batch: Transition,
        drawn: DrawnActions,
        logged: tf.Tensor,  # f32 [K, N], Q of the logged actions
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return alpha sum_k gap_k, f32 ``[]``, and the mean gap."""
        q = critics(batch.step, drawn.action)
        gap = td.sampled_gap(q, drawn.log_density, logged, batch.mask)
        return self._scale() * tf.reduce_sum(gap), tf.reduce_mean(gap)

    def step(self, optimizers: Mapping[str, Optimizer], gap: tf.Tensor) -> Metrics:
        """Let a learned alpha follow the gradient of alpha (gap - tau).

        Returns metrics, with the alpha that was used.
        """
        metrics = {"value/gap": gap, "value/cql_scale": tf.identity(self._scale())}
        if self.trained:
            excess = gap - self._config.cql_gap

            def loss():
                return -self._scale() * excess, ()

            optimizers["cql"].minimize(loss)
        return metrics

    def _scale(self) -> tf.Tensor:
        """Return alpha, f32 ``[]``: the setting, or what was learned."""
        if not self.trained:
            return tf.constant(self._config.cql_scale)
        return tf.minimum(tf.exp(self._log_scale.value), 1e6)
