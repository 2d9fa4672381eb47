"""Critic-regularized regression (Wang et al. 2020, arXiv:2006.15134).

It learns from logged rows: critics learn the values of the policy, and the policy
imitates logged actions, the more the better they are by the critics than its own.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import gymnasium as gym
import tensorflow as tf

from tfagents_batch import nest, seeds
from tfagents_batch.algorithms.shared import actor_critic
from tfagents_batch.algorithms.shared.off_policy import RowActorCriticSettings
from tfagents_batch.config import number, option
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks, user
from tfagents_batch.nn.critics import Critics
from tfagents_batch.nn.policies import box
from tfagents_batch.nn.policies.discrete import Softmax, softmax
from tfagents_batch.ops import advantages, masked, td, windows
from tfagents_batch.types import (
    Assessment,
    BoxAssessment,
    EnvSpec,
    TimeStep,
    Trajectory,
    Updated,
)


@dataclasses.dataclass(frozen=True)
class CRRDiscreteConfig(RowActorCriticSettings):
    """Settings of CRR for Discrete actions."""

    weight: Literal["exponential", "binary"] = option(
        "exponential",
        "weight of a logged action with advantage A: exp(A / beta), or 1 if A > 0 else "
        "0 (binary)",
    )
    beta: float = number(1.0, "scale of advantages in exponential weights", above=0)
    max_weight: float = option(20.0, "largest exponential weight", above=0)


@dataclasses.dataclass(frozen=True)
class CRRConfig(CRRDiscreteConfig):
    """Settings of CRR."""

    baseline: Literal["mean", "max"] = option(
        "mean", "value of a state, of the values of drawn actions: mean or max"
    )
    action_samples: int = option(
        4, "actions drawn in each state for its value", least=1, most=1000
    )


class CRR(tf.Module):
    """CRR of Box actions; satisfies ``interfaces.Algorithm``."""

    def __init__(self, config: CRRConfig, spec: EnvSpec, network: Any = None):
        super().__init__()
        self.config = config = config.check()
        self._spec, self._custom = spec, user.distinct(network)
        self.policy, self._target_policy = self.make_policy(), self.make_policy()
        self.network = self.policy.network
        self.critics, self._targets = actor_critic.critics(
            config, spec, self._custom, self.policy.bounds.size
        )
        learned = self.policy, self.critics, self._targets, self._target_policy.network
        self.learner = actor_critic.learner(config, *learned)
        self.compilable = self.learner.compilable

    def make_policy(self) -> box.ClippedNormal:
        return box.clipped_normal(self._spec, self.config.network, self._custom)

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Train on a batch of rows; those that ended by truncation bootstrap.

        - Critics move to y = r + gamma min_k Q'_k(s', a'), a' drawn from pi'(. | s').
        - The actor follows the gradient of -f(A) ln pi(a | s), where A is Q(s, a) less
          the mean or maximum of Q(s, a_j), a_j drawn from pi(. | s), with critics after
          their step.
        """
        learner, policy, config = self.learner, self.policy, self.learner.inputs
        metrics = learner.set_learning_rate(step)
        batch = windows.transition(trajectory, 1, config.gamma)
        mask, taken = batch.mask, policy.bounds.unit(batch.action)
        target = self._target(batch, seed)

        def critic_loss():
            q = self.critics(batch.step, taken)
            loss, error = td.critics_loss(q, target, mask)
            loss += networks.added_loss(self.critics)
            return loss, (loss, q, error)

        def advantage():
            key = seeds.key(seed, "now")
            drawn = _drawn(policy, batch.step, config.action_samples, key)
            actions = tf.concat([taken[:, tf.newaxis], drawn], 1)
            q = tf.reduce_min(self.critics(batch.step, actions), 0)
            reduced = tf.reduce_max if config.baseline == "max" else tf.reduce_mean
            return masked.safe(q[:, 0] - reduced(q[:, 1:], 1), mask)

        def actor_loss():
            log_prob = policy.distribution(batch.step).log_prob(taken)
            loss = advantages.weighted_likelihood(log_prob, weight, mask)
            loss += networks.added_loss(self.network)
            return loss, loss

        (loss, q, error), steps = learner.optimizers["critics"].minimize(critic_loss)
        metrics |= steps
        weight = _weights(advantage(), config)
        policy_loss, steps = learner.optimizers["actor"].minimize(actor_loss)
        learner.move_targets()
        metrics |= actor_critic.actor_metrics(policy_loss, steps)
        metrics["policy/weight"] = masked.mean(weight, mask)
        shown = loss, q, target, error, mask, config.histograms
        return Updated(metrics | actor_critic.critic_metrics(*shown), error)

    def _target(self, batch: windows.Transition, seed) -> tf.Tensor:
        """Return the targets of critics, f32 ``[N]``."""
        key = seeds.key(seed, "later")
        action = _drawn(self._target_policy, batch.next, 1, key)[:, 0]
        value = tf.reduce_min(self._targets(batch.next, action), 0)
        return masked.safe(td.target(batch.reward, batch.discount, value), batch.mask)

    def assess(self, trajectory: Trajectory) -> BoxAssessment:
        batch = windows.transition(trajectory, 1, self.learner.inputs.gamma)
        log = self.policy.density_of(batch.step, batch.action)
        return actor_critic.assessment(self, batch, self._target(batch, 0), log)


