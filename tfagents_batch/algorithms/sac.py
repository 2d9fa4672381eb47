"""Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905), for Box actions.

Discrete actions are in ``sac_discrete.py``.
"""

from __future__ import annotations

import math

import keras
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import seeds
from tfagents_batch.algorithms import sac_discrete
from tfagents_batch.algorithms.sac_settings import Config
from tfagents_batch.algorithms.shared import actor_critic
from tfagents_batch.errors import UserError
from tfagents_batch.metrics import Metrics
from tfagents_batch.nn import actor, networks, user
from tfagents_batch.nn.bounds import bounds
from tfagents_batch.nn.critics import Critics
from tfagents_batch.nn.policies.box import SquashedNormal
from tfagents_batch.nn.policies.softmax import Softmax
from tfagents_batch.ops import masked, td, windows
from tfagents_batch.types import (
    Assessment,
    BoxAssessment,
    EnvSpec,
    TimeStep,
    Trajectory,
    Updated,
)


class SAC(tf.Module):
    """SAC with twin critics and a learned temperature; an ``interfaces.Algorithm``.

    Actions are a bounded Box, or Discrete.

    Attributes:
      critics, targets: critics and their target networks; ``network`` is the actor.
    """

    def __init__(self, config: Config, spec: EnvSpec, network=None):
        super().__init__()
        self.config = config = config.check()
        self._spec, self._given = spec, user.distinct(network)
        self._discrete = isinstance(spec.action_space, gs.Discrete)
        self.policy = self.make_policy()
        self._check_target_entropy()
        self.network = self.policy.network
        sizes = (0, self.policy.size) if self._discrete else (self.policy.bounds.size,)
        self.critics, self.targets = actor_critic.critics(
            config, spec, self._given, *sizes
        )
        self._log_temperature = keras.Variable(
            math.log(config.start_temperature), dtype="float32"
        )
        self._extra = extra = config.regularizer(spec)
        self.learner = actor_critic.learner(
            config,
            self.policy,
            self.critics,
            self.targets,
            trained={"temperature": [self._log_temperature]}
            | (extra.trained if extra else {}),
            variables={"log_temperature": self._log_temperature}
            | (extra.learned if extra else {}),
        )
        self._optimizers, self.inputs = self.learner.optimizers, self.learner.inputs
        # XLA slows convolutions down on a CPU.
        self.compilable = not (self.network.convolves or self.critics.convolves)
        self.compile_parts = self.learner.compile_parts
        self.named_variables = self.learner.named_variables
        self.histograms = self.learner.histograms

    def make_policy(self) -> SquashedNormal | Softmax:
        """Return a policy with variables of its own, like the one that learns."""
        config, spec, given = self.config, self._spec, self._given
        if self._discrete:
            return sac_discrete.make_policy(config, spec, given)
        limits = bounds(spec)
        heads = {"mean": limits.size, "log_std": limits.size}
        network = actor.Actor(spec, config.network, heads, given)
        return SquashedNormal(network, limits, config.warmup(), config.action_noise())

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Train on a batch of windows.

        A truncated episode bootstraps from its last state, a terminated one does not.
        """
        config = self.inputs
        batch = windows.transition(trajectory, config.n_step, config.gamma)
        metrics = self.learner.set_learning_rate(step)
        more, error = self._update_critics(batch, trajectory.weight, seed)
        metrics |= more | self._update_actor(batch, seed)
        self.learner.target.update()
        metrics["policy/temperature"] = self._temperature()
        return Updated(
            metrics | actor_critic.noise_metrics(self.policy.action_noise, step), error
        )

    def _update_critics(
        self, batch: windows.Transition, weight: tf.Tensor, seed
    ) -> tuple[Metrics, tf.Tensor]:
        """Step towards y = R + gamma^n (min_k Q'_k(s', a') - alpha ln pi(a' | s')).

        Returns the metrics, and f32 ``[N]`` absolute errors.
        """
        mask, target = batch.mask, self._target(batch, seed)
        extra = self._extra
        drawn = extra.draw(self.policy, batch, seed) if extra else ()

        def critic_loss():
            q, gap = self._values(batch.step, batch.action), ()
            loss, error = td.critics_loss(q, target, mask, weight)
            if extra:
                more, gap = extra.loss(self.critics, batch, drawn, q)
                loss += more
            loss += networks.added_loss(self.critics)
            return loss, (loss, q, error, gap)

        (loss, q, error, gap), found = self._optimizers["critics"].minimize(critic_loss)
        found |= extra.step(self._optimizers, gap) if extra else {}
        rows = self.config.histograms
        found |= actor_critic.critic_metrics(q, target, error, mask, rows) | {
            "loss/critics": loss
        }
        return found, error

    def _target(self, batch: windows.Transition, seed) -> tf.Tensor:
        """Return the targets of critics, f32 ``[N]``."""
        key = seeds.key(seed, "later")
        q, log_prob = self._soft_value(batch.next, self.targets, key)
        if self.config.entropy_in_target:
            q -= self._temperature() * log_prob
        return masked.safe(td.target(batch.reward, batch.discount, q), batch.mask)

    def assess(self, trajectory: Trajectory) -> Assessment | BoxAssessment:
        """Return values and probabilities of rows, see ``interfaces``."""
        batch = windows.transition(trajectory, 1, self.inputs.gamma)
        target = self._target(batch, 0)
        if self._discrete:
            return sac_discrete.assess(self.policy, self.critics, batch, target)
        policy = self.policy.distribution(batch.step, *self.policy.bounds.flat)
        log = policy.log_prob(tf.reshape(batch.action, [-1, self.policy.bounds.size]))
        return actor_critic.assessment(
            self.critics, self.policy.bounds, batch, target, log
        )

    def _update_actor(self, batch: windows.Transition, seed) -> Metrics:
        """Step along the gradient of alpha ln pi(a | s) - min_k Q_k(s, a); then alpha.

        A learned temperature follows the gradient of ln alpha (entropy - target).
        """
        mask, alpha, key = batch.mask, self._temperature(), seeds.key(seed, "now")

        def actor_loss():
            q, log_prob = self._soft_value(batch.step, self.critics, key)
            loss = masked.mean(alpha * log_prob - q, mask)
            loss += networks.added_loss(self.network)
            return loss, (loss, log_prob)

        (loss, log_prob), found = self._optimizers["actor"].minimize(actor_loss)
        entropy = -masked.mean(log_prob, mask)
        metrics = actor_critic.of_actor(found) | {
            "loss/actor": loss,
            "policy/entropy": entropy,
        }
        if self.config.temperature is None:
            excess = -masked.mean(log_prob + self._target_entropy(batch), mask)

            def temperature_loss():
                loss = self._log_temperature.value * excess
                return loss, loss

            optimizer = self._optimizers["temperature"]
            metrics["loss/temperature"], _ = optimizer.minimize(temperature_loss)
        return metrics

    def _soft_value(self, step: TimeStep, critics: Critics, key: tf.Tensor) -> tuple:
        """Return min_k Q_k and ln pi, f32 ``[N]`` each: of a drawn action in each row.

        Of Discrete actions, they are the expectations over all actions.
        """
        if self._discrete:
            return sac_discrete.soft_value(self.policy, critics, step)
        policy = self.policy.distribution(step)
        noise = seeds.normal([step.first.shape[0], self.policy.bounds.size], key)
        action, log_prob = policy.sample_with_log_prob(noise)
        return tf.reduce_min(critics(step, action), 0), log_prob

    def _values(self, step: TimeStep, action: tf.Tensor) -> tf.Tensor:
        """Return Q_k of actions, f32 ``[K, N]``."""
        if self._discrete:
            return sac_discrete.values(self.policy, self.critics, step, action)
        return self.critics(step, self.policy.bounds.unit(action))

    def _check_target_entropy(self) -> None:
        """Refuse a target that no policy reaches: the temperature would not end."""
        target = self.config.target_entropy
        size = self.policy.size if self._discrete else self.policy.bounds.size
        largest = math.log(size) if self._discrete else size * math.log(2)
        if self.config.temperature is None and target is not None and target > largest:
            kind = "Discrete actions" if self._discrete else "numbers in -1 to 1"
            raise UserError(
                f"target_entropy is {target}, but the entropy of {size} {kind} is "
                f"{largest:.4g} nats at most; lower --algorithm.target_entropy, or "
                "leave it out"
            )

    def _temperature(self) -> tf.Tensor:
        """Return alpha, f32 ``[]``: the setting, or what was learned."""
        if self.inputs.temperature is not None:
            return tf.convert_to_tensor(self.inputs.temperature)
        return tf.exp(self._log_temperature.value)

    def _target_entropy(self, batch: windows.Transition) -> tf.Tensor | float:
        """Return the entropy that the temperature aims at, f32 ``[]`` or ``[N]``."""
        if self.inputs.target_entropy is not None:
            return self.inputs.target_entropy
        if self._discrete:
            return sac_discrete.target_entropy(self.policy, batch.step)
        return -float(self.policy.bounds.size)
