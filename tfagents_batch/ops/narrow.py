"""Matrix products with few columns, as heads of networks have them.

XLA's matrix product on a CPU packs both factors into panels, whose cost a product of
two columns does not pay back: the gradients of a 64 by 2 head took as long as those
of a 64 by 64 layer. As products with vectors they take a tenth.
"""

from __future__ import annotations

import tensorflow as tf

from tfagents_batch.ops import gradients

WIDEST = 8  # columns; from there on the matrix product is as fast


def matmul(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """``x @ kernel``, its gradients column by column where there are few.

    Args:
      x: ``[N, F]``.
      kernel: ``[F, A]``, A static.
    """
    width = kernel.shape[-1]
    kernel = tf.convert_to_tensor(kernel)  # of a variable, which would be captured
    return _narrow(x, kernel) if 1 < width <= WIDEST else tf.matmul(x, kernel)


@gradients.custom
def _narrow(x, kernel):
    def gradient(upstream):
        columns = tf.unstack(upstream, axis=1)
        rows = tf.unstack(kernel, axis=1)
        to_x = tf.add_n([c[:, None] * r for c, r in zip(columns, rows, strict=True)])
        to_kernel = [tf.linalg.matvec(x, c, transpose_a=True) for c in columns]
        return to_x, tf.stack(to_kernel, axis=1)

    return tf.matmul(x, kernel), gradient
