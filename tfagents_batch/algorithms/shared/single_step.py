"""Actor-critics whose update is one gradient step on everything that was collected."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NamedTuple

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.algorithms.shared import alarms, on_policy
from tfagents_batch.config import option
from tfagents_batch.interfaces import VERSION, Distribution, Updated
from tfagents_batch.metrics import Metrics
from tfagents_batch.nn import summary
from tfagents_batch.nn.optimizer import Rule
from tfagents_batch.ops import carried, histograms, losses, masked, returns
from tfagents_batch.ops.batches import Batch
from tfagents_batch.types import EnvSpec, TimeStep, Trajectory


@dataclasses.dataclass(frozen=True)
class Settings(on_policy.Settings):
    """Settings of one gradient step."""

    optimizer: Rule = option(
        "rmsprop",
        "rule of the gradient step; rmsprop as in PyTorch, rmsprop_tf as in GA3C",
    )
    optimizer_epsilon: float = option(1e-5, "epsilon of the rule", above=0)
    value_scale: float = option(
        0.5, "weight of the value loss, which is half the mean squared error", least=0
    )
    normalize_advantage: bool = option(False, "standardize the advantages of an update")
    reduction: Literal["mean", "sum"] = option(
        "mean",
        "mean over the transitions of an update, or sum, whose step grows with them",
    )


class Rows(NamedTuple):
    """What a loss of the policy needs, f32 ``[T, B]`` unless it says otherwise.

    Attributes:
      policy: the policy that learns, of the T states with actions.
      log_prob: ln pi of the actions.
      value: ``[T+1, B]``, a constant.
      reward, discount: see ``ops/returns.py``; rewards are normalized.
      action: as in a trajectory.
      behavior_log_prob: ln mu of the actions, of the policy that acted.
      mask: bool, rows that count.
    """

    policy: Distribution
    log_prob: tf.Tensor
    value: tf.Tensor
    reward: tf.Tensor
    discount: tf.Tensor
    action: tf.Tensor
    behavior_log_prob: tf.Tensor
    mask: tf.Tensor


class Surrogate(NamedTuple):
    """Loss of a policy.

    Attributes:
      loss: f32 ``[]``.
      target: f32 ``[T, B]``, target of the value.
      metrics: further metrics.
    """

    loss: tf.Tensor
    target: tf.Tensor
    metrics: Metrics


class SingleStep(on_policy.OnPolicy):
    """Base of the algorithms; they add ``surrogate``, a loss of the policy.

    Args:
      config: settings.
      spec: spec of the environments.
      network: the user's ``keras.Model`` or builder, see ``nn.user``; None uses the
        built-in network.

    Attributes:
      policy: policy that learns.
      network, observations: those of the policy.

    Raises:
      UserError: for settings or a network that cannot be used.
    """

    learns_value = True  # whether the update has a value loss

    def __init__(self, config: Any, spec: EnvSpec, network=None):
        config = config.check()
        rule = config.optimizer_epsilon, config.optimizer
        super().__init__(config, spec, network, *rule)
        self.alarms = (
            alarms.value_loss(config),
            alarms.entropy(config, spec),
            alarms.actions_clipped(spec),
            *alarms.small_returns(config.normalize_return),
        )

    def surrogate(self, rows: Rows) -> Surrogate:
        """Return the loss of the policy; called once in an update."""
        raise NotImplementedError

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Take a gradient step on a trajectory ``[T, B]``.

        The statistics of observations are updated last, so that acting and learning
        normalize a trajectory in the same way.
        """
        del seed
        config, mask, steps = self.config, trajectory.mask, trajectory.steps
        self.optimizer.set_learning_rate(config.learning_rate(step))
        # Acting does not use rewards, so their statistics are updated first.
        self.rewards.update(trajectory, config.gamma)
        seen = steps._replace(observation=self.observations(steps.observation), info={})
        weights = [variable.value for variable in self.optimizer.trained]
        with tf.GradientTape() as tape:
            tape.watch(weights)  # they may be tensors, see ops.carried
            loss, rows, target, metrics = self._loss(trajectory, seen, step)
        gradients = tape.gradient(loss, weights)
        learns = tf.reduce_any(mask)  # else momentum would still move the weights
        metrics |= carried.when(
            learns,
            lambda: self.optimizer.apply(gradients),
            {"grad/norm": tf.zeros([]), "grad/skipped": tf.zeros([])},
        )
        metrics |= {
            "grad/updates": tf.cast(learns, tf.float32),
            "grad/learning_rate": tf.identity(self.optimizer.rule.learning_rate.value),
        }
        metrics |= self.rewards.metrics(trajectory.reward, mask)
        if VERSION in trajectory.behavior:
            metrics |= self.lag(trajectory) | self._ratios(rows)
        if config.histograms:
            metrics |= self._histograms(trajectory, seen, rows, target)
        self.observations.update(
            nest.map(lambda x: x[:-1], steps.observation), trajectory.counted
        )
        return Updated(metrics)

    def _ratios(self, rows: Rows) -> Metrics:
        """Return the ratios of the probabilities of both policies, pi / mu."""
        log_ratio = masked.safe(rows.log_prob - rows.behavior_log_prob, rows.mask)
        ratio = tf.exp(tf.minimum(log_ratio, returns.MOST_LOG_RATIO))
        found = {
            "lag/ratio": masked.mean(ratio, rows.mask),
            "lag/ratio_above_1": masked.mean(tf.cast(ratio > 1, tf.float32), rows.mask),
        }
        if self.config.histograms:
            found["lag/row_ratio"] = histograms.rows(ratio, rows.mask)
        return found

    def _loss(self, trajectory: Trajectory, seen: TimeStep, step) -> tuple:
        """Return the loss, the rows, the target of the value, and metrics."""
        config, mask = self.config, trajectory.mask
        heads = self.network.unroll(seen, trajectory.state[0])[0]
        network_loss = self.network.extra_loss()
        policy = heads.policy.with_params(
            nest.map(lambda x: x[:-1], heads.policy.params)
        )
        action = on_policy.actions(trajectory)
        rows = Rows(
            policy=policy,
            log_prob=policy.log_prob(action),
            value=tf.stop_gradient(heads.value),
            reward=self.rewards(trajectory.reward),
            discount=trajectory.discount(config.gamma),
            action=action,
            behavior_log_prob=trajectory.behavior["log_prob"],
            mask=mask,
        )
        found = self.surrogate(rows)
        entropy = policy.entropy()
        bonus = losses.entropy_bonus(entropy, config.entropy_scale(step), mask)
        loss = found.loss + bonus
        metrics = found.metrics | {
            "loss/policy": found.loss,
            "loss/network": network_loss,
            "policy/entropy": masked.mean(entropy, mask),
        }
        if self.learns_value:
            value = losses.value(heads.value[:-1], found.target, mask)
            loss += config.value_scale * value
            metrics |= {
                "loss/value": value,
                "value/explained_variance": losses.explained_variance(
                    rows.value[:-1], found.target, mask
                ),
                "value/mean": masked.mean(rows.value[:-1], mask),
            }
        if config.reduction == "sum":
            loss *= tf.reduce_sum(tf.cast(mask, tf.float32))
        metrics["loss/total"] = loss = loss + network_loss
        return loss, rows, found.target, metrics

    def _histograms(
        self, trajectory: Trajectory, seen: TimeStep, rows: Rows, target: tf.Tensor
    ) -> Metrics:
        """Return histograms of an update; ``seen`` has normalized observations."""
        behavior = trajectory.behavior
        batch = Batch(
            steps=nest.map(lambda x: x[:-1], seen),
            action=rows.action,
            log_prob=rows.behavior_log_prob,
            policy=behavior["policy"],
            advantage=(),
            value=rows.value[:-1],
            target=target,
        )
        policy = rows.policy.with_params(behavior["policy"])
        return summary.update_histograms(
            trajectory, batch, policy, self.optimizer, self.observations
        )
