"""Implicit Q-learning (Kostrikov et al. 2021, arXiv:2110.06169), for Box actions.

It learns from logged rows and never asks for the value of another action than the
logged ones: values of states are expectiles of the values of logged actions, and the
policy imitates logged actions by their advantages.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from tfagents_batch.algorithms.shared import actor_critic, rows
from tfagents_batch.config import number, option
from tfagents_batch.metrics import Metrics
from tfagents_batch.nn import actor, networks, user
from tfagents_batch.nn.bounds import bounds
from tfagents_batch.nn.critics import Critics
from tfagents_batch.nn.exploration import Warmup
from tfagents_batch.nn.policies.box import ClippedNormal
from tfagents_batch.ops import advantages, masked, td, windows
from tfagents_batch.types import BoxAssessment, EnvSpec, Trajectory, Updated


@dataclasses.dataclass(frozen=True)
class Config(rows.ActorCriticSettings):
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
    """IQL; satisfies ``interfaces.Algorithm``. Actions are a bounded Box.

    Attributes:
      critics: critics; ``network`` is the actor.
    """

    def __init__(self, config: Config, spec: EnvSpec, network: Any = None):
        super().__init__()
        self.config = config = config.check()
        self._spec, self._given = spec, user.distinct(network)
        self.policy = self.make_policy()
        self.network = self.policy.network
        self.critics, self._targets = actor_critic.critics(
            config, spec, self._given, self.policy.bounds.size
        )
        self._value = Critics(spec, config.network, 1, network=self._given)
        valued = [*self.critics.trainable_variables, *self._value.trainable_variables]
        self.learner = actor_critic.learner(
            config,
            self.policy,
            self.critics,
            self._targets,
            trained={"critics": valued},
            variables={"value": networks.named_variables(self._value)},
        )
        self._optimizers, self.inputs = self.learner.optimizers, self.learner.inputs
        # XLA makes convolutions on a CPU slower.
        self.compilable = not (self.network.convolves or self.critics.convolves)
        self.compile_parts = self.learner.compile_parts
        self.named_variables = self.learner.named_variables
        self.histograms = self.learner.histograms

    def make_policy(self) -> ClippedNormal:
        """Return a policy with variables of its own, like the one that learns."""
        limits = bounds(self._spec)
        heads = {"action": limits.size, "log_std": limits.size}
        network = actor.Actor(self._spec, self.config.network, heads, self._given)
        return ClippedNormal(network, limits, Warmup(0))

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Train on a batch of rows; those that ended by truncation bootstrap."""
        del seed
        batch = windows.transition(trajectory, 1, self.inputs.gamma)
        metrics = self.learner.set_learning_rate(step)
        found, advantage, error = self._update_values(batch)
        metrics |= found | self._update_actor(batch, advantage)
        self.learner.target.update()
        return Updated(metrics, error)

    def _update_values(
        self, batch: windows.Transition
    ) -> tuple[Metrics, tf.Tensor, tf.Tensor]:
        """Step V towards an expectile of Q', and Q towards y = r + gamma V(s').

        Returns the metrics, and f32 ``[N]`` each: Q'(s, a) - V(s) from before the step,
        and absolute errors of the critics.
        """
        mask, taken = batch.mask, self.policy.bounds.unit(batch.action)
        least = tf.reduce_min(self._targets(batch.step, taken), 0)
        target = self._target(batch)

        def loss():
            q, value = self.critics(batch.step, taken), self._value(batch.step)[0, :, 0]
            loss, error = td.critics_loss(q, target, mask)
            losses = advantages.expectile(least - value, self.inputs.expectile)
            value_loss = td.loss(losses, mask)
            added = networks.added_loss(self.critics) + networks.added_loss(self._value)
            return loss + value_loss + added, (loss, value_loss, q, value, error)

        (loss, value_loss, q, value, error), found = self._optimizers[
            "critics"
        ].minimize(loss)
        found |= actor_critic.critic_metrics(
            q, target, error, mask, self.config.histograms
        )
        found |= {
            "loss/critics": loss,
            "loss/value": value_loss,
            "value/v": masked.mean(value, mask),
        }
        return found, tf.stop_gradient(least - value), error

    def _target(self, batch: windows.Transition) -> tf.Tensor:
        """Return the targets of critics, f32 ``[N]``."""
        later = self._value(batch.next)[0, :, 0]
        return masked.safe(td.target(batch.reward, batch.discount, later), batch.mask)

    def assess(self, trajectory: Trajectory) -> BoxAssessment:
        """Return values and densities of rows, see ``types.BoxAssessment``."""
        batch = windows.transition(trajectory, 1, self.inputs.gamma)
        log = self.policy.density_of(batch.step, batch.action)
        rows = self.policy.bounds, batch, self._target(batch), log
        return actor_critic.assessment(self.critics, *rows)

    def _update_actor(self, batch: windows.Transition, advantage: tf.Tensor) -> Metrics:
        """Step along the gradient of -min(exp(beta A), most) ln pi(a | s)."""
        scaled = self.inputs.advantage_scale * masked.safe(advantage, batch.mask)
        weight = advantages.exponential(scaled, self.config.max_weight)
        taken = self.policy.bounds.unit(batch.action)

        def loss():
            log_prob = self.policy.distribution(batch.step).log_prob(taken)
            loss = advantages.weighted_likelihood(log_prob, weight, batch.mask)
            loss += networks.added_loss(self.network)
            return loss, loss

        loss, found = self._optimizers["actor"].minimize(loss)
        mean = masked.mean(weight, batch.mask)
        return actor_critic.of_actor(found) | {
            "loss/actor": loss,
            "policy/weight": mean,
        }
