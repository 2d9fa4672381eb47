"""Twin delayed DDPG (Fujimoto et al. 2018, arXiv:1802.09477), DDPG and TD3+BC.

DDPG (Lillicrap et al. 2016, arXiv:1509.02971) is the case of one critic, an actor that
moves in every update, and targets without noise. TD3+BC (Fujimoto and Gu 2021,
arXiv:2106.06860) learns from logged rows: its actor also imitates their actions.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.algorithms.shared import actor_critic
from tfagents_batch.config import inherited, number, option
from tfagents_batch.metrics import Mean, Metrics
from tfagents_batch.nn import actor, networks, user
from tfagents_batch.nn.bounds import bounds
from tfagents_batch.nn.exploration import Kind
from tfagents_batch.nn.policies.box import Deterministic
from tfagents_batch.ops import advantages, masked, td, windows
from tfagents_batch.schedules import Constant, Schedule
from tfagents_batch.types import (
    Accepts,
    BoxAssessment,
    DefaultSource,
    EnvSpec,
    Trajectory,
    Updated,
)


@dataclasses.dataclass(frozen=True)
class Config(actor_critic.Settings):
    """Settings of TD3; scales of noise are in units of half an action's range."""

    target_every: int = option(
        1, "updates of the actor per update of the target networks", least=1
    )
    learning_rate: Schedule = number(
        Constant(1e-3), "learning rate of the optimizer", least=0
    )
    policy_delay: int = option(
        2, "updates of the critics per update of the actor", least=1
    )
    exploration: Kind = option(
        "gaussian", "noise on actions: gaussian, or ou: Ornstein-Uhlenbeck, correlated"
    )
    target_noise: float | None = number(
        0.2,
        "scale of noise in targets; none: 0 (Stable-Baselines3: target_policy_noise)",
        least=0,
    )
    target_clip: float = number(
        0.5, "largest noise in targets (Stable-Baselines3: target_noise_clip)", least=0
    )
    bc_alpha: float | None = number(
        None,
        "weight alpha of values against imitation (TD3+BC); none: no imitation",
        above=0,
    )


@dataclasses.dataclass(frozen=True)
class DDPGConfig(Config):
    """Settings of DDPG; scales of noise are in units of half an action's range."""

    num_critics: int = inherited(Config, "num_critics", default=1)
    policy_delay: int = inherited(Config, "policy_delay", default=1)
    target_noise: float | None = inherited(Config, "target_noise", default=None)


@dataclasses.dataclass(frozen=True)
class TD3BCConfig(Config):
    """Settings of TD3+BC; scales of noise are in units of half an action's range."""

    learning_rate: Schedule = inherited(Config, "learning_rate", default=Constant(3e-4))
    warmup_steps: int = option(0, "not used: nothing is collected", least=0, most=0)
    bc_alpha: float | None = number(
        2.5,
        "weight alpha of values against imitation; none: no imitation, as in TD3",
        above=0,
    )

    source: ClassVar[DefaultSource] = "table", {}

    def accepts(self) -> Accepts:
        """Return that it learns from rows."""
        return self.only_rows()


