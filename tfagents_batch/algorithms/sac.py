"""Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905), for Box actions.

For Discrete actions it is the variant of Christodoulou 2019 (arXiv:1910.07207), where
expectations over actions are sums.
"""

from __future__ import annotations

import dataclasses
import math

import keras
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import nest, seeds
from tfagents_batch.algorithms.shared.actor_critic import Settings
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Updated
from tfagents_batch.metrics import Metrics
from tfagents_batch.nn import actor, critics, networks, summary, user
from tfagents_batch.nn.bounds import bounds
from tfagents_batch.nn.critics import Critics
from tfagents_batch.nn.policies.box import SquashedNormal
from tfagents_batch.nn.policies.softmax import Softmax
from tfagents_batch.ops import masked, td, windows
from tfagents_batch.types import EnvSpec, Trajectory

_DISCRETE_SHARE = 0.98  # of the largest entropy, as in Christodoulou 2019


@dataclasses.dataclass(frozen=True)
class Config(Settings):
    """Settings of SAC."""

    temperature: float | None = option(
        None, "temperature alpha of the entropy; none: learned", least=0
    )
    start_temperature: float = option(
        1.0, "temperature at the start, if it is learned", above=0
    )
    target_entropy: float | None = option(
        None,
        "entropy that a learned temperature aims at, in nats, with actions scaled to "
        "-1 to 1; none: -A for A numbers, 0.98 ln A for A Discrete actions",
    )


