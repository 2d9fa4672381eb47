"""Twin delayed DDPG (Fujimoto et al. 2018, arXiv:1802.09477), DDPG and TD3+BC.

DDPG (Lillicrap et al. 2016, arXiv:1509.02971) is the case of one critic, an actor that
moves in every update, and targets without noise. TD3+BC (Fujimoto and Gu 2021,
arXiv:2106.06860) learns from logged rows: its actor also imitates their actions.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

import tensorflow as tf

from tfagents_batch import nest, seeds
from tfagents_batch.algorithms.shared import actor_critic, critic_values
from tfagents_batch.algorithms.shared.sequences import Sequences
from tfagents_batch.config import inherited, number, option
from tfagents_batch.nn import actor, networks, user
from tfagents_batch.nn.policies.box import Deterministic, Kind
from tfagents_batch.ops import advantages, masked, windows
from tfagents_batch.schedules import Constant, Schedule
from tfagents_batch.types import (
    BoxAssessment,
    DefaultSource,
    EnvSpec,
    TimeStep,
    Trajectory,
    Updated,
)


@dataclasses.dataclass(frozen=True)
class TD3Config(actor_critic.ActorCriticSettings):
    """Settings of TD3; scales of noise are in units of half an action's range."""

    target_every: int = option(
        1, "updates of the actor per update of the target networks", least=1
    )
    learning_rate: Schedule = number(
        Constant(1e-3), "learning rate of the optimizer", least=0
    )
    actor_value: Literal["min", "mean", "first"] = inherited(
        actor_critic.ActorCriticSettings, "actor_value", default="first"
    )
    policy_delay: int = inherited(
        actor_critic.ActorCriticSettings, "policy_delay", default=2
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
class DDPGConfig(TD3Config):
    """Settings of DDPG; scales of noise are in units of half an action's range."""

    num_critics: int = inherited(TD3Config, "num_critics", default=1)
    policy_delay: int = inherited(TD3Config, "policy_delay", default=1)
    target_noise: float | None = inherited(TD3Config, "target_noise", default=None)


# Rows have no memory, so there are fewer settings of networks.
@dataclasses.dataclass(frozen=True)
class TD3BCConfig(  # pyright: ignore[reportIncompatibleVariableOverride]
    actor_critic.UncollectedSettings, TD3Config
):
    """Settings of TD3+BC; scales of noise are in units of half an action's range."""

    learning_rate: Schedule = inherited(
        TD3Config, "learning_rate", default=Constant(3e-4)
    )
    bc_alpha: float | None = number(
        2.5,
        "weight alpha of values against imitation; none: no imitation, as in TD3",
        above=0,
    )

    source: ClassVar[DefaultSource] = "table", {}


class TD3(tf.Module):
    """TD3, DDPG or TD3+BC by its settings; satisfies ``interfaces.Algorithm``.

    Actions are a bounded Box; ``network`` is the actor.
    """

    def __init__(self, config: TD3Config, spec: EnvSpec, network=None):
        super().__init__()
        self.config = config = config.check()
        self._spec, self._custom = spec, user.distinct(network)
        self._of_actor, of_critics = config.seen(spec, self._custom)
        self.policy = self.make_policy()
        self.network = self.policy.network
        self.critics, self._targets = actor_critic.critics(
            config, of_critics, self._custom, self.policy.bounds.size
        )
        self._target_actor = self.make_policy().network
        learned = self.policy, self.critics, self._targets, self._target_actor
        delay = config.policy_delay
        streams = spec.num_envs
        self.learner = actor_critic.learner(
            config, *learned, delay=delay, streams=streams
        )
        self.compilable = self.learner.compilable

    def make_policy(self) -> Deterministic:
        config, limits = self.config, actor.bounds(self._spec)
        heads = {"action": limits.size}
        parts = self._of_actor, config.network, heads, self._custom
        network = actor.ActorNetwork(*parts)
        noise, own = config.action_noise(), self._custom is None
        seen = config.observations(self._spec.observation_space, own)
        policy = Deterministic(network, limits, config.random_steps, noise, seen)
        policy.records = config.records_state
        return policy

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Train on a batch of windows.

        A truncated episode bootstraps from its last state, a terminated one does not.

        - Critics move to y = R + gamma^n min_k Q'_k(s', a'), a' = mu'(s') with noise.
        - In every ``policy_delay``-th update the actor follows the gradient of
          -Q_1(s, mu(s)), with imitation of a for TD3+BC.
        """
        learner, policy, config = self.learner, self.policy, self.learner.inputs
        trajectory, metrics = learner.begin(trajectory, step)
        sequences = Sequences(self.config, trajectory)
        trajectory = sequences.trajectory
        batch = windows.transition(trajectory, config.n_step, config.gamma)
        mask, last = batch.mask, sequences.then(batch, self._target_actor)
        later, apart = self._later_action(last, seed), None
        if not config.critic.batch_renorm:
            ended = batch._replace(next=sequences.then(batch, self._targets))
            apart = self._target(ended, later, seed)
        taken = policy.bounds.unit(batch.action)

        def critic_loss():
            if apart is None:
                asked = batch, taken, later, seed
                q, then = critic_values.joint(config, self.critics, *asked)
                target = critic_values.returns(config, then).target(batch)
            else:
                step = sequences.now(batch, self.critics)
                q = critic_values.now(config, self.critics, step, taken, seed)
                target = apart
            parts = target, mask, trajectory.weight
            loss, error, q = critic_values.loss(config, q, *parts)
            loss += networks.added_loss(self.critics)
            return loss, (loss, q, target.mean, error)

        def actor_loss():
            action = policy.unit(sequences.now(batch, self.network))
            asked = sequences.now(batch, self.critics), action, seed
            q = critic_values.of_actor(config, self.critics, *asked)
            if config.bc_alpha is None:
                loss = -masked.mean(q, mask)
            else:
                data = q, action, taken, config.bc_alpha, mask
                loss = advantages.with_imitation(*data)
            loss += networks.added_loss(self.network)
            return loss, loss

        def train_actor():
            result = learner.optimizers["actor"].minimize(actor_loss)
            return actor_critic.actor_metrics(*result)

        found, steps = learner.optimizers["critics"].minimize(critic_loss)
        (loss, q, target, error), delay = found, config.policy_delay
        names = actor_critic.ACTOR_METRICS
        metrics |= steps | actor_critic.delayed(learner, delay, names, train_actor)
        learner.move_targets()
        learner.reset(seed)
        metrics |= actor_critic.noise_metrics(policy.action_noise, step)
        shown = loss, q, target, error, mask, config.histograms
        metrics |= actor_critic.critic_metrics(*shown)
        return Updated(metrics, sequences.priority(error, mask))

    def _later_action(self, last: TimeStep, seed) -> tf.Tensor:
        """Return the target actor's actions in the last states, f32 ``[N, A]``."""
        config = self.learner.inputs
        action = self.policy.unit(last, self._target_actor)
        if config.target_noise is not None:
            shape = [nest.static_size(action), self.policy.bounds.size]
            noise = seeds.normal(shape, seeds.key(seed, "target"))
            noise *= config.target_noise
            noise = tf.clip_by_value(noise, -config.target_clip, config.target_clip)
            action = tf.clip_by_value(action + noise, -1.0, 1.0)
        return action

    def _target(
        self, batch: windows.Transition, action: tf.Tensor, seed
    ) -> critic_values.Returns:
        """Return the targets of critics; ``seed`` as in ``critic_values.later``."""
        config, asked = self.learner.inputs, (self._targets, batch.next, action, seed)
        outputs = critic_values.later(config, *asked)
        return critic_values.returns(config, outputs).target(batch)

    def assess(self, trajectory: Trajectory) -> BoxAssessment:
        batch = windows.transition(trajectory, 1, self.learner.inputs.gamma)
        target = self._target(batch, self._later_action(batch.next, 0), None)
        return actor_critic.assessment(self, batch, target.mean)