class TD3(tf.Module):
    """TD3, DDPG or TD3+BC by its settings; satisfies ``interfaces.Algorithm``.

    Actions are a bounded Box.

    Attributes:
      critics: critics; ``network`` is the actor.
    """

    def __init__(self, config: Config, spec: EnvSpec, network=None):
        super().__init__()
        self.config = config = config.check()
        self._spec, self._given = spec, user.distinct(network)
        self.policy = self.make_policy()
        self.network = self.policy.network
        self.critics, self._targets = actor_critic.critics(
            config, spec, self._given, self.policy.bounds.size
        )
        self._target_actor = self.make_policy().network
        self.learner = actor_critic.learner(
            config,
            self.policy,
            self.critics,
            self._targets,
            self._target_actor,
            delay=config.policy_delay,
        )
        self._optimizers, self.inputs = self.learner.optimizers, self.learner.inputs
        # XLA makes convolutions on a CPU slower.
        self.compilable = not (self.network.convolves or self.critics.convolves)
        self.compile_parts = self.learner.compile_parts
        self.named_variables = self.learner.named_variables
        self.histograms = self.learner.histograms

    def make_policy(self) -> Deterministic:
        """Return a policy with variables of its own, like the one that learns."""
        config, limits = self.config, bounds(self._spec)
        network = actor.Actor(
            self._spec, config.network, {"action": limits.size}, self._given
        )
        return Deterministic(network, limits, config.warmup(), config.action_noise())

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Train on a batch of windows.

        A truncated episode bootstraps from its last state, a terminated one does not.
        """
        config, target = self.inputs, self.learner.target
        batch = windows.transition(trajectory, config.n_step, config.gamma)
        metrics = self.learner.set_learning_rate(step)
        more, error = self._update_critics(batch, trajectory.weight, seed)
        metrics |= more
        due = (target.updates.value + 1) % config.policy_delay == 0
        nothing = dict.fromkeys(actor_critic.ACTOR_METRICS, tf.zeros([]))
        found = tf.cond(due, lambda: self._update_actor(batch), lambda: nothing)
        made = tf.cast(due, tf.float32)  # of only some updates
        metrics |= {name: Mean(x, made) for name, x in found.items()}
        target.update()
        metrics |= actor_critic.noise_metrics(self.policy.action_noise, step)
        return Updated(metrics, error)

    def assess(self, trajectory: Trajectory) -> BoxAssessment:
        """Return values of rows and their targets, see ``types.BoxAssessment``."""
        batch = windows.transition(trajectory, 1, self.inputs.gamma)
        rows = self.policy.bounds, batch, self._target(batch, 0)
        return actor_critic.assessment(self.critics, *rows)

    def _update_critics(
        self, batch: windows.Transition, weight: tf.Tensor, seed
    ) -> tuple[Metrics, tf.Tensor]:
        """Step towards y = R + gamma^n min_k Q'_k(s', a'), a' = mu'(s') with noise.

        Returns the metrics, and f32 ``[N]`` absolute errors.
        """
        mask, target = batch.mask, self._target(batch, seed)
        taken = self.policy.bounds.unit(batch.action)

        def critic_loss():
            q = self.critics(batch.step, taken)
            loss, error = td.critics_loss(q, target, mask, weight)
            loss += networks.added_loss(self.critics)
            return loss, (loss, q, error)

        (loss, q, error), found = self._optimizers["critics"].minimize(critic_loss)
        rows = self.config.histograms
        found |= actor_critic.critic_metrics(q, target, error, mask, rows) | {
            "loss/critics": loss
        }
        return found, error

    def _target(self, batch: windows.Transition, seed) -> tf.Tensor:
        """Return the targets of critics, f32 ``[N]``."""
        config = self.inputs
        action = self.policy.unit(batch.next, self._target_actor)
        if config.target_noise is not None:
            noise = seeds.normal(action.shape, seeds.key(seed, "target"))
            noise *= config.target_noise
            noise = tf.clip_by_value(noise, -config.target_clip, config.target_clip)
            action = tf.clip_by_value(action + noise, -1.0, 1.0)
        value = tf.reduce_min(self._targets(batch.next, action), 0)
        target = td.target(batch.reward, batch.discount, value)
        return masked.safe(target, batch.mask)

    def _update_actor(self, batch: windows.Transition) -> Metrics:
        """Step along the gradient of -Q_1(s, mu(s)), with imitation for TD3+BC."""
        alpha, mask = self.inputs.bc_alpha, batch.mask
        logged = self.policy.bounds.unit(batch.action)

        def actor_loss():
            action = self.policy.unit(batch.step)
            q = self.critics(batch.step, action, first=1)[0]
            if alpha is None:
                loss = -masked.mean(q, mask)
            else:
                loss = advantages.with_imitation(q, action, logged, alpha, mask)
            loss += networks.added_loss(self.network)
            return loss, loss

        loss, found = self._optimizers["actor"].minimize(actor_loss)
        return actor_critic.of_actor(found) | {"loss/actor": loss}
