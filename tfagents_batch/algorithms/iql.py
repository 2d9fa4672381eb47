"""Implicit Q-learning (Kostrikov et al. 2021, arXiv:2110.06169), for Box actions.

It learns from logged rows and never asks for the value of another action than the
logged ones: values of states are expectiles of the values of logged actions, and the
policy imitates logged actions by their advantages.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from tfagents_batch.algorithms.shared import actor_critic
from tfagents_batch.algorithms.shared.off_policy import RowActorCriticSettings
from tfagents_batch.config import number, option
from tfagents_batch.nn import networks, user
from tfagents_batch.nn.critics import Critics
from tfagents_batch.nn.policies import box
from tfagents_batch.ops import advantages, masked, td, windows
from tfagents_batch.types import BoxAssessment, EnvSpec, Trajectory, Updated


@dataclasses.dataclass(frozen=True)
class IQLConfig(RowActorCriticSettings):
    """Settings of IQL."""

    expectile: float = number(
        0.7,
        "expectile of values of logged actions that is the value of a state; near 1: "
        "their maximum",
        above=0,
        below=1,
    )
    advantage_scale: float = number(
        3.0, "scale beta of advantages in weights of logged actions", least=0
    )
    max_weight: float = option(100.0, "largest weight of a logged action", above=0)


class IQL(tf.Module):
    """IQL; satisfies ``interfaces.Algorithm``. Actions are a bounded Box."""

    def __init__(self, config: IQLConfig, spec: EnvSpec, network: Any = None):
        super().__init__()
        self.config = config = config.check()
        self._spec, self._custom = spec, user.distinct(network)
        self.policy = self.make_policy()
        self.network = self.policy.network
        self.critics, self._targets = actor_critic.critics(
            config, spec, self._custom, self.policy.bounds.size
        )
        self._value = Critics(
            spec, config.network, 1, network=self._custom, own=config.critic
        )
        valued = [*self.critics.trainable_variables, *self._value.trainable_variables]
        self.learner = actor_critic.learner(
            config,
            self.policy,
            self.critics,
            self._targets,
            trained={"critics": valued},
            variables={"value": networks.named_variables(self._value)},
        )
        self.compilable = self.learner.compilable

    def make_policy(self) -> box.ClippedNormal:
        return box.clipped_normal(self._spec, self.config.network, self._custom)

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Train on a batch of rows; those that ended by truncation bootstrap.

        - Critics move to y = r + gamma V(s'), and V to an expectile of min_k Q'_k.
        - The actor follows the gradient of -min(exp(beta A), most) ln pi(a | s), where
          A = min_k Q'_k(s, a) - V(s) is from before the step.
        """
        learner, policy, config = self.learner, self.policy, self.learner.inputs
        metrics = learner.set_learning_rate(step)
        batch = windows.transition(trajectory, 1, config.gamma)
        mask, taken = batch.mask, policy.bounds.unit(batch.action)
        least = tf.reduce_min(self._targets(batch.step, taken), 0)
        target = self._target(batch)

        def values_loss():
            q, value = self.critics(batch.step, taken), self._value(batch.step)[0, :, 0]
            loss, error = td.critics_loss(q, target, mask)
            losses = advantages.expectile(least - value, config.expectile)
            value_loss = td.loss(losses, mask)
            added = networks.added_loss(self.critics) + networks.added_loss(self._value)
            return loss + value_loss + added, (loss, value_loss, q, value, error)

        def actor_loss():
            log_prob = policy.distribution(batch.step).log_prob(taken)
            loss = advantages.weighted_likelihood(log_prob, weight, mask)
            loss += networks.added_loss(self.network)
            return loss, loss

        valued, steps = learner.optimizers["critics"].minimize(values_loss)
        loss, value_loss, q, value, error = valued
        metrics |= steps
        advantage = masked.safe(tf.stop_gradient(least - value), mask)
        scaled = config.advantage_scale * advantage
        weight = advantages.exponential(scaled, config.max_weight)
        policy_loss, steps = learner.optimizers["actor"].minimize(actor_loss)
        learner.move_targets()
        metrics |= actor_critic.actor_metrics(policy_loss, steps) | {
            "loss/value": value_loss,
            "value/v": masked.mean(value, mask),
            "policy/weight": masked.mean(weight, mask),
        }
        shown = loss, q, target, error, mask, config.histograms
        return Updated(metrics | actor_critic.critic_metrics(*shown), error)

    def _target(self, batch: windows.Transition) -> tf.Tensor:
        """Return the targets of critics, f32 ``[N]``."""
        later = self._value(batch.next)[0, :, 0]
        return masked.safe(td.target(batch.reward, batch.discount, later), batch.mask)

    def assess(self, trajectory: Trajectory) -> BoxAssessment:
        batch = windows.transition(trajectory, 1, self.learner.inputs.gamma)
        log = self.policy.density_of(batch.step, batch.action)
        return actor_critic.assessment(self, batch, self._target(batch), log)
