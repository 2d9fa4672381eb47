"""Critic-regularized regression of Discrete actions (Wang et al. 2020).

An actor and critics learn from logged rows, arXiv:2006.15134: the actor imitates logged
actions, and the more the better they are by the critics. Expectations over actions are
sums over all actions, so nothing is sampled.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import gymnasium as gym
import tensorflow as tf

from tfagents_batch.algorithms.shared import actor_critic, rows
from tfagents_batch.config import number, option
from tfagents_batch.errors import UserError
from tfagents_batch.nn import actor, networks, user
from tfagents_batch.nn.critics import Critics
from tfagents_batch.nn.exploration import Warmup
from tfagents_batch.nn.policies.softmax import Softmax
from tfagents_batch.ops import advantages, masked, td, windows
from tfagents_batch.types import Assessment, EnvSpec, TimeStep, Trajectory, Updated


@dataclasses.dataclass(frozen=True)
class Config(rows.ActorCriticSettings):
    """Settings of CRR for Discrete actions."""

    weight: Literal["exponential", "binary"] = option(
        "exponential",
        "weight of a logged action with advantage A: exp(A / beta), or 1 if A > 0 else "
        "0 (binary)",
    )
    beta: float = number(1.0, "scale of advantages in exponential weights", above=0)
    max_weight: float = option(20.0, "largest exponential weight", above=0)


def weights(advantage: tf.Tensor, config: Config, beta: tf.Tensor) -> tf.Tensor:
    """Return the weights f(A) of logged actions, f32 ``[N]``.

    Args:
      advantage: f32 ``[N]``.
      config: settings.
      beta: their ``beta`` as a tensor.
    """
    if config.weight == "binary":
        return advantages.positive(advantage)
    return advantages.exponential(advantage / beta, config.max_weight)


class CRRDiscrete(tf.Module):
    """CRR of Discrete actions; satisfies ``interfaces.Algorithm``.

    Attributes:
      critics: critics; ``network`` is the actor.
    """

    def __init__(self, config: Config, spec: EnvSpec, network: Any = None):
        super().__init__()
        self.config = config = config.check()
        if not isinstance(spec.action_space, gym.spaces.Discrete):
            raise UserError(
                f"the action space is {spec.action_space}; crr_discrete needs Discrete "
                "actions"
            )
        self._spec, self._given = spec, user.distinct(network)
        self.policy = self.make_policy()
        self.network = self.policy.network
        self.critics, self._targets = actor_critic.critics(
            config, spec, self._given, outputs=self.policy.size
        )
        self.learner = actor_critic.learner(
            config, self.policy, self.critics, self._targets
        )
        self.inputs = self.learner.inputs
        # XLA makes convolutions on a CPU slower.
        self.compilable = not (self.network.convolves or self.critics.convolves)
        self.compile_parts = self.learner.compile_parts
        self.named_variables = self.learner.named_variables
        self.histograms = self.learner.histograms

    def make_policy(self) -> Softmax:
        """Return a policy with variables of its own, like the one that learns."""
        space = self._spec.action_space
        heads = {"logits": int(space.n)}
        network = actor.Actor(self._spec, self.config.network, heads, self._given)
        return Softmax(network, int(space.n), space.start, Warmup(0))

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Train on a batch of rows; those that ended by truncation bootstrap."""
        del seed
        metrics = self.learner.set_learning_rate(step)
        critics, policy = self.learner.optimizers.values()
        batch = windows.transition(trajectory, 1, self.inputs.gamma)
        mask, action = batch.mask, self.policy.index(batch.action)
        target = self._target(batch)
        value, q = self._value(self.critics, batch.step)
        weight = weights(td.chosen(q, action) - value, self.config, self.inputs.beta)

        def critics_loss():
            taken = tf.one_hot(action, self.policy.size)
            q = tf.reduce_sum(self.critics(batch.step) * taken, -1)
            loss, error = td.critics_loss(q, target, mask)
            loss += networks.added_loss(self.critics)
            return loss, (loss, q, error)

        def actor_loss():
            log_prob = td.chosen(self._log_policy(batch.step), action)
            loss = advantages.weighted_likelihood(log_prob, weight, mask)
            loss += networks.added_loss(self.network)
            return loss, (loss, log_prob)

        (td_loss, q, error), found = critics.minimize(critics_loss)
        (loss, log_prob), steps = policy.minimize(actor_loss)
        self.learner.target.update()
        metrics |= actor_critic.critic_metrics(
            q, target, error, mask, self.config.histograms
        )
        return Updated(
            metrics
            | found
            | actor_critic.of_actor(steps)
            | {
                "loss/critics": td_loss,
                "loss/actor": loss,
                "policy/weight": masked.mean(weight, mask),
                "policy/logged": masked.mean(tf.exp(log_prob), mask),
            }
        )

    def assess(self, trajectory: Trajectory) -> Assessment:
        """Return values, targets and probabilities of actions of rows."""
        batch = windows.transition(trajectory, 1, self.inputs.gamma)
        target = tf.where(batch.mask, self._target(batch), float("nan"))
        _, q = self._value(self.critics, batch.step)
        return Assessment(q, target, tf.exp(self._log_policy(batch.step)))

    def _target(self, batch: windows.Transition) -> tf.Tensor:
        """Return r + gamma sum_a pi(a | s') min_k Q'_k(s', a), f32 ``[N]``."""
        value, _ = self._value(self._targets, batch.next)
        return masked.safe(td.target(batch.reward, batch.discount, value), batch.mask)

    def _value(self, critics: Critics, step: TimeStep) -> tuple[tf.Tensor, tf.Tensor]:
        """Return sum_a pi(a | s) min_k Q_k(s, a), and min_k Q_k, f32 ``[N, A]``."""
        q = tf.reduce_min(critics(step), 0)
        return tf.reduce_sum(tf.exp(self._log_policy(step)) * q, -1), q

    def _log_policy(self, step: TimeStep) -> tf.Tensor:
        """Return ln pi(a | s) of all actions, f32 ``[N, A]``."""
        _, valid = networks.split_mask(step.observation)
        return td.log_policy(self.network(step)[0]["logits"], 1.0, valid)
