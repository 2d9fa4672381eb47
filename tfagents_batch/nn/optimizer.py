"""Optimizers, which check, clip and apply gradients, and target networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

from tfagents_batch.errors import UserError
from tfagents_batch.metrics import Metrics

Rule = Literal["adam", "rmsprop", "rmsprop_tf"]
BETA_1, BETA_2 = 0.9, 0.999  # decay of m, unless it is set, and of v
DECAY = 0.99  # of the mean of squared gradients in RMSProp
_PARTS, _LARGE = 16, 4096  # see ``_sum_of_squares``


def _counters() -> tuple[keras.Variable, keras.Variable]:
    """Return the number of steps, 0, and the learning rate, which is set later."""
    rate = keras.Variable(1.0, dtype="float32", trainable=False)
    return keras.Variable(0, dtype="int64", trainable=False), rate


def _slots(weights: Sequence[keras.Variable], start: float = 0.0) -> list:
    """Return a variable like each weight, with equal numbers at the start."""
    return [
        keras.Variable(np.full(x.shape, start), dtype=x.dtype, trainable=False)
        for x in weights
    ]


class Adam:
    """Algorithm 1 of Kingma and Ba 2015 (arXiv:1412.6980).

    m and v are moving means of g and g^2; after step t the weights move by

        - learning_rate * m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon).

    ``keras.optimizers.Adam`` differs: it adds epsilon to sqrt(v), the variant at the
    end of the paper's section 2. Its effective epsilon is sqrt(1 / (1 - beta_2^t))
    times as large: 30 times in the first step, 3 times in the hundredth. With PPO's
    1e-5, small gradients then hardly count for hundreds of steps. PyTorch and published
    results use the equation above.

    With ``weight_decay`` it is AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101,
    algorithm 2): weights also move by - learning_rate * weight_decay * weight, which is
    no part of m and v. As in SimBa (Lee et al. 2025, arXiv:2410.09754) and BRO (Nauman
    et al. 2024, arXiv:2405.16158), that holds for all weights, also biases and scales
    of normalization, but not for those in ``kept``.

    Attributes:
      iterations: i64, t; learning_rate: f32; both ``keras.Variable``.
    """

    def __init__(
        self,
        weights: Sequence[keras.Variable],
        epsilon: float = 1e-8,
        beta_1: float = BETA_1,
        weight_decay: Any = None,
        kept: Sequence[keras.Variable] = (),
    ):
        self._weights, self.epsilon = list(weights), epsilon
        self._beta_1, self._weight_decay = beta_1, weight_decay
        self._kept, self.start = {id(weight) for weight in kept}, 0.0
        self.iterations, self.learning_rate = _counters()
        self._momentums, self._velocities = (_slots(weights) for _ in range(2))

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables except the weights, always in the same order."""
        slots = *self._momentums, *self._velocities
        return [self.iterations, self.learning_rate, *slots]

    def mean_gradients(self) -> list[tf.Tensor]:
        """Return m / (1 - beta_1^t), a mean of about the last 1 / (1 - beta_1)."""
        count = tf.cast(self.iterations.value, tf.float32)
        correction = 1 - self._beta_1**count
        return [tf.math.divide_no_nan(m.value, correction) for m in self._momentums]

    def step(self, gradients: Sequence[tf.Tensor], compiled: bool = False) -> None:
        """Update every weight with its gradient.

        If XLA compiles it, m and v are kept from being computed a second time for the
        weights, which would need copies of the old m and v.
        """
        betas = beta_1, beta_2 = self._beta_1, BETA_2
        count = self.iterations.value + 1
        step = tf.cast(count, tf.float32)
        scale = self.learning_rate.value / (1 - beta_1**step)
        correction = 1 - beta_2**step
        # Created once, not per weight, to shorten tracing.
        to_mean, to_square = (tf.constant(1 - beta, tf.float32) for beta in betas)
        epsilon = tf.convert_to_tensor(self.epsilon, tf.float32)
        slots = zip(
            *(gradients, self._weights, self._momentums, self._velocities), strict=True
        )
        for gradient, weight, momentum, velocity in slots:
            mean, square = momentum.value, velocity.value
            mean = mean + (gradient - mean) * to_mean
            square = square + (tf.square(gradient) - square) * to_square
            if compiled:  # which TensorFlow annotates as one object
                mean, square = xla.optimization_barrier(mean, square)  # pyright: ignore[reportGeneralTypeIssues]
            root = tf.sqrt(square / correction)
            momentum.assign(mean)
            velocity.assign(square)
            moved = weight.value - scale * mean / (root + epsilon)
            if self._weight_decay is not None and id(weight) not in self._kept:
                decay = self.learning_rate.value * self._weight_decay
                moved -= decay * weight.value
            weight.assign(moved)
        self.iterations.assign(count)


