"""Twin delayed DDPG (Fujimoto et al. 2018, arXiv:1802.09477), and DDPG.

DDPG (Lillicrap et al. 2016, arXiv:1509.02971) is the case of one critic, an actor that
moves in every update, and targets without noise.
"""

from __future__ import annotations

import dataclasses

import keras
import tensorflow as tf

from tfagents_batch import nest, seeds
from tfagents_batch.algorithms.shared.actor_critic import Settings
from tfagents_batch.config import option
from tfagents_batch.interfaces import Updated
from tfagents_batch.metrics import Mean, Metrics
from tfagents_batch.nn import actor, critics, networks, summary, user
from tfagents_batch.nn.bounds import bounds
from tfagents_batch.nn.critics import Critics
from tfagents_batch.nn.policies.box import Deterministic, Exploration
from tfagents_batch.ops import carried, masked, td, windows
from tfagents_batch.schedules import Constant, Schedule
from tfagents_batch.types import EnvSpec, Trajectory


@dataclasses.dataclass(frozen=True)
class Config(Settings):
    """Settings of TD3; scales of noise are in units of half an action's range."""

    target_every: int = option(
        1, "updates of the actor between moves of the target networks", least=1
    )
    learning_rate: Schedule = option(Constant(1e-3), "Adam's step size", least=0)
    policy_delay: int = option(
        2, "updates of the critics between updates of the actor", least=1
    )
    noise: Schedule = option(
        Constant(0.1), "scale of the noise that is added to actions", least=0
    )
    exploration: Exploration = option(
        "gaussian", "noise: gaussian, or ou: Ornstein-Uhlenbeck, correlated in time"
    )
    target_noise: float = option(0.2, "scale of the noise in targets", least=0)
    target_clip: float = option(0.5, "largest noise in targets", least=0)


@dataclasses.dataclass(frozen=True)
class DDPGConfig(Config):
    """Settings of DDPG; scales of noise are in units of half an action's range."""

    critics: int = option(1, "critics; the smallest value counts", least=1, most=10)
    policy_delay: int = option(
        1, "updates of the critics between updates of the actor", least=1
    )
    target_noise: float = option(0.0, "scale of the noise in targets", least=0)


class TD3(tf.Module):
    """TD3, or DDPG by its settings; satisfies ``interfaces.Algorithm``.

    Args:
      config: settings.
      spec: spec of the environments; their actions are a bounded Box.
      network: the user's ``keras.Model`` or builder of features, see ``actor.torso``;
        None uses the built-in networks.

    Attributes:
      policy: policy that learns.
      network: its actor.
      critics: critics.

    Raises:
      UserError: for settings, actions or a network that cannot be used.
    """

    several_seeds = False

    def __init__(self, config: Config, spec: EnvSpec, network=None):
        super().__init__()
        self.config = config = config.check()
        self.alarms = config.alarms()
        self._spec, self._given = spec, user.distinct(network)
        self.policy = self.make_policy()
        self.network = self.policy.network
        self.critics, self._targets = self._make_critics(), self._make_critics()
        self._target_actor = self.make_policy().network
        self._optimizers = {
            "critics": config.optimizer(self.critics.trainable_variables),
            "actor": config.optimizer(self.network.trainable_variables),
        }
        self._target_network = config.target_network(
            [*self._targets.variables, *self._target_actor.variables],
            [*self.critics.variables, *self.network.variables],
            delay=config.policy_delay,
        )

    @property
    def compilable(self) -> bool:
        """True if XLA speeds the update up; with convolutions on a CPU it does not."""
        return not (self.network.convolves or self.critics.convolves)

    def compile_parts(self, on: bool) -> None:
        """Compile the optimizer steps, alone or as parts of the update."""
        for each in self._optimizers.values():
            each.compiled = on

    def make_policy(self) -> Deterministic:
        """Return a policy with variables of its own, like the one that learns."""
        config, limits = self.config, bounds(self._spec)
        network = actor.Actor(
            self._spec, config.network, {"action": limits.size}, self._given
        )
        return Deterministic(
            network, limits, config.warmup_steps, config.noise, config.exploration
        )

    def named_variables(self) -> dict[str, keras.Variable]:
        """Return the variables of a checkpoint: all that updates change."""
        learner = {
            "critics": networks.named_variables(self.critics),
            "targets": networks.named_variables(self._targets),
            "target_actor": networks.named_variables(self._target_actor),
            "optimizer": {k: x.named_variables() for k, x in self._optimizers.items()},
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
        key = seeds.key(seed, "target")
        metrics, error = self._update_critics(move, trajectory.weight, key)
        moves = (self._target_network.updates.value + 1) % config.policy_delay == 0
        nothing = dict.fromkeys(actor.METRICS, tf.zeros([]))
        found = carried.when(moves, lambda: self._update_actor(move), nothing)
        made = tf.cast(moves, tf.float32)  # of only some updates
        metrics |= {name: Mean(x, made) for name, x in found.items()}
        self._target_network.update()
        metrics |= {
            "policy/noise": self.policy.scale(step),
            "grad/learning_rate": tf.identity(rate),
            "grad/updates": tf.ones([]),
        }
        return Updated(metrics, error)

    def histograms(self) -> Metrics:
        """Return histograms of the weights of actor and critics, and gradients."""
        on = self.config.histograms
        return summary.weight_histograms(*self._optimizers.values()) if on else {}

    def _make_critics(self) -> Critics:
        config, size = self.config, self.policy.bounds.size
        return Critics(
            self._spec, config.network, config.critics, size, network=self._given
        )

    def _update_critics(
        self, move: windows.Transition, weight: tf.Tensor, key: tf.Tensor
    ) -> tuple[Metrics, tf.Tensor]:
        """Step towards y = R + gamma^n min_k Q'_k(s', a'), a' = mu'(s') with noise.

        Returns the metrics, and f32 ``[N]`` absolute errors.
        """
        config, counts = self.config, move.counts
        action = self.policy.unit(move.last, self._target_actor)
        if config.target_noise:
            noise = config.target_noise * seeds.normal(action.shape, key)
            noise = tf.clip_by_value(noise, -config.target_clip, config.target_clip)
            action = tf.clip_by_value(action + noise, -1.0, 1.0)
        value = tf.reduce_min(self._targets(move.last, action), 0)
        goal = masked.safe(td.target(move.reward, move.factor, value), counts)
        taken = self.policy.bounds.unit(move.action)
        return critics.step(
            self._optimizers["critics"],
            self.critics,
            lambda: self.critics(move.first, taken),
            goal,
            counts,
            weight,
            config.histograms,
        )

    def _update_actor(self, move: windows.Transition) -> Metrics:
        """Step along the gradient of -Q_1(s, mu(s))."""

        def losses():
            action = self.policy.unit(move.first)
            return -self.critics(move.first, action, first=1)[0], ()

        optimizer = self._optimizers["actor"]
        return actor.step(optimizer, self.network, losses, move.counts)[0]