class SAC(tf.Module):
    """SAC with twin critics and a learned temperature; an ``interfaces.Algorithm``.

    Args:
      config: settings.
      spec: spec of the environments; their actions are a bounded Box, or Discrete.
      network: the user's ``keras.Model`` or builder of features, see ``actor.torso``;
        None uses the built-in networks.

    Attributes:
      policy: policy that learns.
      network: its actor.
      critics, targets: critics and their target networks.

    Raises:
      UserError: for settings, actions or a network that cannot be used.
    """

    several_seeds = False

    def __init__(self, config: Config, spec: EnvSpec, network=None):
        super().__init__()
        self.config = config = config.check()
        self.alarms = config.alarms()
        self._spec, self._given = spec, user.distinct(network)
        self._discrete = isinstance(spec.action_space, gs.Discrete)
        self.policy = self.make_policy()
        self._check_target_entropy()
        self.network = self.policy.network
        self.critics, self.targets = self._make_critics(), self._make_critics()
        self._log_temperature = keras.Variable(
            math.log(config.start_temperature), dtype="float32"
        )
        self._optimizers = {
            "critics": config.optimizer(self.critics.trainable_variables),
            "actor": config.optimizer(self.network.trainable_variables),
            "temperature": config.optimizer([self._log_temperature]),
        }
        self._target_network = config.target_network(
            self.targets.variables, self.critics.variables
        )

    @property
    def compilable(self) -> bool:
        """True if XLA speeds the update up; with convolutions on a CPU it does not."""
        return not (self.network.convolves or self.critics.convolves)

    def compile_parts(self, on: bool) -> None:
        """Compile the optimizer steps, alone or as parts of the update."""
        for each in self._optimizers.values():
            each.compiled = on

    def make_policy(self) -> SquashedNormal | Softmax:
        """Return a policy with variables of its own, like the one that learns."""
        config, spec, given = self.config, self._spec, self._given
        if self._discrete:
            space = spec.action_space
            heads = {"logits": int(space.n)}
            network = actor.Actor(spec, config.network, heads, given)
            return Softmax(network, int(space.n), space.start, config.warmup_steps)
        limits = bounds(spec)
        heads = {"mean": limits.size, "log_std": limits.size}
        network = actor.Actor(spec, config.network, heads, given)
        return SquashedNormal(network, limits, config.warmup_steps)

    def named_variables(self) -> dict[str, keras.Variable]:
        """Return the variables of a checkpoint: all that updates change."""
        learner = {
            "critics": networks.named_variables(self.critics),
            "targets": networks.named_variables(self.targets),
            "optimizer": {k: x.named_variables() for k, x in self._optimizers.items()},
            "log_temperature": self._log_temperature,
            "updates": self._target_network.updates,
        }
        return self.policy.named_variables() | nest.prefixed("learner", learner)

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Train on a batch of windows.

        A truncated episode bootstraps from its last state, a terminated one does not.
        """
        config = self.config
        rate = config.learning_rate(step)
        for each in self._optimizers.values():
            each.set_learning_rate(rate)
        move = windows.transition(trajectory, config.n_step, config.gamma)
        now, later = seeds.key(seed, "now"), seeds.key(seed, "later")
        metrics, error = self._update_critics(move, trajectory.weight, later)
        metrics |= self._update_actor(move, now)
        self._target_network.update()
        metrics |= {
            "policy/temperature": self._temperature(),
            "grad/learning_rate": tf.identity(rate),
            "grad/updates": tf.ones([]),
        }
        return Updated(metrics, error)

    def histograms(self) -> Metrics:
        """Return histograms of the weights of critics and actor, and gradients."""
        if not self.config.histograms:
            return {}
        trained = (self._optimizers[name] for name in ("actor", "critics"))
        return summary.weight_histograms(*trained)

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

    def _make_critics(self) -> Critics:
        config, spec = self.config, self._spec
        size = (0, self.policy.size) if self._discrete else (self.policy.bounds.size, 1)
        return Critics(spec, config.network, config.critics, *size, self._given)

    def _update_critics(
        self, move: windows.Transition, weight: tf.Tensor, key: tf.Tensor
    ) -> tuple[Metrics, tf.Tensor]:
        """Step towards y = R + gamma^n (min_k Q'_k(s', a') - alpha ln pi(a' | s')).

        Returns the metrics, and f32 ``[N]`` absolute errors.
        """
        config, counts = self.config, move.counts
        q, log = self.policy.soft(move.last, self.targets, key)
        value = q - self._temperature() * log
        goal = masked.safe(td.target(move.reward, move.factor, value), counts)
        return critics.step(
            self._optimizers["critics"],
            self.critics,
            lambda: self.policy.values(self.critics, move.first, move.action),
            goal,
            counts,
            weight,
            config.histograms,
        )

    def _update_actor(self, move: windows.Transition, key: tf.Tensor) -> Metrics:
        """Step along the gradient of alpha ln pi(a | s) - min_k Q_k(s, a); then alpha.

        A learned temperature follows the gradient of ln alpha (entropy - target).
        """
        counts, temperature = move.counts, self._temperature()

        def losses():
            q, log = self.policy.soft(move.first, self.critics, key)
            return temperature * log - q, log

        metrics, log = actor.step(
            self._optimizers["actor"], self.network, losses, counts
        )
        metrics["policy/entropy"] = -masked.mean(log, counts)
        if self.config.temperature is None:
            goal = self._target_entropy(move)
            excess = -masked.mean(log + goal, counts)
            self._optimizers["temperature"].apply([excess])
            metrics["loss/temperature"] = self._log_temperature.value * excess
        return metrics

    def _temperature(self) -> tf.Tensor:
        """Return alpha, f32 ``[]``: the setting, or what was learned."""
        if self.config.temperature is not None:
            return tf.constant(self.config.temperature, tf.float32)
        return tf.exp(self._log_temperature.value)

    def _target_entropy(self, move: windows.Transition) -> tf.Tensor | float:
        """Return the entropy that the temperature aims at, f32 ``[]`` or ``[N]``."""
        if self.config.target_entropy is not None:
            return self.config.target_entropy
        if not self._discrete:
            return -float(self.policy.bounds.size)
        _, valid = networks.split_mask(move.first.observation)
        if valid is None:
            return _DISCRETE_SHARE * math.log(self.policy.size)
        number = tf.reduce_sum(tf.cast(valid, tf.float32), -1)
        number = tf.where(number > 0, number, float(self.policy.size))
        return _DISCRETE_SHARE * tf.math.log(number)
