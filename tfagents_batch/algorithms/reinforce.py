"""REINFORCE (Williams 1992): policy gradients with the returns of whole episodes.

Every update is one gradient step on a batch of episodes. A baseline that does not
depend on the action lowers the variance of the gradient: a moving average of returns,
their mean at each time step, or a learned value.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

import keras
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch.algorithms.shared import single_step
from tfagents_batch.algorithms.shared.single_step import Rows, Surrogate
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Accepts, DefaultSource, Rollouts
from tfagents_batch.nn.optimizer import Rule
from tfagents_batch.ops import losses, masked, returns
from tfagents_batch.schedules import Constant, Schedule
from tfagents_batch.types import EnvSpec


@dataclasses.dataclass(frozen=True)
class Config(single_step.Settings):
    """Settings of REINFORCE."""

    source: ClassVar[DefaultSource] = "rollout", {"episodes": 16}

    learning_rate: Schedule = option(Constant(1e-2), "step size", least=0)
    optimizer: Rule = option("adam", "rule of the gradient step")
    baseline: Literal["none", "average", "time_step", "value"] = option(
        "value",
        "baseline of returns: none, a moving average, the mean at each time step of "
        "the batch's episodes (an ended one counts as 0), or a learned value",
    )
    average_rate: float = option(
        0.05, "share of a batch in the moving average", above=0, most=1
    )
    loss: Literal["log_likelihood", "squared_error"] = option(
        "log_likelihood",
        "loss of an action with advantage A: -A ln pi(a), or, for Discrete actions, "
        "A sum_i (1[a = i] - pi(i))^2 / 4",
    )
    normalize_advantage: bool = option(
        True,
        "standardize the advantages of an update; with baseline=average, divide them "
        "by their root mean square",
    )
    reset_return: bool = option(
        False, "end a return at each reward other than 0, as at a point of Pong"
    )

    def accepts(self) -> Accepts:
        """Return that it learns from rollouts, see ``baseline``."""
        reason = "baseline=time_step" if self.baseline == "time_step" else ""
        return {"rollouts": Rollouts(whole_episodes=reason)}


class Reinforce(single_step.SingleStep):
    """REINFORCE with a choice of baselines; satisfies ``interfaces.Algorithm``."""

    def __init__(self, config: Config, spec: EnvSpec, network=None):
        super().__init__(config, spec, network)
        self._average = keras.Variable(0.0, dtype="float32", trainable=False)
        space = spec.action_space
        if self.config.loss == "squared_error" and not isinstance(space, gs.Discrete):
            raise UserError(
                f"loss is squared_error, but the action space is {space}; it needs "
                "Discrete actions, use log_likelihood"
            )

    @property
    def learns_value(self) -> bool:
        """Whether the baseline is a learned value."""
        return self.config.baseline == "value"

    def named_variables(self) -> dict[str, keras.Variable]:
        """Return the variables of a checkpoint: all that updates change."""
        return super().named_variables() | {"learner/average": self._average}

    def surrogate(self, rows: Rows) -> Surrogate:
        """Return the loss of the policy; returns and baseline are constants.

        A return ends with the learned value of a truncated state, if there is one.
        """
        config, mask = self.config, rows.mask
        end = rows.value if config.baseline == "value" else tf.zeros_like(rows.value)
        discount = rows.discount
        if config.reset_return:
            discount = tf.where(rows.reward == 0, discount, 0.0)
        found = returns.discounted(rows.reward, discount, end, mask)
        advantage = masked.safe(found - self._baseline(rows, found), mask)
        if config.normalize_advantage:
            # Without its mean, an advantage would not depend on the moving average.
            average = config.baseline == "average"
            normalize = masked.rescale if average else masked.standardize
            advantage = normalize(advantage, mask, 1e-8)
        if config.loss == "log_likelihood":
            loss = losses.policy_gradient(rows.log_prob, advantage, mask)
        else:
            probability = tf.nn.softmax(rows.policy.params["logits"])
            action = rows.action - int(self._spec.action_space.start)
            loss = losses.squared_probability(probability, action, advantage, mask)
        return Surrogate(loss, found, {"value/return": masked.mean(found, mask)})

    def _baseline(self, rows: Rows, found: tf.Tensor) -> tf.Tensor:
        """Return the baseline of returns ``[T, B]``, of a shape that broadcasts."""
        config, mask = self.config, rows.mask
        if config.baseline == "value":
            return rows.value[:-1]
        if config.baseline == "time_step":
            played = tf.reduce_any(mask, 0)  # false for a failed episode
            count = tf.reduce_sum(tf.cast(played, tf.float32))
            total = tf.reduce_sum(masked.safe(found, mask), 1, keepdims=True)
            return total / tf.maximum(count, 1)
        if config.baseline == "none":
            return tf.zeros([])
        before = tf.identity(self._average.value)
        change = config.average_rate * (masked.mean(found, mask) - before)
        self._average.assign(before + tf.where(tf.reduce_any(mask), change, 0.0))
        return before
