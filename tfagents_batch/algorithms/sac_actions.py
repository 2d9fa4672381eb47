"""Numbers and choices of the actions of SAC: draws, expectations, aims of entropy.

Numbers of a Box are drawn, and critics see them. Choices are not drawn: critics have a
value for each, and expectations are sums over all of them (Christodoulou 2019,
arXiv:1910.07207). Actions with both are those of hybrid SAC (Delalleau et al. 2019,
arXiv:1912.11077). Several choices have a branch of values each, see ``Branches``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import gymnasium
import tensorflow as tf

from tfagents_batch import nest, seeds
from tfagents_batch.algorithms.shared.critic_values import Returns
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks
from tfagents_batch.nn.actor import Bounds
from tfagents_batch.ops import masked
from tfagents_batch.ops.branches import Branches
from tfagents_batch.types import Nest, TimeStep

NUMBERS, CHOICES = "numbers", "choices"  # kinds of parts of an action


class Drawn(NamedTuple):
    """Actions of the policy in N rows.

    Attributes:
      action: numbers, f32 ``[N, A]``, in -1 to 1; None if there are none.
      log: their log density, f32 ``[N]``; ``()`` if there are none.
      choices: ln pi of all choices, f32 ``[N D, W]``, see ``Branches``; ``()`` if there
        are none.
    """

    action: tf.Tensor | None
    log: Nest
    choices: Nest


class Actions:
    """Numbers and choices of a policy's actions.

    Args:
      policy: policy with ``bounds`` of its numbers and ``branches`` of its choices,
        each None if there are none, and the methods of ``policies.mixed.Mixed``.

    Attributes:
      kinds: those that actions have.
      sizes: inputs and outputs of critics, see ``Critics``.
    """

    def __init__(self, policy: Any):
        self._policy = policy
        self._bounds: Bounds | None = policy.bounds
        self._branches: Branches | None = policy.branches
        self.kinds, inputs, outputs = [], 0, 0
        if self._bounds is not None:
            self.kinds.append(NUMBERS)
            inputs = self._bounds.size
        if self._branches is not None:
            self.kinds.append(CHOICES)
            outputs = self._branches.size
        self.sizes = inputs, outputs

    def draw(self, step: TimeStep, key: tf.Tensor) -> Drawn:
        """Draw numbers of an action in each row; choices are not drawn."""
        numbers, choices = self._policy.kinds(step)
        drawn = Drawn(None, (), () if choices is None else choices)
        if numbers is None:
            return drawn
        size = nest.static_size(step.first)
        noise = seeds.normal([size, self.sizes[0]], key)
        action, log = numbers.sample_with_log_prob(noise)
        return drawn._replace(action=action, log=log)

    def expected(
        self, value: tf.Tensor, drawn: Drawn, step: TimeStep
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Return values, f32 ``[N]`` or more, and ln pi by kind, f32 ``[N]``.

        Of choices, with values ``[N, A]``, they are the expectations over all choices:
        the mean of values over branches, and the sum of ln pi.
        """
        logs = {} if isinstance(drawn.log, tuple) else {NUMBERS: drawn.log}
        if self._branches is None:
            return value, logs
        log_prob, probability = drawn.choices, tf.exp(drawn.choices)
        if networks.split_mask(step.observation)[1] is not None:
            # 0 times an infinite value or log would be NaN.
            log_prob = masked.safe(log_prob, probability > 0)
        products = probability * self._branches.rows(value), probability * log_prob
        value, log_prob = (tf.reduce_sum(x, -1) for x in products)
        value, log_prob = (self._branches.mean(x) for x in (value, log_prob))
        return value, logs | {CHOICES: self._branches.count * log_prob}

    def raised(
        self, value: tf.Tensor, drawn: Drawn, step: TimeStep
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Return what the actor raises, f32 ``[N]``, and ln pi by kind.

        The value of a branch is that of an action given its choice. So the policy of a
        branch follows the gradient of its own values, pi_d Q_d summed over branches and
        choices, while numbers follow the mean over branches.
        """
        found, logs = self.expected(value, drawn, step)
        if self._branches is None or self._branches.count == 1:
            return found, logs
        probability = tf.exp(drawn.choices)
        rows = self._branches.rows(value)
        numbers = tf.reduce_sum(tf.stop_gradient(probability) * rows, -1)
        own = tf.reduce_sum(probability * tf.stop_gradient(rows), -1)
        own = self._branches.count * self._branches.mean(own)
        # Without its value: only the gradient is of use.
        return self._branches.mean(numbers) + own - tf.stop_gradient(own), logs

    def taken(self, outputs: tf.Tensor, index: tf.Tensor | None) -> tf.Tensor:
        """Return outputs of critics for actions taken.

        Of choices it is f32 ``[K, N D]``, of outputs ``[K, N, A]`` and int32 ``[N D]``.
        """
        if self._branches is None:
            return outputs
        count, rows, size = outputs.shape
        values = self._branches.rows(tf.reshape(outputs, [count * rows, size]))
        values = tf.reshape(values, [count, -1, values.shape[-1]])
        return tf.reduce_sum(values * tf.one_hot(index, values.shape[-1]), -1)

    def repeated(
        self, target: Returns, mask: tf.Tensor, weight: Nest
    ) -> tuple[Returns, tf.Tensor, Nest]:
        """Return the targets, flags and weights of what ``taken`` returns."""
        if self._branches is None:
            return target, mask, weight
        repeat = self._branches.repeat
        weight = weight if isinstance(weight, tuple) else repeat(weight)
        return target._replace(values=repeat(target.values)), repeat(mask), weight

    def per_row(self, x: tf.Tensor) -> tf.Tensor:
        """Return the mean over choices of f32 ``[..., N D]``, ``[..., N]``."""
        if self._branches is None or self._branches.count == 1:
            return x
        means = self._branches.mean(tf.reshape(x, [-1]))
        return tf.reshape(means, [*x.shape[:-1], -1])

    def target_entropy(self, config: Any, kind: str, step: TimeStep) -> Any:
        """Return the entropy that a temperature aims at, f32 ``[]`` or ``[N]``."""
        if config.target_entropy is not None and kind == self.kinds[0]:
            return config.target_entropy
        if kind == NUMBERS:
            return -float(self.sizes[0])
        assert self._branches is not None
        valid, sizes = self._policy.valid(step), self._branches.sizes
        if valid is None:
            return config.choice_entropy * sum(math.log(n) for n in sizes)
        valid = self._branches.rows(tf.cast(valid, tf.float32)) > 0
        number = tf.reduce_sum(tf.cast(valid, tf.float32), -1)
        every = tf.tile(tf.constant(sizes, tf.float32), [nest.static_size(step.first)])
        number = tf.where(number > 0, number, every)
        total = self._branches.count * self._branches.mean(tf.math.log(number))
        return config.choice_entropy * total

    def check(self, config: Any, space: gymnasium.Space) -> None:
        """Refuse settings that do not fit the actions."""
        if self._branches is not None and config.quantiles:
            raise UserError(
                f"quantiles is {config.quantiles}, but the action space is {space}; "
                "SAC has quantiles for actions of a Box only; leave "
                "--algorithm.quantiles out, or use dqn with distribution=qr"
            )
        target = config.target_entropy
        if config.temperature is not None or target is None:
            return
        if self._bounds is not None:
            what = f"{self.sizes[0]} numbers in -1 to 1"
            largest = self.sizes[0] * math.log(2)
        else:
            sizes = [*self._branches.sizes] if self._branches is not None else []
            what = (
                f"choices of {sizes}" if sizes[1:] else f"{sizes[0]} Discrete actions"
            )
            largest = sum(math.log(n) for n in sizes)
        if target > largest:  # the temperature would not end
            raise UserError(
                f"target_entropy is {target}, but the entropy of {what} is "
                f"{largest:.4g} nats at most; lower --algorithm.target_entropy, or "
                "leave it out"
            )
