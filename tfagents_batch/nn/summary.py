"""Histograms of an update of an actor-critic, for the log."""

from __future__ import annotations

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.interfaces import Distribution, Metrics
from tfagents_batch.nn.moments import ObservationNormalizer
from tfagents_batch.nn.optimizer import Optimizer
from tfagents_batch.ops import histograms
from tfagents_batch.ops.batches import Batch
from tfagents_batch.types import Trajectory

HISTOGRAMS = (
    *("policy/action", "policy/mode", "policy/log_prob", "policy/row_entropy"),
    *("value/target", "value/row_loss"),
    *("weights/all", "weights/policy", "weights/value"),
    *("grad/all", "grad/policy", "grad/value"),
    *("normalize/observation_seen", "normalize/observation_mean"),
    "normalize/observation_std",
)


def of_update(
    trajectory: Trajectory,
    batch: Batch,
    policy: Distribution,
    optimizer: Optimizer,
    observations: ObservationNormalizer,
) -> Metrics:
    """Histograms of what was acted on, of the new weights and of their gradients.

    Args:
      trajectory: learned from.
      batch: what was learned of it, ``[T, B, ...]``.
      policy: that acted.
      optimizer: after the update.
      observations: with the statistics that the trajectory was seen with.
    """
    mask = trajectory.mask
    weights = [tf.convert_to_tensor(x.value) for x in optimizer.trained]
    paths = [weight.path for weight in optimizer.trained]
    metrics = histograms.of_acting(policy, batch, mask)
    metrics |= histograms.by_group("weights", weights, paths)
    metrics |= histograms.by_group("grad", optimizer.adam.mean_gradients(), paths)
    raw = nest.map(lambda x: x[:-1], trajectory.steps.observation)
    return metrics | observations.metrics(raw, batch.steps.observation, mask)
