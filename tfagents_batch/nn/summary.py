"""Histograms of updates, for the log."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.graph.training_batch import Batch
from tfagents_batch.interfaces import Distribution
from tfagents_batch.metrics import Metrics
from tfagents_batch.nn.normalizers import ObservationNormalizer
from tfagents_batch.nn.optimizer import Optimizer
from tfagents_batch.ops import histograms
from tfagents_batch.types import Nest, Trajectory

# A weight belongs to the group whose words its path contains; other weights to none.
_GROUPS = {
    "policy": ("policy", "log_std", "raw_std", "actor/"),
    "value": ("value", "critics/"),
}


def update_histograms(
    trajectory: Trajectory,
    batch: Batch,
    policy: Distribution,
    optimizer: Optimizer,
    observations: ObservationNormalizer,
) -> Metrics:
    """Return histograms of the trajectory, the new weights and their gradients.

    Args:
      trajectory, batch: of the update, ``[T, B, ...]``.
      policy: behavior policy.
      optimizer: its state after the update.
      observations: normalizer with the statistics used for the trajectory.
    """
    mask = trajectory.mask
    rows = functools.partial(histograms.rows, mask=mask)
    metrics = {
        **_parts("histogram/action", batch.action, rows),
        **_parts("histogram/mode", policy.mode(), rows),
        "histogram/log_prob": rows(batch.log_prob),
        "histogram/entropy": rows(policy.entropy()),
        "histogram/target": rows(batch.target),
        "histogram/value_loss": rows(tf.square(batch.value - batch.target) / 2),
    }
    metrics |= weight_histograms({"network": optimizer})
    raw = nest.map(lambda x: x[:-1], trajectory.steps.observation)
    return metrics | observations.metrics(raw, batch.steps.observation, mask)


def _parts(name: str, action: Nest, rows: Callable[[tf.Tensor], tf.Tensor]) -> Metrics:
    """Return rows of actions, each part of a Dict or Tuple by its path."""
    return {path: rows(x) for path, x in nest.named(action, name).items()}


def weight_histograms(optimizers: Mapping[str, Optimizer]) -> Metrics:
    """Return histograms of the weights and, if the rule keeps them, of gradients.

    Optimizers are by the name of the network they train; "actor" for that of a policy,
    "critics" for that of values.
    """
    weights, gradients, paths = [], [], []
    for name, optimizer in optimizers.items():
        weights += [tf.convert_to_tensor(x.value) for x in optimizer.trained]
        gradients += optimizer.rule.mean_gradients()
        paths += [f"{name}/{x.path}" for x in optimizer.trained]
    metrics = by_group("weights", weights, paths)
    return metrics | (by_group("gradient", gradients, paths) if gradients else {})


def by_group(name: str, parts: Sequence[tf.Tensor], paths: Sequence[str]) -> Metrics:
    """Return histograms of all weights (or gradients), the policy's and the value's.

    These have "_policy" and "_value" behind the name. A group without weights is
    omitted. There is one part for each path of a weight.
    """
    metrics = {f"histogram/{name}": histograms.tensors(parts)}
    for group, words in _GROUPS.items():
        pairs = zip(parts, paths, strict=True)
        members = [part for part, path in pairs if any(x in path for x in words)]
        if members:
            metrics[f"histogram/{name}_{group}"] = histograms.tensors(members)
    return metrics