class CRRDiscrete(tf.Module):
    """CRR of Discrete actions; satisfies ``interfaces.Algorithm``.

    Expectations over actions are sums over all actions, so nothing is sampled.
    """

    def __init__(self, config: CRRDiscreteConfig, spec: EnvSpec, network: Any = None):
        super().__init__()
        self.config = config = config.check()
        if not isinstance(spec.action_space, gym.spaces.Discrete):
            raise UserError(
                f"the action space is {spec.action_space}; crr_discrete needs Discrete "
                "actions"
            )
        self._spec, self._custom = spec, user.distinct(network)
        self.policy = self.make_policy()
        self.network = self.policy.network
        self.critics, self._targets = actor_critic.critics(
            config, spec, self._custom, outputs=self.policy.size
        )
        learned = self.policy, self.critics, self._targets
        self.learner = actor_critic.learner(config, *learned)
        self.compilable = self.learner.compilable

    def make_policy(self) -> Softmax:
        return softmax(self._spec, self.config.network, self._custom)

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Train on a batch of rows; those that ended by truncation bootstrap.

        - Critics move to y = r + gamma sum_a pi(a | s') min_k Q'_k(s', a).
        - The actor follows the gradient of -f(A) ln pi(a | s), where A is
          min_k Q_k(s, a) less its mean over pi(. | s), from before both steps.
        """
        learner, config = self.learner, self.learner.inputs
        metrics = learner.set_learning_rate(step)
        batch = windows.transition(trajectory, 1, config.gamma)
        mask, action = batch.mask, self.policy.index(batch.action)
        target = self._target(batch)
        value, q = self._value(self.critics, batch.step)
        weight = _weights(td.chosen(q, action) - value, config)

        def critics_loss():
            taken = tf.one_hot(action, self.policy.size)
            q = tf.reduce_sum(self.critics(batch.step) * taken, -1)
            loss, error = td.critics_loss(q, target, mask)
            loss += networks.added_loss(self.critics)
            return loss, (loss, q, error)

        def actor_loss():
            log_prob = td.chosen(self.policy.log_policy(batch.step), action)
            loss = advantages.weighted_likelihood(log_prob, weight, mask)
            loss += networks.added_loss(self.network)
            return loss, (loss, log_prob)

        (loss, q, error), steps = learner.optimizers["critics"].minimize(critics_loss)
        metrics |= steps
        (policy_loss, log_prob), steps = learner.optimizers["actor"].minimize(
            actor_loss
        )
        learner.move_targets()
        metrics |= actor_critic.actor_metrics(policy_loss, steps) | {
            "policy/weight": masked.mean(weight, mask),
            "policy/logged": masked.mean(tf.exp(log_prob), mask),
        }
        shown = loss, q, target, error, mask, config.histograms
        return Updated(metrics | actor_critic.critic_metrics(*shown))

    def assess(self, trajectory: Trajectory) -> Assessment:
        """Return values, targets and probabilities of actions of rows."""
        batch = windows.transition(trajectory, 1, self.learner.inputs.gamma)
        target = tf.where(batch.mask, self._target(batch), float("nan"))
        _, q = self._value(self.critics, batch.step)
        return Assessment(q, target, tf.exp(self.policy.log_policy(batch.step)))

    def _target(self, batch: windows.Transition) -> tf.Tensor:
        """Return r + gamma sum_a pi(a | s') min_k Q'_k(s', a), f32 ``[N]``."""
        value, _ = self._value(self._targets, batch.next)
        return masked.safe(td.target(batch.reward, batch.discount, value), batch.mask)

    def _value(self, critics: Critics, step: TimeStep) -> tuple[tf.Tensor, tf.Tensor]:
        """Return sum_a pi(a | s) min_k Q_k(s, a), and min_k Q_k, f32 ``[N, A]``."""
        q = tf.reduce_min(critics(step), 0)
        return tf.reduce_sum(tf.exp(self.policy.log_policy(step)) * q, -1), q


def _weights(advantage: tf.Tensor, config: Any) -> tf.Tensor:
    """Return the weights f(A) of logged actions, f32 ``[N]``."""
    if config.weight == "binary":
        return advantages.positive(advantage)
    return advantages.exponential(advantage / config.beta, config.max_weight)


def _drawn(
    policy: box.ClippedNormal, step: TimeStep, count: int, key: tf.Tensor
) -> tf.Tensor:
    """Return ``count`` actions in each state, scaled to [-1, 1], ``[N, count, A]``."""
    shape = [count, nest.static_size(step.first), policy.bounds.size]
    noise = seeds.normal(shape, key)
    actions = policy.distribution(step).sample(noise)
    return tf.transpose(tf.clip_by_value(actions, -1.0, 1.0), [1, 0, 2])
