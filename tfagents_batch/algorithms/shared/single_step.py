"""Settings, alarms and metrics of algorithms whose update is one gradient step."""

from __future__ import annotations

import dataclasses
from typing import Literal

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.algorithms.shared import alarms, on_policy
from tfagents_batch.config import number, option
from tfagents_batch.graph.batches import Batch
from tfagents_batch.interfaces import Distribution
from tfagents_batch.metrics import Limit, Metrics
from tfagents_batch.nn import summary
from tfagents_batch.nn.optimizer import Rule
from tfagents_batch.ops import histograms, masked, returns
from tfagents_batch.types import VERSION, EnvSpec, TimeStep, Trajectory


@dataclasses.dataclass(frozen=True)
class Settings(on_policy.Settings):
    """Settings of one gradient step."""

    optimizer: Rule = option(
        "rmsprop",
        "adam, rmsprop as in PyTorch, or rmsprop_tf as in GA3C",
    )
    value_scale: float = number(
        0.5, "weight of the value loss, which is half the mean squared error", least=0
    )
    normalize_advantage: bool = option(False, "standardize the advantages of an update")
    reduction: Literal["mean", "sum"] = option(
        "mean",
        "mean over the transitions of an update, or sum, whose step grows with them",
    )

    def alarms(self, spec: EnvSpec | None = None) -> tuple[Limit, ...]:
        """Return the limits of metrics, see ``interfaces.Algorithm``."""
        return (
            alarms.value_loss(self),
            alarms.entropy(self, spec),
            alarms.actions_clipped(spec),
            *alarms.small_returns(self.normalize_return),
        )


def first_rows(policy: Distribution) -> Distribution:
    """Return the policy of the T states with actions, of ``T + 1`` states."""
    return policy.with_params(nest.map(lambda x: x[:-1], policy.params))


def finish(
    learner: on_policy.Learner,
    trajectory: Trajectory,
    steps: TimeStep,
    policy: Distribution,
    log_prob: tf.Tensor,
    value: tf.Tensor,
    target: tf.Tensor,
) -> Metrics:
    """Finish an update, after its gradient step; return further metrics of it.

    Args:
      learner: with the weights after the step.
      trajectory: ``[T, B]``.
      steps: its steps, with normalized observations.
      policy: the policy before the step, of the T states with actions.
      log_prob: f32 ``[T, B]``, ln pi of the actions.
      value, target: f32 ``[T, B]``, values before the step, and their targets.
    """
    rows = learner.config.histograms
    found = _ratio_metrics(trajectory, log_prob, rows)
    if rows:
        found |= _histograms(learner, trajectory, steps, policy, value, target)
    return found | learner.end(trajectory)


def _ratio_metrics(
    trajectory: Trajectory, log_prob: tf.Tensor, keep_rows: bool
) -> Metrics:
    """Return the ratios pi / mu of both policies, if an older one may have acted.

    Args:
      trajectory: ``[T, B]``.
      log_prob: ln pi of its actions, of the policy that learns.
      keep_rows: whether there is a histogram.
    """
    if VERSION not in trajectory.behavior:
        return {}
    mask = trajectory.mask
    log_ratio = masked.safe(log_prob - trajectory.behavior["log_prob"], mask)
    ratio = tf.exp(tf.minimum(log_ratio, returns.MOST_LOG_RATIO))
    found = {
        "lag/ratio": masked.mean(ratio, mask),
        "lag/ratio_above_1": masked.mean(tf.cast(ratio > 1, tf.float32), mask),
    }
    if keep_rows:
        found["histogram/ratio"] = histograms.rows(ratio, mask)
    return found


def _histograms(
    learner: on_policy.Learner,
    trajectory: Trajectory,
    steps: TimeStep,
    policy: Distribution,
    value: tf.Tensor,
    target: tf.Tensor,
) -> Metrics:
    """Return histograms of an update; arguments as of ``finish``."""
    behavior = trajectory.behavior
    batch = Batch(
        steps=nest.map(lambda x: x[:-1], steps),
        action=on_policy.actions(trajectory),
        log_prob=behavior["log_prob"],
        policy=behavior["policy"],
        advantage=(),
        value=value,
        target=target,
    )
    acted = policy.with_params(behavior["policy"])
    optimizer, observations = learner.optimizer, learner.observations
    return summary.update_histograms(trajectory, batch, acted, optimizer, observations)
