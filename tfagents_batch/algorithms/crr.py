"""Critic-regularized regression (Wang et al. 2020, arXiv:2006.15134), for Box actions.

It learns from logged rows: critics learn the values of the policy, and the policy
imitates the logged actions that are better than its own.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.algorithms import crr_discrete
from tfagents_batch.algorithms.shared import actor_critic
from tfagents_batch.config import option
from tfagents_batch.metrics import Metrics
from tfagents_batch.nn import actor, networks, user
from tfagents_batch.nn.bounds import bounds
from tfagents_batch.nn.exploration import Warmup
from tfagents_batch.nn.policies.box import ClippedNormal
from tfagents_batch.ops import advantages, masked, td, windows
from tfagents_batch.types import BoxAssessment, EnvSpec, TimeStep, Trajectory, Updated


@dataclasses.dataclass(frozen=True)
class Config(crr_discrete.Config):
    """Settings of CRR."""

    baseline: Literal["mean", "max"] = option(
        "mean", "value of a state, of the values of drawn actions: mean or max"
    )
    action_samples: int = option(
        4, "actions drawn in each state for its value", least=1, most=1000
    )


class CRR(tf.Module):
    """CRR; satisfies ``interfaces.Algorithm``. Actions are a bounded Box.

    Attributes:
      critics: critics; ``network`` is the actor.
    """

    def __init__(self, config: Config, spec: EnvSpec, network: Any = None):
        super().__init__()
        self.config = config = config.check()
        self._spec, self._given = spec, user.distinct(network)
        self.policy, self._target_policy = self.make_policy(), self.make_policy()
        self.network = self.policy.network
        self.critics, self._targets = actor_critic.critics(
            config, spec, self._given, self.policy.bounds.size
        )
        self.learner = actor_critic.learner(
            config,
            self.policy,
            self.critics,
            self._targets,
            self._target_policy.network,
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
        batch = windows.transition(trajectory, 1, self.inputs.gamma)
        metrics = self.learner.set_learning_rate(step)
        found, error = self._update_critics(batch, seed)
        metrics |= found | self._update_actor(batch, seed)
        self.learner.target.update()
        return Updated(metrics, error)

    def _update_critics(
        self, batch: windows.Transition, seed
    ) -> tuple[Metrics, tf.Tensor]:
        """Step towards y = r + gamma min_k Q'_k(s', a'), a' drawn from pi'(. | s').

        Returns the metrics, and f32 ``[N]`` absolute errors.
        """
        mask, taken = batch.mask, self.policy.bounds.unit(batch.action)
        target = self._target(batch, seed)

        def loss():
            q = self.critics(batch.step, taken)
            loss, error = td.critics_loss(q, target, mask)
            loss += networks.added_loss(self.critics)
            return loss, (loss, q, error)

        (loss, q, error), found = self._optimizers["critics"].minimize(loss)
        found |= actor_critic.critic_metrics(
            q, target, error, mask, self.config.histograms
        )
        return found | {"loss/critics": loss}, error

    def _target(self, batch: windows.Transition, seed) -> tf.Tensor:
        """Return the targets of critics, f32 ``[N]``."""
        key = seeds.key(seed, "later")
        action = _drawn(self._target_policy, batch.next, 1, key)[:, 0]
        value = tf.reduce_min(self._targets(batch.next, action), 0)
        return masked.safe(td.target(batch.reward, batch.discount, value), batch.mask)

    def assess(self, trajectory: Trajectory) -> BoxAssessment:
        """Return values and densities of rows, see ``types.BoxAssessment``."""
        batch = windows.transition(trajectory, 1, self.inputs.gamma)
        log = self.policy.density_of(batch.step, batch.action)
        rows = self.policy.bounds, batch, self._target(batch, 0), log
        return actor_critic.assessment(self.critics, *rows)

    def _update_actor(self, batch: windows.Transition, seed) -> Metrics:
        """Step along the gradient of -f(A(s, a)) ln pi(a | s)."""
        mask, taken = batch.mask, self.policy.bounds.unit(batch.action)
        advantage = masked.safe(self._advantage(batch, taken, seed), mask)
        weight = crr_discrete.weights(advantage, self.config, self.inputs.beta)

        def loss():
            log_prob = self.policy.distribution(batch.step).log_prob(taken)
            loss = advantages.weighted_likelihood(log_prob, weight, mask)
            loss += networks.added_loss(self.network)
            return loss, loss

        loss, found = self._optimizers["actor"].minimize(loss)
        mean = masked.mean(weight, mask)
        return actor_critic.of_actor(found) | {
            "loss/actor": loss,
            "policy/weight": mean,
        }

    def _advantage(
        self, batch: windows.Transition, taken: tf.Tensor, seed
    ) -> tf.Tensor:
        """Return Q(s, a) less the mean or maximum of Q(s, a_j), a_j of pi(. | s)."""
        count, key = self.config.action_samples, seeds.key(seed, "now")
        drawn = _drawn(self.policy, batch.step, count, key)
        actions = tf.concat([taken[:, tf.newaxis], drawn], 1)
        q = tf.reduce_min(self.critics(batch.step, actions), 0)
        reduced = tf.reduce_max if self.config.baseline == "max" else tf.reduce_mean
        return q[:, 0] - reduced(q[:, 1:], 1)


def _drawn(
    policy: ClippedNormal, step: TimeStep, count: int, key: tf.Tensor
) -> tf.Tensor:
    """Return ``count`` actions in each state, scaled to [-1, 1], ``[N, count, A]``."""
    noise = seeds.normal([count, step.first.shape[0], policy.bounds.size], key)
    actions = policy.distribution(step).sample(noise)
    return tf.transpose(tf.clip_by_value(actions, -1.0, 1.0), [1, 0, 2])
