"""Assessments of logged rows with Box actions, for reports."""

from __future__ import annotations

import tensorflow as tf

from tfagents_batch.interfaces import BoxAssessment
from tfagents_batch.nn.bounds import Bounds
from tfagents_batch.nn.critics import Critics
from tfagents_batch.ops.windows import Transition
from tfagents_batch.types import Nest


def of_rows(
    critics: Critics,
    bounds: Bounds,
    batch: Transition,
    target: tf.Tensor,
    log_density: Nest = (),
) -> BoxAssessment:
    """Return the assessment of rows by critics, the smallest of which counts.

    Args:
      critics: critics.
      bounds: bounds of the actions.
      batch: rows.
      target: f32 ``[N]``, targets of the values of logged actions.
      log_density: f32 ``[N]``, of these under the policy; ``()`` if it has none.
    """
    q = tf.reduce_min(critics(batch.step, bounds.unit(batch.action)), 0)
    target = tf.where(batch.mask, target, float("nan"))
    return BoxAssessment(q, target, log_density)
