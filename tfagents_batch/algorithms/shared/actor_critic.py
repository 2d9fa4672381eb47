"""Settings and metrics that all algorithms with an actor and critics have."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import keras
import tensorflow as tf

from tfagents_batch.algorithms.shared import alarms
from tfagents_batch.algorithms.shared.entries import EntrySettings
from tfagents_batch.algorithms.shared.off_policy import OffPolicySettings
from tfagents_batch.algorithms.shared.optimization import NetworkLearner
from tfagents_batch.config import number, option
from tfagents_batch.errors import UserError
from tfagents_batch.graph.inputs import InputSchedule
from tfagents_batch.metrics import Limit, Mean, Metrics
from tfagents_batch.nn import actor, networks
from tfagents_batch.nn.critics import Critics, OnlineCriticConfig
from tfagents_batch.nn.policies.box import ActionNoise
from tfagents_batch.ops import histograms, masked
from tfagents_batch.ops.windows import Transition
from tfagents_batch.schedules import Constant, Schedule
from tfagents_batch.types import BoxAssessment, EnvSpec, Nest

UNUSED = "not used: nothing is collected"
# Metrics of an update of the actor.
ACTOR_METRICS = ("loss/actor", "grad/actor_norm", "grad/actor_skipped")


@dataclasses.dataclass(frozen=True)
class ActorCriticSettings(EntrySettings, OffPolicySettings):
    """Settings that all algorithms with an actor and critics have."""

    num_critics: int = option(
        2,
        "number of critics; usually, targets are their minimum (Stable-Baselines3: "
        "n_critics)",
        least=1,
        most=10,
        group="critics",
    )
    critics_in_target: int | None = option(
        None,
        "critics drawn for each target; none: all (REDQ: 2 of 10)",
        least=1,
        group="critics",
    )
    quantiles: int = option(
        0,
        "quantiles of returns of each critic (TQC: 25); 0: their mean",
        least=0,
        most=200,
        group="critics",
    )
    dropped: int = option(
        2,
        "largest quantiles of each critic that targets leave out (TQC)",
        least=0,
        group="critics",
    )
    actor_value: Literal["min", "mean", "first"] = option(
        "min",
        "what the actor raises: the least, mean or first critic",
        group="critics",
    )
    policy_delay: int = option(
        1,
        "updates of the critics per update of the actor",
        least=1,
        group="update",
    )
    actor_learning_rate: Schedule | None = number(
        None, "learning rate of the actor; none: learning_rate", least=0
    )
    exploration: Literal["none", "gaussian", "ou", "sde"] = option(
        "none",
        "noise on actions: gaussian, or ou: Ornstein-Uhlenbeck, correlated",
        group="exploration",
    )
    noise: Schedule = number(
        Constant(0.1),
        "scale of the noise, in units of half an action's range",
        least=0,
        group="exploration",
    )
    network: actor.ActorConfig = option(actor.ActorConfig(), "shape of the networks")
    critic: OnlineCriticConfig = option(OnlineCriticConfig(), "settings of the critics")

    OF_AGENT: ClassVar[tuple[str, ...]] = (
        *OffPolicySettings.WITH_CRITICS,
        "critic.batch_renorm",
        "quantiles",
        "actor_keys",
        *OffPolicySettings.OF_NORMALIZATION,
    )

    def check(self) -> Self:
        checked = super().check()
        few, count = checked.critics_in_target, checked.num_critics
        if few is not None and checked.quantiles:
            raise UserError(
                f"critics_in_target is {few}, but with quantiles targets use the "
                "quantiles of all critics; leave one of the two out"
            )
        if few is not None and few > count:
            raise UserError(
                f"critics_in_target is {few}, but there are {count} critics; raise "
                "--algorithm.num_critics, as to 10 for REDQ"
            )
        if checked.quantiles and checked.dropped >= checked.quantiles:
            raise UserError(
                f"dropped is {checked.dropped}, but a critic has {checked.quantiles} "
                "quantiles, so nothing is left of a target; lower --algorithm.dropped"
            )
        if checked.network.core != "none" and checked.critic.batch_renorm:
            raise UserError(
                f"critic.batch_renorm is true, but network.core is "
                f"{checked.network.core}: states of a window are too alike for "
                "statistics of a batch; leave one of the two out"
            )
        return checked

    def action_noise(self) -> ActionNoise | None:
        """Return the noise that is added to actions of a Box."""
        if self.exploration in ("none", "sde"):  # sde is a part of the policy
            return None
        return ActionNoise(self.exploration, InputSchedule(self.begun(self.noise)))

    def alarms(self, spec: EnvSpec | None = None) -> tuple[Limit, ...]:
        if "windows" not in self.accepts():  # rows have no episodes
            return (alarms.large_critics(self.gamma),)
        more = "; fewer --algorithm.train_updates"
        values = alarms.large_critics(self.gamma, more, self.largest_reward(100))
        return (values, *alarms.small_returns(self.normalize_return))


@dataclasses.dataclass(frozen=True)
class UncollectedSettings:
    """Settings that algorithms of logged rows alone share with those that collect.

    It comes before the settings of the algorithm that collects among the bases.
    """

    warmup_steps: int = option(0, UNUSED, least=0, most=0)
    warmup: Literal["auto"] = option("auto", UNUSED)
    reset_every: int | None = option(None, UNUSED, least=1)
    normalize_observation: Literal[False] = option(False, UNUSED)
    normalize_return: Literal[False] = option(False, UNUSED)
    observation_clip: float = option(10.0, UNUSED, least=10, most=10)
    reward_clip: float = option(10.0, UNUSED, least=10, most=10)
    sequence_length: int | None = option(None, UNUSED, least=1)
    burn_in: int | None = option(None, UNUSED, least=0)
    stored_state: Literal[True] = option(True, UNUSED)
    network: actor.RowActorConfig = option(
        actor.RowActorConfig(), "shape of the networks"
    )


def critics(
    config: Any, spec: EnvSpec, network: Any, inputs: int = 0, outputs: int = 0
) -> tuple[Critics, Critics]:
    """Return critics and their target networks; for the sizes see ``Critics``."""
    sizes = config.num_critics, inputs, outputs, network, config.critic
    quantiles = getattr(config, "quantiles", 0)
    learned = Critics(spec, config.network, *sizes, quantiles)
    if config.critic.batch_renorm:  # CrossQ has no target networks
        return learned, learned
    return learned, Critics(spec, config.network, *sizes, quantiles)


def learner(
    config: Any,
    policy: Any,
    critics: Critics,
    targets: Critics,
    target_actor: actor.ActorNetwork | None = None,
    trained: Mapping[str, Sequence[keras.Variable]] | None = None,
    variables: Mapping[str, Any] | None = None,
    delay: int = 1,
    streams: int = 0,
) -> NetworkLearner:
    """Return optimizers and target networks of an actor and critics.

    The last four arguments are further ones, see ``NetworkLearner``.
    """
    pairs: list[tuple[Any, Any]] = [(None, critics)]
    learned = {"critics": networks.named_variables(critics)}
    if targets is not critics:
        pairs = [(targets, critics)]
        learned["targets"] = networks.named_variables(targets)
    if target_actor is not None:
        pairs.append((target_actor, policy.network))
        learned["target_actor"] = networks.named_variables(target_actor)
    weights = {
        "critics": critics.trainable_variables,
        "actor": policy.network.trainable_variables,
    }
    weights, learned = weights | dict(trained or {}), learned | dict(variables or {})
    return NetworkLearner(config, policy, weights, pairs, learned, delay, streams)


def noise_metrics(noise: ActionNoise | None, step) -> Metrics:
    """Return the scale of the noise on actions; nothing without noise."""
    return {} if noise is None else {"policy/noise": noise.scale(step)}


def critic_metrics(
    loss: tf.Tensor,  # f32 []
    q: tf.Tensor,  # f32 [K, N], Q_k of the actions taken
    target: tf.Tensor,  # f32 [N]
    error: tf.Tensor,  # f32 [N], absolute errors, the mean over critics
    mask: tf.Tensor,  # bool [N], rows that count
    rows: bool,  # whether there are histograms of the values and targets
) -> Metrics:
    """Return metrics of an update of critics."""
    metrics = {
        "loss/critics": loss,
        "value/q": masked.mean(tf.reduce_mean(q, 0), mask),
        "value/target": masked.mean(target, mask),
        "value/td_error": masked.mean(error, mask),
    }
    if rows:
        metrics["histogram/q"] = histograms.rows(q[0], mask)
        metrics["histogram/target"] = histograms.rows(target, mask)
    return metrics


def actor_metrics(loss: tf.Tensor, steps: Metrics) -> Metrics:
    """Return metrics of an update of the actor: its loss and its optimizer's step."""
    norm, skipped = steps["grad/norm"], steps["grad/skipped"]
    return dict(zip(ACTOR_METRICS, (loss, norm, skipped), strict=True))


def delayed(
    learner: NetworkLearner, every: int, names: Sequence[str], train: Callable
) -> Metrics:
    """Train in every ``every``-th update; return metrics, means over those updates.

    ``train`` returns metrics of these names, f32 ``[]`` each.
    """
    if every == 1:
        return train()
    due = (learner.updates + 1) % every == 0
    shown = tf.cond(due, train, lambda: dict.fromkeys(names, tf.zeros([])))
    trained = tf.cast(due, tf.float32)
    return {name: Mean(x, trained) for name, x in shown.items()}


def assessment(
    agent: Any, batch: Transition, target: tf.Tensor, log_density: Nest = ()
) -> BoxAssessment:
    """Return the assessment of rows by critics, the smallest of which counts.

    ``target`` and ``log_density``, f32 ``[N]`` each, are of the logged actions.
    """
    action = agent.policy.bounds.unit(batch.action)
    q = tf.reduce_min(agent.critics(batch.step, action), 0)
    return BoxAssessment(q, tf.where(batch.mask, target, float("nan")), log_density)
