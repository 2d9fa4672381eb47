"""Histograms of updates, for the log."""

from __future__ import annotations

import functools

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.graph.batches import Batch
from tfagents_batch.interfaces import Distribution
from tfagents_batch.metrics import Metrics
from tfagents_batch.nn.moments import ObservationNormalizer
from tfagents_batch.nn.optimizer import Optimizer
from tfagents_batch.ops import histograms
from tfagents_batch.types import Trajectory


def update_histograms(
    trajectory: Trajectory,
    batch: Batch,
    policy: Distribution,
    optimizer: Optimizer,
    observations: ObservationNormalizer,
) -> Metrics:
    """Return histograms of the trajectory, the new weights and their gradients.

    Args:
      trajectory: trajectory of the update.
      batch: training batch of that trajectory, ``[T, B, ...]``.
      policy: behavior policy.
      optimizer: its state after the update.
      observations: normalizer with the statistics used for the trajectory.
    """
    mask = trajectory.mask
    rows = functools.partial(histograms.rows, mask=mask)
    metrics = {
        "policy/action": rows(nest.flatten(batch.action)[0]),
        "policy/mode": rows(nest.flatten(policy.mode())[0]),
        "policy/log_prob": rows(batch.log_prob),
        "policy/row_entropy": rows(policy.entropy()),
        "value/target": rows(batch.target),
        "value/row_loss": rows(tf.square(batch.value - batch.target) / 2),
    }
    metrics |= weight_histograms(optimizer)
    raw = nest.map(lambda x: x[:-1], trajectory.steps.observation)
    return metrics | observations.metrics(raw, batch.steps.observation, mask)


def weight_histograms(*optimizers: Optimizer) -> Metrics:
    """Return histograms of the weights and, if the rule keeps them, of gradients."""
    weights, gradients, paths = [], [], []
    for each in optimizers:
        weights += [tf.convert_to_tensor(x.value) for x in each.trained]
        gradients += each.rule.mean_gradients()
        paths += [x.path for x in each.trained]
    found = histograms.by_group("weights", weights, paths)
    if gradients:
        found |= histograms.by_group("grad", gradients, paths)
    return found
