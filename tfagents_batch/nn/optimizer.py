"""Optimizer that checks, clips and applies gradients and returns metrics."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import keras
import tensorflow as tf

from tfagents_batch.metrics import Metrics
from tfagents_batch.nn.adam import Adam
from tfagents_batch.nn.rmsprop import RMSProp

Rule = Literal["adam", "rmsprop", "rmsprop_tf"]
_RULES = {
    "adam": Adam,
    "rmsprop": functools.partial(RMSProp, inside=False),
    "rmsprop_tf": functools.partial(RMSProp, inside=True),
}
_PARTS, _LARGE = 16, 4096  # see ``_sum_of_squares``


class Optimizer(tf.Module):
    """Adam or RMSProp on a fixed list of weights, with global-norm clipping.

    If the gradient is not finite, the step is skipped: weights, moving means and step
    count do not change.

    Args:
      variables: weights to train.
      clip_norm: largest global gradient norm; None for no clipping.
      epsilon: of the rule.
      rule: "adam" (Kingma and Ba 2015, algorithm 1), "rmsprop" as in PyTorch, or
        "rmsprop_tf" as in TensorFlow 1, see ``nn/rmsprop.py``.

    Attributes:
      rule: the rule, with its variables.
      compiled: True to compile the step with XLA, alone or as a part of its caller; it
        makes fewer passes over memory.
    """

    def __init__(
        self,
        variables: Sequence[keras.Variable],
        clip_norm: float | None,
        epsilon: float = 1e-5,
        rule: Rule = "adam",
    ):
        super().__init__()
        self.trained = list(variables)
        self.clip_norm = clip_norm
        self.rule = _RULES[rule](self.trained, 1.0, epsilon=epsilon)
        self._compiled = tf.function(
            lambda gradients: self._step(gradients, compiled=True),
            jit_compile=True,
            autograph=False,
        )
        self.compiled = False

    def set_learning_rate(self, learning_rate: tf.Tensor) -> None:
        self.rule.learning_rate.assign(learning_rate)

    def minimize(
        self, loss: Callable[[], tuple[tf.Tensor, Any]], when: Any = True
    ) -> tuple[Any, Metrics]:
        """Take one step along the gradient of a loss.

        Args:
          loss: returns the loss, f32 ``[]``, and further results.
          when: bool ``[]``; where false, nothing changes.

        Returns:
          The further results, and the metrics of ``apply``, 0 without a step.
        """
        weights = [variable.value for variable in self.trained]
        with tf.GradientTape() as tape:
            tape.watch(weights)  # also those that became trainable later
            value, others = loss()
        gradients = tape.gradient(value, weights)
        if when is True:
            return others, self.apply(gradients)
        nothing = {"grad/norm": tf.zeros([]), "grad/skipped": tf.zeros([])}
        return others, tf.cond(when, lambda: self.apply(gradients), lambda: nothing)

    def apply(self, gradients: Sequence[tf.Tensor | None]) -> Metrics:
        """Take one step.

        Args:
          gradients: one for each weight; None counts as zero.

        Returns:
          ``grad/norm`` before clipping and ``grad/skipped`` (1 if not finite).
        """
        step = self._compiled if self.compiled else self._step
        return step(
            [
                _dense(gradient, variable.value)
                for gradient, variable in zip(gradients, self.trained, strict=True)
            ]
        )

    def _step(self, gradients: list[tf.Tensor], compiled: bool = False) -> Metrics:
        norm = tf.sqrt(tf.add_n([_sum_of_squares(x) for x in gradients]))
        finite = tf.math.is_finite(norm)
        if self.clip_norm is not None:
            scale = self.clip_norm / tf.maximum(norm, self.clip_norm)
            gradients = [gradient * scale for gradient in gradients]

        def step():
            self.rule.step(gradients, compiled)
            return tf.constant(0.0)

        if compiled:
            skipped = self._select(finite, step)
        else:
            skipped = tf.cond(finite, step, lambda: tf.constant(1.0))
        return {"grad/norm": tf.where(finite, norm, 0.0), "grad/skipped": skipped}

    def _select(self, finite: tf.Tensor, step: Callable[[], tf.Tensor]) -> tf.Tensor:
        """Take the step, and undo it where the gradient is not finite.

        XLA does both in one pass. For a branch it would copy all weights and moving
        means in every step, and on a GPU the host would wait for the condition.
        """
        variables = [*self.trained, *self.rule.variables]
        before = [tf.convert_to_tensor(x) for x in variables]
        skipped = step()
        for variable, old in zip(variables, before, strict=True):
            variable.assign(tf.where(finite, tf.convert_to_tensor(variable), old))
        return tf.where(finite, skipped, 1.0)

    def named_variables(self) -> dict[str, keras.Variable]:
        return {f"{i:03d}": v for i, v in enumerate(self.rule.variables)}


def _dense(gradient: tf.Tensor | tf.IndexedSlices | None, like: tf.Tensor) -> tf.Tensor:
    """Return a gradient with the static shape of its weight, also of an embedding."""
    if gradient is None:
        return tf.zeros_like(like)
    if isinstance(gradient, tf.IndexedSlices):
        rows = gradient.values, gradient.indices
        return tf.math.unsorted_segment_sum(*rows, like.shape[0])
    return gradient


def _sum_of_squares(x: tf.Tensor) -> tf.Tensor:
    """Return the sum of the squares of all elements, f32 ``[]``.

    Large tensors are first summed in 16 parts, element by element. XLA reduces a tensor
    on a CPU without vector instructions, but adds such parts with them: 131,072
    elements took 25 instead of 117 microseconds.
    """
    size = x.shape.num_elements()
    if size < _LARGE or size % _PARTS:
        return tf.reduce_sum(tf.square(x))
    parts = tf.unstack(tf.reshape(x, [_PARTS, size // _PARTS]))
    return tf.reduce_sum(tf.add_n([tf.square(part) for part in parts]))
