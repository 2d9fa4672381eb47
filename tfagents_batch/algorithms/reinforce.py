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

from tfagents_batch.algorithms.shared import on_policy, single_step
from tfagents_batch.config import number, option
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks
from tfagents_batch.nn.optimizer import Rule
from tfagents_batch.ops import losses, masked, returns
from tfagents_batch.schedules import Constant, Schedule
from tfagents_batch.types import (
    Accepts,
    DefaultSource,
    EnvSpec,
    Rollouts,
    Trajectory,
    Updated,
)


@dataclasses.dataclass(frozen=True)
class Config(single_step.Settings):
    """Settings of REINFORCE."""

    source: ClassVar[DefaultSource] = "rollout", {"episodes": 16}

    learning_rate: Schedule = number(
        Constant(1e-2), "learning rate of the optimizer", least=0
    )
    optimizer: Rule = option(
        "adam", "adam, rmsprop as in PyTorch, or rmsprop_tf as in TensorFlow 1"
    )
    baseline: Literal["none", "average", "time_step", "value"] = option(
        "value",
        "baseline of returns: none, a moving average, the mean at each time step of "
        "the batch's episodes (an ended one counts as 0), or a learned value",
    )
    average_rate: float = number(
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


class Reinforce(tf.Module):
    """REINFORCE with a choice of baselines; satisfies ``interfaces.Algorithm``.

    Attributes:
      learner: normalizers and optimizer.
    """

    def __init__(self, config: Config, spec: EnvSpec, network=None):
        super().__init__()
        self.config = config = config.check()
        self._space = spec.action_space
        if config.loss == "squared_error" and not isinstance(self._space, gs.Discrete):
            raise UserError(
                f"loss is squared_error, but the action space is {self._space}; it "
                "needs Discrete actions, use log_likelihood"
            )
        self.learner = learner = on_policy.Learner(config, spec, network)
        self.inputs = learner.inputs
        self.policy, self.network = learner.policy, learner.network
        self.optimizer, self.compilable = learner.optimizer, learner.compilable
        self.make_policy = learner.make_policy
        self.compile_parts = learner.compile_parts
        self._average = keras.Variable(0.0, dtype="float32", trainable=False)

    def named_variables(self) -> dict[str, keras.Variable]:
        """Return the variables of a checkpoint: all that updates change."""
        return self.learner.named_variables() | {"learner/average": self._average}

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Take a gradient step on a trajectory ``[T, B]``."""
        del seed
        config, mask = self.inputs, trajectory.mask
        steps = self.learner.begin(trajectory, step)
        reward = self.learner.rewards(trajectory.reward)
        action, learns_value = on_policy.actions(trajectory), config.baseline == "value"

        def loss():
            heads = self.network.unroll(steps, trajectory.state[0])[0]
            network_loss = networks.added_loss(self.network)
            policy = single_step.first_rows(heads.policy)
            log_prob, entropy = policy.log_prob(action), policy.entropy()
            value = tf.stop_gradient(heads.value)
            target = self._returns(trajectory, reward, value)
            advantage = self._advantages(target, value, mask)
            if config.loss == "log_likelihood":
                policy_loss = losses.policy_gradient(log_prob, advantage, mask)
            else:
                probability = tf.nn.softmax(policy.params["logits"])
                number = action - int(self._space.start)
                data = probability, number, advantage, mask
                policy_loss = squared_probability(*data)
            scale = config.entropy_scale(step)
            loss = policy_loss + losses.entropy_bonus(entropy, scale, mask)
            metrics = {"loss/policy": policy_loss, "loss/network": network_loss}
            if learns_value:
                value_loss = losses.value(heads.value[:-1], target, mask)
                loss += config.value_scale * value_loss
                metrics["loss/value"] = value_loss
            if config.reduction == "sum":
                loss *= tf.reduce_sum(tf.cast(mask, tf.float32))
            loss += network_loss
            metrics |= {
                "loss/total": loss,
                "policy/entropy": masked.mean(entropy, mask),
                "value/return": masked.mean(target, mask),
            }
            return loss, (policy, log_prob, value[:-1], target, metrics)

        learns = tf.reduce_any(mask)  # else momentum would still move the weights
        found, metrics = self.optimizer.minimize(loss, when=learns)
        policy, log_prob, value, target, more = found
        metrics |= more | {"grad/updates": tf.cast(learns, tf.float32)}
        if learns_value:
            metrics |= on_policy.value_metrics(value, target, mask)
        data = trajectory, steps, policy, log_prob, value, target
        return Updated(metrics | single_step.finish(self.learner, *data))

    def _returns(
        self, trajectory: Trajectory, reward: tf.Tensor, value: tf.Tensor
    ) -> tf.Tensor:
        """Return the return of each step, f32 ``[T, B]``.

        It ends with the learned value of a truncated state, if there is one.
        """
        end = value if self.config.baseline == "value" else tf.zeros_like(value)
        discount = trajectory.discount(self.inputs.gamma)
        if self.config.reset_return:
            discount = tf.where(reward == 0, discount, 0.0)
        return returns.discounted(reward, discount, end, trajectory.mask)

    def _advantages(
        self, found: tf.Tensor, value: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Return returns minus their baseline, f32 ``[T, B]``."""
        advantage = masked.safe(found - self._baseline(found, value, mask), mask)
        if not self.config.normalize_advantage:
            return advantage
        # Without its mean, an advantage would not depend on the moving average.
        average = self.config.baseline == "average"
        normalize = masked.rescale if average else masked.standardize
        return normalize(advantage, mask, 1e-8)

    def _baseline(
        self, found: tf.Tensor, value: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Return the baseline of returns ``[T, B]``, of a shape that broadcasts."""
        config = self.inputs
        if config.baseline == "value":
            return value[:-1]
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


def squared_probability(
    probability: tf.Tensor, action: tf.Tensor, advantage: tf.Tensor, mask: tf.Tensor
) -> tf.Tensor:
    """mean(A sum_i (1[a = i] - pi(i|s))^2 / 4), for actions 0 to n - 1.

    For two actions it is A (a - p)^2 / 2 with p = pi(1|s), whose derivative by p is
    -A (a - p): that of the log-likelihood times p (1 - p). So it is no policy gradient;
    BigDL's ``VanillaPGCriterion`` computes it.

    Args:
      probability: f32 ``[..., n]``, pi.
      action: int32 ``[...]``, a.
      advantage: f32 ``[...]``, A; no gradient flows through it.
      mask: bool ``[...]``, true for valid entries.
    """
    taken = tf.one_hot(action, probability.shape[-1])
    distance = tf.reduce_sum(tf.square(taken - probability), -1) / 4
    return masked.mean(distance * tf.stop_gradient(advantage), mask)