class RMSProp:
    """RMSProp, shared by all actors in Mnih et al. 2016 (arXiv:1602.01783, equation 8).

    g is a moving mean of squared gradients; the weights move by

        - learning_rate * gradient / (sqrt(g) + epsilon)
        - learning_rate * gradient / sqrt(g + epsilon)    with ``inside``

    Without ``inside``, as in PyTorch, g starts at 0: the first steps are up to 10 times
    the learning rate, 1 / sqrt(1 - decay). With it, as in the paper, g starts at 1, as
    TensorFlow 1 did: steps are small until g has decayed, after hundreds of steps. The
    same epsilon matters much more inside, because g is small for most weights.

    Attributes:
      iterations: i64, number of steps; learning_rate: f32; both ``keras.Variable``.
    """

    def __init__(
        self, weights: Sequence[keras.Variable], epsilon: float, inside: bool = False
    ):
        self._weights, self.epsilon = list(weights), epsilon
        self._inside, self.start = inside, float(inside)
        self._squares = _slots(weights, self.start)
        self.iterations, self.learning_rate = _counters()

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables except the weights, always in the same order."""
        return [self.iterations, self.learning_rate, *self._squares]

    def mean_gradients(self) -> list[tf.Tensor]:
        """Return nothing: gradients are not kept, see ``Adam.mean_gradients``."""
        return []

    def step(self, gradients: Sequence[tf.Tensor], compiled: bool = False) -> None:
        """Update every weight with its gradient; ``compiled`` is for ``Adam``."""
        rate = self.learning_rate.value
        slots = zip(gradients, self._weights, self._squares, strict=True)
        for gradient, weight, square in slots:
            mean = square.value
            mean = mean + (tf.square(gradient) - mean) * (1 - DECAY)
            square.assign(mean)
            epsilon, inside = self.epsilon, self._inside
            root = tf.sqrt(mean + epsilon) if inside else tf.sqrt(mean) + epsilon
            weight.assign(weight.value - rate * gradient / root)
        self.iterations.assign(self.iterations.value + 1)


class Optimizer(tf.Module):
    """Adam or RMSProp on a fixed list of weights, with global-norm clipping.

    If the gradient is not finite, the step is skipped: weights, moving means and step
    count do not change.

    Args:
      variables: weights to train.
      clip_norm: largest global gradient norm; None for no clipping.
      epsilon: of the rule.
      rule: "adam" (Kingma and Ba 2015, algorithm 1), "rmsprop" as in PyTorch, or
        "rmsprop_tf" as in TensorFlow 1.
      beta_1, weight_decay, kept: of Adam; see there.

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
        beta_1: float = BETA_1,
        weight_decay: Any = None,
        kept: Sequence[keras.Variable] = (),
    ):
        super().__init__()
        self.trained, self.clip_norm = list(variables), clip_norm
        if rule == "adam":
            self.rule = Adam(self.trained, epsilon, beta_1, weight_decay, kept)
        else:
            self.rule = RMSProp(self.trained, epsilon, inside=rule == "rmsprop_tf")
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

        Raises:
          UserError: if the loss returns something else.
        """
        weights = [variable.value for variable in self.trained]
        with tf.GradientTape() as tape:
            tape.watch(weights)  # also those that became trainable later
            value, others = _checked(loss, loss())
        gradients = tape.gradient(value, weights)
        if when is True:
            return others, self.apply(gradients)
        nothing = {"grad/norm": tf.zeros([]), "grad/skipped": tf.zeros([])}
        return others, tf.cond(when, lambda: self.apply(gradients), lambda: nothing)

    def apply(self, gradients: Sequence[tf.Tensor | None]) -> Metrics:
        """Take one step; a gradient of None counts as zero.

        Returns:
          ``grad/norm`` before clipping and ``grad/skipped`` (1 if not finite).
        """
        step = self._compiled if self.compiled else self._step
        pairs = zip(gradients, self.trained, strict=True)
        return step([_dense(gradient, weight.value) for gradient, weight in pairs])

    def restart(self) -> None:
        """Forget all steps and their gradients."""
        count, _, *slots = self.rule.variables
        count.assign(0)
        for slot in slots:
            slot.assign(tf.zeros_like(slot.value) + self.rule.start)

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


def _checked(loss: Callable, returned: Any) -> tuple[tf.Tensor, Any]:
    """Return what a loss, which may be a user's, has returned: a scalar and more."""
    name = getattr(getattr(loss, "func", loss), "__qualname__", "the loss")
    name = name.replace(".<locals>", "")
    if not isinstance(returned, tuple) or len(returned) != 2:
        size = f" of {len(returned)}" if isinstance(returned, tuple) else ""
        raise UserError(
            f"{name} returned a {type(returned).__name__}{size}; expected the scalar "
            "loss and its metrics: return loss, metrics"
        )
    value = returned[0]
    if not tf.is_tensor(value):
        raise UserError(
            f"{name} returned a {type(value).__name__} as loss; expected a scalar "
            "tensor, computed from the network: return loss, metrics"
        )
    if value.shape.rank not in (0, None):
        raise UserError(
            f"{name} returned a loss of shape {value.shape.as_list()}; expected a "
            "scalar: take masked.mean(x, mask)"
        )
    return returned


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


