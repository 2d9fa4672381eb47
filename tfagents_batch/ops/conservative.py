"""Conservative values: low for actions that are not among the logged ones.

Shapes: K critics, N rows, M drawn actions in each row.
"""

from __future__ import annotations

import tensorflow as tf

from tfagents_batch.ops import masked


def soft_maximum(q: tf.Tensor, log_density: tf.Tensor) -> tf.Tensor:
    """Return ln sum_m exp(Q(s, a_m)) / p(a_m), f32 ``[K, N]``.

    It estimates ln of M times the integral of exp(Q(s, a)) over all actions (Kumar et
    al. 2020, arXiv:2006.04779, appendix F; their code leaves ln M out, too).

    Args:
      q: f32 ``[K, N, M]``.
      log_density: f32 ``[N, M]``, ln p of the actions, as they were drawn.
    """
    return tf.reduce_logsumexp(q - log_density, -1)


def gap(
    q: tf.Tensor, log_density: tf.Tensor, logged: tf.Tensor, mask: tf.Tensor
) -> tf.Tensor:
    """Return the mean soft maximum less the mean of Q(s, a), f32 ``[K]``.

    Args:
      q, log_density: see ``soft_maximum``.
      logged: f32 ``[K, N]``, Q of the logged actions.
      mask: bool ``[N]``, rows that count.
    """
    excess = soft_maximum(q, log_density) - logged
    return masked.mean_over_time(tf.transpose(excess), mask[:, tf.newaxis])
