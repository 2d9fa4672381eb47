"""Settings, learner and metrics of on-policy algorithms."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

import keras
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.algorithms.shared import alarms
from tfagents_batch.algorithms.shared.entries import EntrySettings
from tfagents_batch.algorithms.shared.normalization import NormalizationSettings
from tfagents_batch.algorithms.shared.optimization import OptimizerSettings, optimizer
from tfagents_batch.config import inherited, number, option
from tfagents_batch.graph.inputs import Inputs
from tfagents_batch.graph.training_batch import Batch
from tfagents_batch.interfaces import Distribution
from tfagents_batch.metrics import Limit, Max, Metrics
from tfagents_batch.nn import networks, normalizers, summary, user
from tfagents_batch.nn.optimizer import Rule
from tfagents_batch.nn.policies.actor_critic import ActorCriticPolicy
from tfagents_batch.ops import histograms, losses, masked, returns
from tfagents_batch.schedules import Constant, Schedule
from tfagents_batch.types import (
    VERSION,
    Accepts,
    DefaultSource,
    EnvSpec,
    Nest,
    Rollouts,
    TimeStep,
    Trajectory,
    UpdateSize,
)


@dataclasses.dataclass(frozen=True)
class OnPolicySettings(EntrySettings, OptimizerSettings):
    """Settings that all on-policy algorithms have."""

    gamma: float = number(0.99, "discount factor per step", least=0, most=1)
    optimizer_epsilon: float = inherited(
        OptimizerSettings, "optimizer_epsilon", default=1e-5
    )
    max_gradient_norm: float | None = inherited(
        OptimizerSettings, "max_gradient_norm", default=0.5
    )
    entropy_scale: Schedule = number(
        Constant(0.0), "weight of the entropy bonus (Stable-Baselines3: ent_coef)"
    )
    exploration: Literal["none", "sde"] = option(
        "none",
        "noise on actions of a Box: independent in every step (none), or sde: a "
        "function of the state",
        group="exploration",
    )
    sde_every: int = number(
        8,
        "with sde, steps until that function is another one (Stable-Baselines3: "
        "sde_sample_freq)",
        least=1,
        group="exploration",
    )
    normalize_observation: bool = inherited(
        NormalizationSettings, "normalize_observation", default=True
    )
    observation_clip: float = inherited(
        NormalizationSettings, "observation_clip", default=10.0
    )
    normalize_floor: float = option(
        normalizers.FLOOR,
        "smallest standard deviation by which observations are divided",
        above=0,
        group="normalization",
    )
    normalize_epsilon: float = option(
        0.0,
        "constant added to the variance before its square root",
        least=0,
        group="normalization",
    )
    normalize_return: normalizers.RewardKind = inherited(
        NormalizationSettings, "normalize_return", default=True
    )
    reward_clip: float = inherited(NormalizationSettings, "reward_clip", default=10.0)
    network: networks.NetworkConfig = option(
        networks.NetworkConfig(), "shape of the network"
    )

    source: ClassVar[DefaultSource] = "rollout", {}

    OF_AGENT: ClassVar[tuple[str, ...]] = (
        *("normalize_observation", "normalize_return", "actor_keys"),
        *("network.activation", "network.mean", "network.std", "network.squash"),
        *("network.min_std", "network.max_std", "network.scale_actions"),
    )

    def accepts(self) -> Accepts:
        return {"rollouts": Rollouts()}

    def update_size(self, transitions: int) -> UpdateSize:
        """Return the size of an update on everything that was collected."""
        return UpdateSize(transitions, self.network.units)


@dataclasses.dataclass(frozen=True)
class SingleStepSettings(OnPolicySettings):
    """Settings of one gradient step."""

    optimizer: Rule = option(
        "rmsprop",
        "adam, rmsprop as in PyTorch, or rmsprop_tf as in GA3C",
    )
    value_scale: float = number(
        0.5, "weight of the value loss, which is half the mean squared error", least=0
    )
    normalize_advantage: bool = option(False, "standardize the advantages of an update")
    reduction: Literal["mean", "sum"] = option(
        "mean",
        "mean over the transitions of an update, or sum, whose step grows with them",
    )

    def alarms(self, spec: EnvSpec | None = None) -> tuple[Limit, ...]:
        return (
            alarms.value_loss(self),
            alarms.entropy(self, spec),
            alarms.actions_clipped(spec),
            *alarms.small_returns(self.normalize_return),
        )


class OnPolicyLearner(tf.Module):
    """Policy, normalizers and optimizer; an ``interfaces.Learner``.

    Args:
      config, spec, network: see ``interfaces.Algorithm``.
      variables: what else a checkpoint has, by name.

    Attributes:
      inputs: the settings as inputs of a program.
      policy: policy that learns.
      network, observations: those of the policy.
      optimizer, rewards: optimizer and normalizer of rewards.
      run_only: what only the same run goes on with, nested dicts of variables.
      compilable: True if XLA makes the update faster: not with convolutions on a CPU.
    """

    def __init__(
        self, config: OnPolicySettings, spec: EnvSpec, network: Any, **variables: Any
    ):
        super().__init__()
        self.config, self._spec, self._variables = config, spec, lambda: variables
        self.run_only: dict[str, Any] = {}
        self.inputs = inputs = Inputs(config)
        self._custom = user.distinct(network)
        seen = config.seen(spec, self._custom)
        parts = (x.observation_space for x in seen)
        self._seen = tuple(parts) if config.splits else ()
        self.policy = self.make_policy()
        self.network, self.observations = self.policy.network, self.policy.observations
        self.compilable = not self.network.convolves
        weights = self.network.trainable_variables
        std = getattr(self.network, "trained_std", None)  # would decay to a std of 1
        self.optimizer = optimizer(inputs, weights, [] if std is None else [std])
        self.rewards = normalizers.RewardNormalizer(
            config.normalize_return, inputs.reward_clip, config.normalize_epsilon
        )

    def compile_parts(self, on: bool) -> None:
        """Compile the optimizer step, alone or as a part of the update."""
        self.optimizer.compiled = on

    def make_policy(self) -> ActorCriticPolicy:
        """Return a policy with variables of its own, like the one that learns."""
        spec, custom, inputs = self._spec, self._custom, Inputs(self.config)
        sde = inputs.exploration == "sde"
        network = (
            networks.actor_critic(spec, inputs.network, sde, self._seen)
            if custom is None
            else user.actor_critic(custom, spec, inputs.network, sde)
        )
        observations = normalizers.ObservationNormalizer(
            spec.observation_space,
            inputs.observation_clip,
            inputs.normalize_floor,
            inputs.normalize_epsilon,
            enabled=inputs.normalize_observation,
            integers=custom is None,  # a user's network may look them up in a table
            acting=inputs.actor_keys,
        )
        every = inputs.sde_every if sde else None
        return ActorCriticPolicy(network, observations, inputs.gamma, every)

    def named_variables(self) -> dict[str, keras.Variable]:
        """Return the variables of a checkpoint: all that updates change."""
        return {
            **self.policy.named_variables(),
            **nest.prefixed("statistics/returns", self.rewards.named_variables()),
            **nest.prefixed("learner/optimizer", self.optimizer.named_variables()),
            **nest.prefixed("learner", self._variables()),
            **nest.prefixed("run", self.run_only),
        }

    def begin(self, trajectory: Trajectory, step) -> TimeStep:
        """Prepare an update; return the steps with normalized observations.

        Acting does not use rewards, so their statistics are updated first.
        """
        self.optimizer.set_learning_rate(self.inputs.learning_rate(step))
        self.rewards.update(trajectory, self.inputs.gamma)
        observation = self.observations(trajectory.steps.observation)
        return trajectory.steps._replace(observation=observation, info={})

    def end(self, trajectory: Trajectory) -> Metrics:
        """Update the statistics of observations; return metrics of the update.

        They are last, so that acting and learning normalize a trajectory in the same
        way.
        """
        rate = self.optimizer.rule.learning_rate.value
        metrics = {"grad/learning_rate": tf.identity(rate)}
        metrics |= self.rewards.metrics(trajectory.reward, trajectory.mask)
        metrics |= self._lag(trajectory)
        observation = nest.map(lambda x: x[:-1], trajectory.steps.observation)
        self.observations.update(observation, trajectory.counted)
        return metrics

    def _lag(self, trajectory: Trajectory) -> Metrics:
        """Return the lag of the policy that acted, in updates, if it is recorded."""
        if VERSION not in trajectory.behavior:
            return {}
        mask, acted = trajectory.mask, trajectory.behavior[VERSION]
        lag = tf.cast(self.policy.version.read_value() - acted, tf.float32)
        metrics = {
            "lag/updates": masked.mean(lag, mask),
            "lag/max": Max(tf.reduce_max(masked.safe(lag, mask))),
        }
        if self.config.histograms:
            metrics["histogram/lag"] = histograms.rows(lag, mask)
        return metrics


def actions(trajectory: Trajectory) -> Nest:
    """Return the actions without NaN where they are ignored.

    There it would reach the gradient, because 0 * NaN is NaN.
    """

    def safe(x):
        return masked.safe(x, trajectory.mask) if x.dtype.is_floating else x

    return nest.map(safe, trajectory.action)


def value_metrics(value: tf.Tensor, target: tf.Tensor, mask: tf.Tensor) -> Metrics:
    """Return metrics of values before an update, f32 ``[T, B]``, and their targets."""
    return {
        "value/explained_variance": losses.explained_variance(value, target, mask),
        "value/mean": masked.mean(value, mask),
    }


def first_rows(policy: Distribution) -> Distribution:
    """Return the policy of the T states with actions, of ``T + 1`` states."""
    return policy.with_params(nest.map(lambda x: x[:-1], policy.params))


def finish(
    learner: OnPolicyLearner,  # with the weights after the step
    trajectory: Trajectory,  # [T, B]
    steps: TimeStep,  # of the trajectory, with normalized observations
    policy: Distribution,  # before the step, of the T states with actions
    log_prob: tf.Tensor,  # f32 [T, B], ln pi of the actions
    value: tf.Tensor,  # f32 [T, B], before the step
    target: tf.Tensor,  # f32 [T, B], of the value
) -> Metrics:
    """Finish an update of one gradient step; return further metrics of it.

    If an older policy may have acted, they have the ratios pi / mu of both.
    """
    metrics, rows = {}, learner.config.histograms
    mask, behavior = trajectory.mask, trajectory.behavior
    if VERSION in behavior:
        log_ratio = masked.safe(log_prob - behavior["log_prob"], mask)
        ratio = tf.exp(tf.minimum(log_ratio, returns.MOST_LOG_RATIO))
        metrics["lag/ratio"] = masked.mean(ratio, mask)
        above = tf.cast(ratio > 1, tf.float32)
        metrics["lag/ratio_above_1"] = masked.mean(above, mask)
        if rows:
            metrics["histogram/ratio"] = histograms.rows(ratio, mask)
    if rows:
        first, acted = nest.map(lambda x: x[:-1], steps), behavior["log_prob"]
        data = actions(trajectory), acted, behavior["policy"], value, target
        batch = Batch(first, *data)
        acted = policy.with_params(behavior["policy"])
        parts = learner.optimizer, learner.observations
        metrics |= summary.update_histograms(trajectory, batch, acted, *parts)
    return metrics | learner.end(trajectory)
