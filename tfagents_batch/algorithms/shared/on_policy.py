"""What all on-policy algorithms have: settings, policy and normalizers."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import keras
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.algorithms.shared import optimization
from tfagents_batch.config import inherited, number, option
from tfagents_batch.graph.inputs import Inputs
from tfagents_batch.metrics import Max, Metrics
from tfagents_batch.nn import moments, networks, normalizers, user
from tfagents_batch.nn.optimizer import Optimizer
from tfagents_batch.nn.policies.actor_critic import ActorCriticPolicy
from tfagents_batch.ops import histograms, losses, masked
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
class Settings(optimization.Settings):
    """Settings that all on-policy algorithms have."""

    gamma: float = number(0.99, "discount factor per step", least=0, most=1)
    optimizer_epsilon: float = inherited(
        optimization.Settings, "optimizer_epsilon", default=1e-5
    )
    max_gradient_norm: float | None = number(
        0.5,
        "largest global norm of the gradient; none: any (Stable-Baselines3: "
        "max_grad_norm)",
        above=0,
    )
    entropy_scale: Schedule = number(
        Constant(0.0), "weight of the entropy bonus (Stable-Baselines3: ent_coef)"
    )
    normalize_observation: bool = option(
        True,
        "normalize observations by a running mean and standard deviation",
        group="normalization",
    )
    observation_clip: float = number(
        10.0,
        "largest magnitude of a normalized observation",
        above=0,
        group="normalization",
    )
    normalize_floor: float = option(
        moments.FLOOR,
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
    normalize_return: normalizers.RewardKind = option(
        True,
        "divide rewards by the std of returns (true) or of rewards (per_step), then "
        "clip them; clip: only clip them; false: leave them",
        group="normalization",
    )
    reward_clip: float = number(
        10.0,
        "largest magnitude of a reward, unless normalize_return is false",
        above=0,
        group="normalization",
    )
    histograms: bool = option(
        True,
        "log histograms of actions, values, KL, weights, gradients and statistics",
    )
    network: networks.Config = option(networks.Config(), "shape of the network")

    source: ClassVar[DefaultSource] = "rollout", {}

    # Settings that change the meaning of saved weights and statistics. Settings that
    # change shapes need not be listed here. See ``training.warm_start``.
    OF_AGENT: ClassVar[tuple[str, ...]] = (
        *("normalize_observation", "normalize_return"),
        *("network.activation", "network.mean", "network.std", "network.squash"),
        *("network.min_std", "network.max_std", "network.scale_actions"),
    )

    def accepts(self) -> Accepts:
        """Return that it learns from rollouts."""
        return {"rollouts": Rollouts()}

    def update_size(self, collected: int) -> UpdateSize:
        """Return the size of an update on everything that was collected."""
        return UpdateSize(collected, self.network.hidden or networks.HIDDEN)


class Learner(tf.Module):
    """Policy, normalizers and optimizer of an on-policy algorithm, and its checkpoint.

    Args:
      config: checked settings.
      spec: spec of the environments.
      network: the user's ``keras.Model`` or builder, see ``nn.user``; None uses the
        built-in network.

    Attributes:
      inputs: the settings as inputs of a program.
      policy: policy that learns.
      network, observations: those of the policy.
      optimizer, rewards: optimizer and normalizer of rewards.
      compilable: True if XLA makes the update faster: not with convolutions on a CPU.
    """

    def __init__(self, config: Settings, spec: EnvSpec, network: Any):
        super().__init__()
        self.config, self._spec = config, spec
        self.inputs = inputs = Inputs(config)
        self._given = user.distinct(network)
        self.policy = self.make_policy()
        self.network, self.observations = self.policy.network, self.policy.observations
        self.compilable = not self.network.convolves
        weights = self.network.trainable_variables
        self.optimizer = Optimizer(
            *(
                weights,
                inputs.max_gradient_norm,
                inputs.optimizer_epsilon,
                config.optimizer,
            )
        )
        self.rewards = normalizers.RewardNormalizer(
            config.normalize_return, inputs.reward_clip, config.normalize_epsilon
        )

    def compile_parts(self, on: bool) -> None:
        """Compile the optimizer step, alone or as a part of the update."""
        self.optimizer.compiled = on

    def make_policy(self) -> ActorCriticPolicy:
        """Return a policy with variables of its own, like the one that learns."""
        spec, given, inputs = self._spec, self._given, Inputs(self.config)
        network = (
            networks.actor_critic(spec, inputs.network)
            if given is None
            else user.actor_critic(given, spec, inputs.network)
        )
        observations = normalizers.ObservationNormalizer(
            spec.observation_space,
            inputs.observation_clip,
            inputs.normalize_floor,
            inputs.normalize_epsilon,
            enabled=inputs.normalize_observation,
            integers=given is None,  # a user's network may look them up in a table
        )
        return ActorCriticPolicy(network, observations, inputs.gamma)

    def named_variables(self) -> dict[str, keras.Variable]:
        """Return the variables of a checkpoint: all that updates change."""
        return {
            **self.policy.named_variables(),
            **nest.prefixed("statistics/returns", self.rewards.named_variables()),
            **nest.prefixed("learner/optimizer", self.optimizer.named_variables()),
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
        found = {
            "lag/updates": masked.mean(lag, mask),
            "lag/max": Max(tf.reduce_max(masked.safe(lag, mask))),
        }
        if self.config.histograms:
            found["histogram/lag"] = histograms.rows(lag, mask)
        return found


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
