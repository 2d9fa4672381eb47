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

from tfagents_batch.algorithms.shared import on_policy
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
class ReinforceConfig(on_policy.SingleStepSettings):
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
    """REINFORCE with a choice of baselines; satisfies ``interfaces.Algorithm``."""

    def __init__(self, config: ReinforceConfig, spec: EnvSpec, network=None):
        super().__init__()
        self.config = config = config.check()
        self._space = space = spec.action_space
        if config.loss == "squared_error" and not isinstance(space, gs.Discrete):
            raise UserError(
                f"loss is squared_error, but the action space is {space}; it needs "
                "Discrete actions, use log_likelihood"
            )
        self._average = keras.Variable(0.0, dtype="float32", trainable=False)
        self.learner = learner = on_policy.OnPolicyLearner(
            config, spec, network, average=self._average
        )
        self.inputs, self.compilable = learner.inputs, learner.compilable
        self.policy, self.network = learner.policy, learner.network
        self.make_policy = learner.make_policy

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Take a gradient step on a trajectory ``[T, B]``."""
        learner, config, mask = self.learner, self.inputs, trajectory.mask
        steps = learner.begin(trajectory, step)
        reward = learner.rewards(trajectory.reward)
        action, learns_value = on_policy.actions(trajectory), config.baseline == "value"

        def returned(value):
            """Return returns; with a value, they end with that of a truncated state."""
            end = value if learns_value else tf.zeros_like(value)
            discount = trajectory.discount(config.gamma)
            if config.reset_return:
                discount = tf.where(reward == 0, discount, 0.0)
            return returns.discounted(reward, discount, end, mask)

        def policy_loss(policy, log_prob, advantage):
            if config.loss == "log_likelihood":
                return losses.policy_gradient(log_prob, advantage, mask)
            probability = tf.nn.softmax(policy.params["logits"])
            number = action - int(self._space.start)
            return squared_probability(probability, number, advantage, mask)

        def loss():
            heads = self.network.unroll(steps, trajectory.state[0])[0]
            network_loss = networks.added_loss(self.network)
            policy = on_policy.first_rows(heads.policy)
            log_prob, entropy = policy.log_prob(action), policy.entropy()
            value = tf.stop_gradient(heads.value)
            target = returned(value)
            advantage = masked.safe(target - self._baseline(target, value, mask), mask)
            if config.normalize_advantage:
                # Without its mean, it would not depend on the moving average.
                average = config.baseline == "average"
                normalize = masked.rescale if average else masked.standardize
                advantage = normalize(advantage, mask, 1e-8)
            gradient = policy_loss(policy, log_prob, advantage)
            scale = config.entropy_scale(step)
            loss = gradient + losses.entropy_bonus(entropy, scale, mask)
            metrics = {"loss/policy": gradient, "loss/network": network_loss}
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
        results, metrics = learner.optimizer.minimize(loss, when=learns)
        policy, log_prob, value, target, more = results
        metrics |= more | {"grad/updates": tf.cast(learns, tf.float32)}
        if learns_value:
            metrics |= on_policy.value_metrics(value, target, mask)
        data = trajectory, steps, policy, log_prob, value, target
        return Updated(metrics | on_policy.finish(learner, *data))

    def _baseline(
        self, target: tf.Tensor, value: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Return the baseline of returns ``[T, B]``, of a shape that broadcasts."""
        config = self.inputs
        if config.baseline == "value":
            return value[:-1]
        if config.baseline == "time_step":
            played = tf.reduce_any(mask, 0)  # false for a failed episode
            count = tf.reduce_sum(tf.cast(played, tf.float32))
            total = tf.reduce_sum(masked.safe(target, mask), 1, keepdims=True)
            return total / tf.maximum(count, 1)
        if config.baseline == "none":
            return tf.zeros([])
        before = tf.identity(self._average.value)
        change = config.average_rate * (masked.mean(target, mask) - before)
        self._average.assign(before + tf.where(tf.reduce_any(mask), change, 0.0))
        return before


def squared_probability(
    probability: tf.Tensor, action: tf.Tensor, advantage: tf.Tensor, mask: tf.Tensor
) -> tf.Tensor:
    """mean(A sum_i (1[a = i] - pi(i|s))^2 / 4), for actions 0 to n - 1.

    For two actions it is A (a - p)^2 / 2 with p = pi(1|s), whose derivative by p is
    -A (a - p): that of the log-likelihood times p (1 - p). So it is no policy gradient;
    BigDL's ``VanillaPGCriterion`` computes it.

    Shapes: f32 ``[..., n]`` for pi, ``[...]`` for a, A and the mask. No gradient flows
    through A.
    """
    taken = tf.one_hot(action, probability.shape[-1])
    distance = tf.reduce_sum(tf.square(taken - probability), -1) / 4
    return masked.mean(distance * tf.stop_gradient(advantage), mask)
