"""Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905).

For actions of numbers, of choices or of both, see ``sac_actions.py``. Conservative
Q-learning of logged rows, CQL, adds a loss of the critics, see ``sac_cql.py``.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, Literal, Self

import keras
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import seeds
from tfagents_batch.algorithms import sac_cql
from tfagents_batch.algorithms.sac_actions import CHOICES, Actions, Drawn
from tfagents_batch.algorithms.shared import actor_critic, critic_values
from tfagents_batch.algorithms.shared.sequences import Sequences
from tfagents_batch.config import inherited, number, option
from tfagents_batch.errors import UserError
from tfagents_batch.graph.inputs import Inputs
from tfagents_batch.nn import networks, user
from tfagents_batch.nn.actor import ActorNetwork, bounds
from tfagents_batch.nn.encoder import check_mask, refuse_mask
from tfagents_batch.nn.policies.box import Kind, SquashedNormal
from tfagents_batch.nn.policies.discrete import Softmax, softmax
from tfagents_batch.nn.policies.mixed import Mixed, Parts
from tfagents_batch.ops import masked, windows
from tfagents_batch.types import (
    Assessment,
    BoxAssessment,
    DefaultSource,
    EnvSpec,
    Trajectory,
    Updated,
)


@dataclasses.dataclass(frozen=True)
class SACConfig(actor_critic.ActorCriticSettings):
    """Settings of SAC."""

    temperature: float | None = number(
        None,
        "temperature alpha of the entropy; none: learned (Stable-Baselines3: ent_coef)",
        least=0,
    )
    start_temperature: float = option(
        1.0, "temperature at the start, if it is learned", above=0
    )
    target_entropy: float | None = number(
        None,
        "entropy that a learned temperature aims at, in nats, with actions scaled to "
        "-1 to 1; none: -A for A numbers, and choice_entropy for choices",
    )
    choice_entropy: float = number(
        0.98,
        "entropy that a learned temperature of choices, such as Discrete actions, aims "
        "at, as share of the largest one; not used for a Box",
        least=0,
        most=1,
    )
    exploration: Literal["none", "gaussian", "ou", "sde"] = option(
        "none",
        "noise on actions: gaussian; ou: Ornstein-Uhlenbeck, correlated; or sde: a "
        "function of the state",
    )
    sde_every: int = number(
        8,
        "with sde, steps until that function is another one (Stable-Baselines3: "
        "sde_sample_freq)",
        least=1,
        group="exploration",
    )
    sde_std: float = option(
        0.05,
        "with sde, standard deviation of its numbers at the start (Stable-Baselines3: "
        "exp(log_std_init))",
        above=0,
        group="exploration",
    )
    # Whether targets count the entropy of later actions; a setting of CQL.
    entropy_in_target = True

    def regularizer(self, spec: EnvSpec) -> Any:
        """Return a further loss of the critics, or None."""
        return None


# Rows have no memory, so there are fewer settings of networks.
@dataclasses.dataclass(frozen=True)
class CQLConfig(  # pyright: ignore[reportIncompatibleVariableOverride]
    actor_critic.UncollectedSettings, SACConfig
):
    """Settings of CQL."""

    exploration: Kind = inherited(
        actor_critic.ActorCriticSettings, "exploration", default="none"
    )
    choice_entropy: float = option(0.98, actor_critic.UNUSED, least=0.98, most=0.98)
    sde_every: int = option(8, actor_critic.UNUSED, least=8, most=8)
    sde_std: float = option(0.05, actor_critic.UNUSED, least=0.05, most=0.05)
    cql_scale: float = option(
        5.0,
        "weight alpha of the conservative loss, if learned at the start; 0: as SAC",
        least=0,
    )
    cql_gap: float | None = option(
        None, "gap between values of all and of logged actions; none: alpha is fixed"
    )
    cql_samples: int = option(
        10, "actions in each row from each of three distributions", least=1, most=1000
    )
    entropy_in_target: bool = option(False, "count entropy of later actions as value")

    source: ClassVar[DefaultSource] = "table", {}

    def check(self) -> Self:
        if self.cql_gap is not None and not self.cql_scale:
            raise UserError(
                f"cql_gap is {self.cql_gap}, but cql_scale is 0, so alpha stays 0; "
                "leave cql_gap out, or set cql_scale, the first alpha, above 0"
            )
        other = self.critic.dropout or self.critic.batch_renorm or self.quantiles
        if self.cql_scale and other:
            raise UserError(
                f"critic.dropout is {self.critic.dropout}, critic.batch_renorm "
                f"{self.critic.batch_renorm} and quantiles {self.quantiles}, but CQL's "
                "loss has none of them: values of many actions would differ from those "
                "that learn; leave them out, or set --algorithm.cql_scale=0"
            )
        return super().check()

    def regularizer(self, spec: EnvSpec) -> sac_cql.Conservative | None:
        """Return the conservative loss of the critics."""
        return sac_cql.Conservative(self, spec) if self.cql_scale else None


class SAC(tf.Module):
    """SAC with twin critics and a learned temperature; an ``interfaces.Algorithm``.

    Actions are a bounded Box, whole numbers, or a Dict or Tuple of them; ``network`` is
    the actor.
    """

    def __init__(self, config: SACConfig, spec: EnvSpec, network=None):
        super().__init__()
        self.config = config = config.check()
        self._spec, self._custom = spec, user.distinct(network)
        self._of_actor, of_critics = config.seen(spec, self._custom)
        self.policy = self.make_policy()
        self._actions = Actions(self.policy)
        self._actions.check(config, spec.action_space)
        self.network = self.policy.network
        self.critics, self.targets = actor_critic.critics(
            config, of_critics, self._custom, *self._actions.sizes
        )
        start = math.log(config.start_temperature)
        self._log_temperatures = {
            kind: keras.Variable(start, dtype="float32") for kind in self._actions.kinds
        }
        self._extra = extra = config.regularizer(spec)
        self.learner = actor_critic.learner(
            config,
            self.policy,
            self.critics,
            self.targets,
            trained={"temperature": [*self._log_temperatures.values()]}
            | (extra.trained if extra else {}),
            variables=self._named("log_temperature", self._log_temperatures)
            | (extra.learned if extra else {}),
            streams=spec.num_envs,
        )
        self.compilable = self.learner.compilable

    def make_policy(self) -> SquashedNormal | Softmax | Mixed:
        config, spec, custom = self.config, self._spec, self._custom
        seen = config.observations(spec.observation_space, custom is None)
        if isinstance(spec.action_space, gs.Box):
            limits = bounds(spec)
            heads, sde = {"mean": limits.size}, config.exploration == "sde"
            if not sde:
                heads["log_std"] = limits.size
            std, every = (
                (config.sde_std, Inputs(config).sde_every) if sde else (None, None)
            )
            parts = config.network, heads, custom, std
            network = ActorNetwork(self._of_actor, *parts)
            acting = limits, config.random_steps, config.action_noise(), seen, every
            policy = SquashedNormal(network, *acting)
            policy.records = config.records_state
            return policy
        if config.exploration != "none":
            raise UserError(
                f"exploration is {config.exploration}, but the action space is "
                f"{spec.action_space}; noise is added to actions of a Box only, leave "
                "--algorithm.exploration out"
            )
        warmup = config.random_steps
        if isinstance(spec.action_space, gs.Discrete):
            check_mask(spec, int(spec.action_space.n))
            parts = config.network, custom, warmup, seen
            policy = softmax(self._of_actor, *parts)
        else:
            parts = Parts(spec.action_space)
            if parts.family.mask_size:
                check_mask(spec, parts.family.mask_size)
            else:
                refuse_mask(spec)
            own = config.network, parts.heads(), custom
            network = ActorNetwork(self._of_actor, *own)
            policy = Mixed(network, parts, warmup, seen)
        policy.records = config.records_state
        return policy

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Train on a batch of windows.

        A truncated episode bootstraps from its last state, a terminated one does not.

        - Critics: y = R + gamma^n (min_k Q'_k(s', a') - alpha ln pi(a' | s')).
        - Actor: the gradient of alpha ln pi(a | s) - min_k Q_k(s, a).
        - A learned temperature: the gradient of ln alpha (entropy - target).

        For choices, ln pi is the sum over branches of the expected ones, and each
        branch of critics has the same target, with the mean of Q' over branches. The
        actor's choices follow the values of their own branch, see ``Actions.raised``.

        The last two move in every ``policy_delay``-th update. See ``critic_values`` for
        other uses of critics.
        """
        learner, config, extra = self.learner, self.learner.inputs, self._extra
        actions = self._actions
        optimizers, alpha = learner.optimizers, self._temperatures()
        trajectory, metrics = learner.begin(trajectory, step)
        sequences = Sequences(self.config, trajectory)
        trajectory = sequences.trajectory
        batch = windows.transition(trajectory, config.n_step, config.gamma)
        mask, last = batch.mask, sequences.then(batch, self.network)
        later, apart = actions.draw(last, seeds.key(seed, "later")), None
        if not config.critic.batch_renorm:
            ended = batch._replace(next=sequences.then(batch, self.targets))
            apart = self._target(ended, later, seed)
        drawn = extra.draw(self.policy, batch, seed) if extra else ()

        def critic_loss():
            begun = batch._replace(step=sequences.now(batch, self.critics))
            outputs, target = self._outputs(begun, later, seed, apart)
            parts, gap = actions.repeated(target, mask, trajectory.weight), ()
            loss, error, q = critic_values.loss(config, outputs, *parts)
            error, q = actions.per_row(error), actions.per_row(q)
            if extra:
                more, gap = extra.loss(self.critics, batch, drawn, q)
                loss += more
            loss += networks.added_loss(self.critics)
            return loss, (loss, q, target.mean, error, gap)

        def actor_loss():
            now = sequences.now(batch, self.network)
            now = actions.draw(now, seeds.key(seed, "now"))
            step = sequences.now(batch, self.critics)
            q = critic_values.of_actor(config, self.critics, step, now.action, seed)
            q, logs = actions.raised(q, now, batch.step)
            loss = masked.mean(_cost(alpha, logs) - q, mask)
            loss += networks.added_loss(self.network)
            return loss, (loss, logs)

        def train_actor():
            (loss, logs), steps = optimizers["actor"].minimize(actor_loss)
            found = actor_critic.actor_metrics(loss, steps)
            if config.temperature is None:
                excess = {}
                for kind, log in logs.items():
                    aim = actions.target_entropy(config, kind, batch.step)
                    excess[kind] = -masked.mean(log + aim, mask)

                def temperature_loss():
                    pairs = self._log_temperatures.items()
                    loss = _sum([x.value * excess[kind] for kind, x in pairs])
                    return loss, loss

                moved = optimizers["temperature"].minimize(temperature_loss)
                found["loss/temperature"], _ = moved
            entropy = -masked.mean(_sum([*logs.values()]), mask)
            return found | {"policy/entropy": entropy}

        found, steps = optimizers["critics"].minimize(critic_loss)
        loss, q, target, error, gap = found
        metrics |= steps | (extra.step(optimizers, gap) if extra else {})
        names = *actor_critic.ACTOR_METRICS, "policy/entropy"
        if config.temperature is None:
            names = *names, "loss/temperature"
        delay = config.policy_delay
        metrics |= actor_critic.delayed(learner, delay, names, train_actor)
        learner.move_targets()
        learner.reset(seed)
        metrics |= actor_critic.noise_metrics(self.policy.action_noise, step)
        metrics |= self._named("policy/temperature", self._temperatures())
        shown = loss, q, target, error, mask, config.histograms
        metrics |= actor_critic.critic_metrics(*shown)
        return Updated(metrics, sequences.priority(error, mask))

    def _outputs(
        self,
        batch: windows.Transition,
        later: Drawn,
        seed,
        target: critic_values.Returns | None,
    ) -> tuple[tf.Tensor, critic_values.Returns]:
        """Return outputs of critics for the actions taken, and their targets."""
        config, critics = self.learner.inputs, self.critics
        unit, index = self.policy.split(batch.action)
        if target is None:
            outputs, then = critic_values.joint(
                config, critics, batch, unit, later.action, seed
            )
            target = self._target_of(batch, later, then)
        else:
            outputs = critic_values.now(config, critics, batch.step, unit, seed)
        return self._actions.taken(outputs, index), target

    def _target(
        self, batch: windows.Transition, later: Drawn, seed
    ) -> critic_values.Returns:
        """Return the targets of critics; ``seed`` as in ``critic_values.later``."""
        asked = self.targets, batch.next, later.action, seed
        outputs = critic_values.later(self.learner.inputs, *asked)
        return self._target_of(batch, later, outputs)

    def _target_of(
        self, batch: windows.Transition, later: Drawn, outputs: tf.Tensor
    ) -> critic_values.Returns:
        """Return the targets by the outputs of critics in the last states."""
        found = critic_values.returns(self.config, outputs)
        value, logs = self._actions.expected(found.values, later, batch.next)
        found = found._replace(values=value)
        if self.config.entropy_in_target:
            found = found.minus(_cost(self._temperatures(), logs))
        return found.target(batch)

    def assess(self, trajectory: Trajectory) -> Assessment | BoxAssessment:
        batch = windows.transition(trajectory, 1, self.learner.inputs.gamma)
        later = self._actions.draw(batch.next, seeds.key(0, "later"))
        target = self._target(batch, later, None).mean
        if isinstance(self.policy, Softmax):
            probability = tf.exp(self.policy.log_policy(batch.step))
            target = tf.where(batch.mask, target, float("nan"))
            q = tf.reduce_min(self.critics(batch.step), 0)
            return Assessment(q, target, probability)
        limits = bounds(self._spec)
        policy = self.policy.distribution(batch.step, *limits.flat)
        log = policy.log_prob(tf.reshape(batch.action, [-1, limits.size]))
        return actor_critic.assessment(self, batch, target, log)

    def _temperatures(self) -> dict[str, tf.Tensor]:
        """Return alpha by kind, f32 ``[]``: the setting, or what was learned."""
        fixed = self.learner.inputs.temperature
        return {
            kind: tf.exp(x.value) if fixed is None else tf.convert_to_tensor(fixed)
            for kind, x in self._log_temperatures.items()
        }

    def _named(self, name: str, by_kind: dict[str, Any]) -> dict[str, Any]:
        """Return what actions have by kind, by names; one kind has the plain name."""
        several = len(by_kind) > 1
        return {
            f"{name}_of_choices" if several and kind == CHOICES else name: x
            for kind, x in by_kind.items()
        }


def _cost(alpha: dict[str, tf.Tensor], logs: dict[str, tf.Tensor]) -> tf.Tensor:
    """Return the sum over kinds of alpha ln pi, f32 ``[N]``."""
    return _sum([alpha[kind] * log for kind, log in logs.items()])


def _sum(terms: list[tf.Tensor]) -> tf.Tensor:
    return terms[0] if len(terms) == 1 else tf.add_n(terms)
