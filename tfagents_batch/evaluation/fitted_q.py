"""Fitted Q evaluation by networks, in one compiled program.

The value of every action under the evaluated policy is a regression on r + gamma sum_a
pi_e(a | s') Q'(s', a), with a slowly changing copy Q' (Le et al. 2019, algorithm 3; the
networks of Horizon's counterfactual evaluation have a head for each metric, too).
Beside it, networks predict the reward of the next step, and the logging policy.

With several folds, fold k has networks of its own, which never see its rows.
"""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.errors import UserError
from tfagents_batch.evaluation.fitting import (
    EvaluationSettings,
    FitSample,
    FitSettings,
    Predictions,
)
from tfagents_batch.nn.layers.ensemble import EnsembleMLP, Hidden
from tfagents_batch.nn.optimizer import Optimizer, TargetNetwork
from tfagents_batch.tracing import anew
from tfagents_batch.training.log import console

_CALL = 500  # steps of a call of the program
_ROWS = 8192  # of a prediction
_XLA = {"autograph": False, "jit_compile": True}


class Fit(tf.Module):
    """Networks of K folds, fitted to rows; a ``fitting.Values``.

    Its ``losses`` are means of each call of the program, ``[calls, 4]``: of values,
    values of the logging policy, rewards and the logging policy. UserError if a loss is
    not finite.

    Args:
      rows: the rows.
      folds: number of rows of each fold, K >= 2; or empty: one network sees all rows.
      evaluation: settings, with those of the fit.
    """

    def __init__(
        self, rows: FitSample, folds: tuple[int, ...], evaluation: EvaluationSettings
    ):
        super().__init__()
        self._settings = settings = evaluation.fit
        self._folds, self._seed = folds, evaluation.seed
        count, (_, width) = max(len(folds), 1), rows.state.shape
        self._actions, self._heads = rows.mask.shape[1], rows.reward.shape[1]
        self._scale = _scale(rows)
        scaled = rows._replace(reward=(rows.reward / self._scale).astype(np.float32))
        self._size = len(rows.action)
        self._count = settings.steps_of(self._size - max(folds, default=0))
        both = self._actions * self._heads
        keras.utils.set_random_seed(evaluation.seed)
        outputs = both, self._heads, both, self._actions
        # Of values, values of the logging policy, next rewards, the logging policy.
        nets = [_network(settings, count, width, units) for units in outputs]
        targets = [_network(settings, count, width, units) for units in outputs[:2]]
        self._nets, self._targets = nets, targets
        trained = [x for net in nets for x in net.trainable_variables]
        self._optimizer = Optimizer(trained, None, 1e-8)
        pairs = [*zip(targets, nets[:2], strict=True)]
        self._moves = TargetNetwork(pairs, 1, settings.target_tau)
        self._predicts = tf.function(anew(self._outputs), **_XLA)
        self.losses: list[np.ndarray] = []
        with console.doing("fitting") as say:
            self._train(FitSample(*(tf.constant(x) for x in scaled)), say)

    def predict(self, state: np.ndarray, mask: np.ndarray, fold: int) -> Predictions:
        """Return predictions of what has not seen a fold, see ``fitting.Values``."""
        parts = []
        for first in range(0, len(state), _ROWS):
            part = state[first : first + _ROWS], mask[first : first + _ROWS]
            size = len(part[0])
            part = [np.concatenate([x, x[:1].repeat(_ROWS - size, 0)]) for x in part]
            outputs = self._predicts(*map(tf.constant, part))
            parts.append([x[fold].numpy()[:size] for x in outputs])
        q, reward, behavior, logged = map(np.concatenate, zip(*parts, strict=True))
        scaled = q * self._scale, reward * self._scale
        return Predictions(*scaled, behavior, logged * self._scale)

    # ---- parts

    def _train(self, rows: FitSample, say: Callable[[str], None]) -> None:
        program = tf.function(anew(self._steps), **_XLA)
        steps = self._count
        for first in range(0, steps, _CALL):
            count = min(_CALL, steps - first)
            now = f"step {first:,} of {steps:,}" if first else "compiling"
            say(f"fitting: {now}")
            losses = program(rows, tf.constant(first), tf.constant(count)).numpy()
            self.losses.append(losses)
            if not np.isfinite(losses).all():
                raise UserError(
                    f"the loss of fitted Q evaluation is {losses.tolist()} after "
                    f"{first + count} steps; expected finite rewards and features. "
                    "Normalize the features, or take a smaller --fit.learning_rate"
                )

    def _steps(self, rows: FitSample, first: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        def body(index, total):
            return index + 1, total + self._step(rows, first + index)

        _, total = tf.while_loop(
            lambda index, _: index < count,
            body,
            (0, tf.zeros([4])),
            parallel_iterations=1,
            name="fit",
        )
        return total / tf.cast(count, tf.float32)

    def _step(self, rows: FitSample, step: tf.Tensor) -> tf.Tensor:
        settings = self._settings
        left = 1 - tf.cast(step, tf.float32) / self._count
        self._optimizer.set_learning_rate(settings.learning_rate * left)
        index = self._draw(step)
        batch = FitSample(*(tf.gather(x, index) for x in rows))  # [K, B, ...]
        after, logged = (net(batch.after) for net in self._targets)
        value = batch.policy[..., tf.newaxis] * self._by_action(after)
        discount = batch.discount[..., tf.newaxis]
        target = batch.reward + discount * tf.reduce_sum(value, -2)
        logged = batch.reward + discount * logged
        chosen = tf.one_hot(batch.action, self._actions)[..., tf.newaxis]

        def loss():
            q, value, reward, behavior = (net(batch.state) for net in self._nets)
            q = tf.reduce_sum(chosen * self._by_action(q), -2)
            reward = tf.reduce_sum(chosen * self._by_action(reward), -2)
            log = tf.nn.log_softmax(_possible(behavior, batch.mask))
            log = tf.where(batch.mask, log, 0.0)
            likelihood = tf.reduce_sum(chosen[..., 0] * log, -1)
            losses = [
                tf.reduce_mean(tf.reduce_sum((q - target) ** 2, -1)),
                tf.reduce_mean(tf.reduce_sum((value - logged) ** 2, -1)),
                tf.reduce_mean(tf.reduce_sum((reward - batch.reward) ** 2, -1)),
                -tf.reduce_mean(likelihood),
            ]
            total = tf.add_n(losses) * max(len(self._folds), 1)
            return total + self._prior(), tf.stack(losses)

        losses, _ = self._optimizer.minimize(loss)
        self._moves.update()
        return losses

    def _prior(self) -> tf.Tensor:
        """Return the loss of the kernels that imitate the logging policy, f32 ``[]``.

        It is that of normal weights with the variance 4 / inputs, divided by the number
        of rows. Without it, many passes over few rows end in networks that are sure of
        what was chance, and to which decisions look rare that the log does take. More
        of it smooths policies that do not act by chance.
        """
        rows = tf.constant(self._size - np.array(self._folds or (0,)), tf.float32)
        squares = [
            layer.kernel.shape[1] / 4 * tf.reduce_sum(layer.kernel**2, (1, 2))
            for layer in self._nets[3].layers
        ]
        return tf.reduce_sum(tf.add_n(squares) / (2 * rows))

    def _draw(self, step: tf.Tensor) -> tf.Tensor:
        """Draw rows of all folds but the network's own, int32 ``[K, B]``."""
        key = seeds.fold(seeds.key(self._seed, "fit"), step)
        folds = np.array(self._folds or (0,), np.int32)
        shape = len(folds), self._settings.batch_size
        u = seeds.uniform(shape, key)
        others = (self._size - folds)[:, np.newaxis]
        index = tf.minimum(tf.cast(u * others.astype(np.float32), tf.int32), others - 1)
        start = (np.cumsum(folds) - folds)[:, np.newaxis]
        return tf.where(index >= start, index + folds[:, np.newaxis], index)

    def _by_action(self, x: tf.Tensor) -> tf.Tensor:
        return tf.reshape(x, [*x.shape[:2], self._actions, self._heads])

    def _outputs(self, state: tf.Tensor, mask: tf.Tensor):
        q, value, reward, behavior = (net(state) for net in self._nets)
        behavior = tf.nn.softmax(_possible(behavior, mask))
        return self._by_action(q), self._by_action(reward), behavior, value


def _network(settings: FitSettings, count: int, width: int, units: int) -> EnsembleMLP:
    relu = Hidden(activation="relu")
    net = EnsembleMLP(count, settings.hidden, units, "fan_in", relu)
    net.build((count, None, width))
    return net


def _possible(logits: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Return logits that are very small where an action is not possible."""
    return tf.where(mask | ~tf.reduce_any(mask, -1, True), logits, -1e9)


def _scale(rows: FitSample) -> np.ndarray:
    """Return about how large values are, f64 ``[M]``: networks learn values near 1."""
    horizon = 1 / max(1 - float(rows.discount.mean()), 1e-3)
    size = np.sqrt((rows.reward.astype(np.float64) ** 2).mean(0)) * horizon
    return np.where(size > 0, size, 1.0)