class TargetNetwork(tf.Module):
    """Weights of a target network, moved towards those of the learned network.

    After every ``every`` updates: target <- (1 - tau) target + tau learned. With tau 1
    it copies them (Mnih et al. 2015); with every 1 and a small tau the target is a
    moving mean (Lillicrap et al. 2016, arXiv:1509.02971, algorithm 1).

    Integers, which a user's layers may have, are always copied.

    Args:
      networks: pairs of a target network, which starts as a copy, and a learned one.
      every: number of updates.
      tau: in (0, 1], a number or a variable.
    """

    def __init__(
        self, networks: Sequence[tuple[Any, Any]], every: int, tau: float | tf.Variable
    ):
        super().__init__()
        pairs = [
            pair
            for target, learned in networks
            for pair in zip(target.variables, learned.variables, strict=True)
        ]
        self._pairs = lambda: pairs
        self._every, self._tau = every, tau
        self.updates = keras.Variable(0, dtype="int64", trainable=False)
        self.copy()

    def copy(self) -> None:
        """Make the target a copy of the learned network."""
        for target, learned in self._pairs():
            target.assign(learned.value)

    def update(self) -> None:
        """Count an update, and move the target if it is time."""
        count = self.updates.value + 1
        self.updates.assign(count)
        moves = count % self._every == 0
        for target, learned in self._pairs():
            old, new = target.value, learned.value
            if new.dtype.is_floating:
                mean = old + tf.cast(self._tau, new.dtype) * (new - old)
                new = tf.where(self._tau < 1, mean, new)  # a copy is exact
            # A select instead of a branch, because branches are slow.
            target.assign(tf.where(moves, new, old))
