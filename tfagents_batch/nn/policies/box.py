"""Policies of bounded Box actions: stochastic and deterministic ones.

Those of SAC and TD3 take uniform random actions during the warm-up, and may add noise
to actions.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.errors import UserError
from tfagents_batch.graph import arrays
from tfagents_batch.nn.actor import ActorNetwork, Bounds, RowActorConfig, bounds
from tfagents_batch.nn.layers import state_noise
from tfagents_batch.nn.normalizers import ObservationNormalizer
from tfagents_batch.nn.policies.base import NetworkPolicy
from tfagents_batch.ops.gaussian import (
    DiagNormal,
    TanhNormal,
    log_upper_tail,
)
from tfagents_batch.schedules import Schedule
from tfagents_batch.types import Decision, EnvSpec, Nest, TimeStep

_LOG_STD = (-20.0, 2.0)  # bounds of a log standard deviation, as in Haarnoja et al.
_MEAN = 2.0  # largest mean before tanh with gSDE, as in Stable-Baselines3
_LOG_STD_OF_ROWS = (-5.0, 2.0)  # densities of repeated actions would grow without end
Kind = Literal["none", "gaussian", "ou"]
# Share of a step's noise in the next one; theta 0.15 of Lillicrap et al. 2016.
_KEPT = {"gaussian": 0.0, "ou": 1 - 0.15}


class ActionNoise(tf.Module):
    """Noise x <- kept x + scale N(0, 1) on actions, which are scaled to [-1, 1].

    "gaussian" is independent normal noise. "ou" is Ornstein-Uhlenbeck noise: it is
    correlated in time and starts at 0 in every episode (Lillicrap et al. 2016,
    arXiv:1509.02971, section 7). The scale is in units of half the range of an action.
    """

    def __init__(self, kind: Kind, scale: Schedule):
        super().__init__()
        self.scale, self._kept = scale, _KEPT[kind]

    def initial_state(self, batch: int | tf.Tensor, size: int) -> Nest:
        """Return the state before the first step, for ``[batch, size]`` actions."""
        return arrays.zeros([batch, size]) if self._kept else ()

    def distribution(
        self, action: tf.Tensor, timestep: TimeStep, state: Nest, step
    ) -> DiagNormal:
        """Return the distribution of noisy actions before they are clipped, ``[N, A]``.

        ``action`` has no noise; ``state`` is that of the noise.
        """
        if self._kept:
            before = tf.where(timestep.first[:, tf.newaxis], 0.0, state)
            action = action + self._kept * before
        return DiagNormal(action, self.scale(step), event_ndims=0)

    def next_state(self, noise: tf.Tensor) -> Nest:
        """Return the state after the noise of a step, f32 ``[N, A]``."""
        return noise if self._kept else ()


class BoxNoise(NamedTuple):
    """Random numbers of an action, f32 ``[..., A]`` each."""

    # normal, of a sampled action; of its noise, if none is sampled; or with gSDE, key
    # of a matrix, int32 [..., 2]
    action: tf.Tensor
    noise: Nest  # normal, of the noise that is added to a sampled action, or ()
    uniform: tf.Tensor  # in [-1, 1], a random action


class BoxPolicy(NetworkPolicy):
    """Base of the policies of this module; see ``interfaces.Policy``.

    They define ``_log_density`` for steps after the warm-up, with actions ``[N, A]``.

    Args:
      network: actor.
      bounds: bounds of the actions.
      warmup: environment steps with random actions only, at the start of a run.
      noise: noise that is added to actions; None for none.
      observations: see ``NetworkPolicy``.
    """

    def __init__(
        self,
        network: ActorNetwork,
        bounds: Bounds,
        warmup: int = 0,
        noise: ActionNoise | None = None,
        observations: ObservationNormalizer | None = None,
    ):
        super().__init__(network, observations)
        self.bounds, self._warmup = bounds, warmup
        self.action_noise = noise

    def own_state(self, batch: int | tf.Tensor) -> Nest:
        if self.action_noise is None:
            return ()
        return self.action_noise.initial_state(batch, self.bounds.size)

    def noise(self, shape, seed) -> BoxNoise:
        shape = [*shape, self.bounds.size]
        return BoxNoise(
            seeds.normal(shape, seeds.key(seed, "action")),
            (),
            2 * seeds.uniform(shape, seeds.key(seed, "explore")) - 1,
        )

    def decide(
        self, timestep: TimeStep, state: Nest, step, noise: tf.Tensor | None = None
    ) -> Decision:
        if noise is None:
            action, _, after = self.act(timestep, state, (), step, False)
            return Decision(action, after, {})
        step = tf.maximum(step, self._warmup)  # never a random action
        numbers = BoxNoise(noise, (), tf.zeros_like(noise))
        action, _, after = self.act(timestep, state, numbers, step, True)
        log = self.log_density(timestep, state, action, step)
        return Decision(action, after, {}, None, log)

    def log_density(
        self, timestep: TimeStep, state: Nest, action: tf.Tensor, step
    ) -> tf.Tensor:
        low, high = self.bounds.flat
        action = tf.reshape(action, [-1, self.bounds.size])
        log = self._log_density(timestep, state, action, step)
        uniform = tf.constant(-np.sum(np.log(np.float64(high) - low)), tf.float32)
        log = tf.where(step < self._warmup, uniform, log)
        outside = tf.reduce_any((action < low) | (action > high), -1)
        return tf.where(outside, -math.inf, log)

    def _explore(
        self,
        unit: tf.Tensor,
        timestep: TimeStep,
        state: Nest,
        normal: tf.Tensor,
        uniform: tf.Tensor,
        step,
    ) -> tuple[tf.Tensor, Nest]:
        """Return the action of a training step, and the next state.

        ``unit``, f32 ``[N, A]``, is the action in [-1, 1]; ``normal`` and ``uniform``
        are the random numbers of the noise and of the warm-up.
        """
        if self.action_noise is not None:
            policy = self.action_noise.distribution(unit, timestep, state, step)
            noisy = policy.sample(normal)
            state = self.action_noise.next_state(noisy - unit)
            unit = tf.clip_by_value(noisy, -1.0, 1.0)
        unit = tf.where(step < self._warmup, uniform, unit)
        return self.bounds.action(unit), state


class SquashedNormal(BoxPolicy):
    """Normal distribution, squashed into the bounds by tanh (SAC).

    The actor's outputs are ``mean`` and ``log_std``, A each. If noise is a function of
    the state (gSDE), the outputs are ``mean``, ``std`` and ``features``, the acting
    state is the noise's matrix, and densities are those over all matrices.

    Args:
      network, bounds, warmup, noise, observations: see ``BoxPolicy``.
      sde_every: steps for which a matrix is kept; None for a network without gSDE.
    """

    def __init__(
        self,
        network: ActorNetwork,
        bounds: Bounds,
        warmup: int = 0,
        noise: ActionNoise | None = None,
        observations: ObservationNormalizer | None = None,
        sde_every: int | tf.Variable | None = None,
    ):
        super().__init__(network, bounds, warmup, noise, observations)
        self._sde_every, self.branches = sde_every, None

    def own_state(self, batch: int | tf.Tensor) -> Nest:
        if self._sde_every is None:
            return super().own_state(batch)
        return state_noise.initial_state(batch, self.network.state_noise.kernel)

    def memory(self, batch: int | tf.Tensor, explore: bool) -> Nest:
        """Return no matrix with gSDE: every decision is drawn over all matrices."""
        return self._state(batch, explore and self._sde_every is None)

    def kinds(self, timestep: TimeStep) -> tuple[TanhNormal, None]:
        """Return the distribution of numbers in [-1, 1]; there are no choices."""
        return self.distribution(timestep), None

    def split(self, action: tf.Tensor) -> tuple[tf.Tensor, None]:
        """Return the numbers of actions in [-1, 1], f32 ``[N, A]``; no choices."""
        return self.bounds.unit(action), None

    def distribution(
        self,
        timestep: TimeStep,
        low: np.ndarray | float = -1.0,
        high: np.ndarray | float = 1.0,
    ) -> TanhNormal:
        """Return the distribution of actions scaled to [low, high], ``[N, A]``.

        Observations are normalized already.
        """
        return self._of(self.network(timestep)[0], low, high)

    def _of(self, outputs: dict[str, tf.Tensor], low=-1.0, high=1.0) -> TanhNormal:
        """Return the distribution for outputs of the network."""
        if self._sde_every is not None:
            mean = tf.clip_by_value(outputs["mean"], -_MEAN, _MEAN)
            return TanhNormal(mean, outputs["std"], low, high)
        return TanhNormal(outputs["mean"], squashed_std(outputs["log_std"]), low, high)

    def noise(self, shape, seed) -> BoxNoise:
        numbers = super().noise(shape, seed)
        if self._sde_every is not None:
            return numbers._replace(action=state_noise.keys(shape, seed))
        if self.action_noise is None:
            return numbers
        normal = seeds.normal([*shape, self.bounds.size], seeds.key(seed, "noise"))
        return numbers._replace(noise=normal)

    def act(
        self, timestep: TimeStep, state: Nest, noise: BoxNoise, step, explore: bool
    ):
        """Sample actions, or take the squashed means."""
        before, own = self.parts(state)
        outputs, after = self.network(self.seen(timestep), before)
        policy, behavior = self._of(outputs), self.recorded(before)
        if not explore:
            action = self.bounds.action(policy.mode())
            return action, behavior, self.joined(after, own)
        normal = noise.action
        if self._sde_every is not None:
            matrix, own = state_noise.step(own, normal, self._sde_every)
            normal = self.network.state_noise.normal(outputs["features"], matrix)
        unit = policy.sample(normal)
        numbers = noise.noise, noise.uniform
        action, own = self._explore(unit, timestep, own, *numbers, step)
        return action, behavior, self.joined(after, own)

    def decide(
        self, timestep: TimeStep, state: Nest, step, noise: tf.Tensor | None = None
    ) -> Decision:
        if noise is None:
            return super().decide(timestep, state, step)
        self._check_density()
        before, own = self.parts(state)
        outputs, after = self.network(self.seen(timestep), before)
        policy = self._of(outputs, *self.bounds.flat)
        # Without the inverse of tanh, which not every format has.
        action, log = policy.sample_with_log_prob(noise)
        action = tf.reshape(action, [-1, *self.bounds.low.shape])
        return Decision(action, self.joined(after, own), {}, None, log)

    def _log_density(self, timestep: TimeStep, state: Nest, action, step) -> tf.Tensor:
        self._check_density()
        outputs, _ = self.network(self.seen(timestep), self.parts(state)[0])
        return self._of(outputs, *self.bounds.flat).log_prob(action)

    def _check_density(self) -> None:
        if self.action_noise is not None:
            raise UserError(
                "the log density of actions is not available with noise: the sum of a "
                "squashed action and noise has no closed form; set "
                "--algorithm.exploration=none"
            )


def squashed_std(log_std: tf.Tensor) -> tf.Tensor:
    """Return standard deviations before tanh, of the output of an actor."""
    return tf.exp(tf.clip_by_value(log_std, *_LOG_STD))


class Deterministic(BoxPolicy):
    """Deterministic actions with added noise (DDPG, TD3).

    The actor's output is ``action``; tanh squashes it into the bounds.
    """

    def unit(
        self, timestep: TimeStep, network: ActorNetwork | None = None
    ) -> tf.Tensor:
        """Return actions of an actor without noise, scaled to [-1, 1], ``[N, A]``.

        Observations are normalized already.
        """
        return tf.tanh((network or self.network)(timestep)[0]["action"])

    def act(
        self, timestep: TimeStep, state: Nest, noise: BoxNoise, step, explore: bool
    ):
        """Return the actor's actions, with noise if ``explore``."""
        before, own = self.parts(state)
        outputs, after = self.network(self.seen(timestep), before)
        unit, behavior = tf.tanh(outputs["action"]), self.recorded(before)
        if not explore:
            return self.bounds.action(unit), behavior, self.joined(after, own)
        numbers = noise.action, noise.uniform  # nothing else is drawn at random
        action, own = self._explore(unit, timestep, own, *numbers, step)
        return action, behavior, self.joined(after, own)

    def _log_density(self, timestep: TimeStep, state: Nest, action, step) -> tf.Tensor:
        if self.action_noise is None or str(self.action_noise.scale) == "0":
            raise UserError(
                "the log density of actions is not available without noise: an action "
                "has a probability of 1 and no density; set --algorithm.exploration, "
                "and --algorithm.noise above 0"
            )
        before, own = self.parts(state)
        unit = tf.tanh(self.network(self.seen(timestep), before)[0]["action"])
        policy = self.action_noise.distribution(unit, timestep, own, step)
        return _clipped(policy, action, self.bounds)


class ClippedNormal(BoxPolicy):
    """Normal distribution around a squashed mean, clipped to the bounds (IQL, CRR, BC).

    The actor's outputs are ``action``, which tanh squashes to the mean, and
    ``log_std``, A each. Unlike a squashed normal it has densities that are moderate for
    logged actions at a bound.
    """

    def distribution(self, timestep: TimeStep) -> DiagNormal:
        """Return the distribution of unclipped actions in halves of their range."""
        outputs, _ = self.network(timestep)
        log_std = tf.clip_by_value(outputs["log_std"], *_LOG_STD_OF_ROWS)
        return DiagNormal(tf.tanh(outputs["action"]), tf.exp(log_std))

    def act(
        self, timestep: TimeStep, state: Nest, noise: BoxNoise, step, explore: bool
    ):
        """Sample actions and clip them, or take the means."""
        policy = self.distribution(timestep)
        unit = policy.sample(noise.action) if explore else policy.mode()
        return self.bounds.action(tf.clip_by_value(unit, -1.0, 1.0)), {}, state

    def density_of(self, timestep: TimeStep, action: tf.Tensor) -> tf.Tensor:
        """Return the log density of actions, before they are clipped, f32 ``[N]``."""
        low, high = self.bounds.flat
        log = self.distribution(timestep).log_prob(self.bounds.unit(action))
        return log - float(np.sum(np.log(high / 2 - low / 2)))

    def _log_density(self, timestep: TimeStep, state: Nest, action, step) -> tf.Tensor:
        policy = self.distribution(timestep)
        numbers = DiagNormal(policy.mean, policy.std, event_ndims=0)
        return _clipped(numbers, action, self.bounds)


def clipped_normal(
    spec: EnvSpec, config: RowActorConfig, network: Any
) -> ClippedNormal:
    """Return a policy with variables of its own; ``network`` is the user's, or None."""
    limits = bounds(spec)
    heads = {"action": limits.size, "log_std": limits.size}
    return ClippedNormal(ActorNetwork(spec, config, heads, network), limits)


def _clipped(policy: DiagNormal, action: tf.Tensor, bounds: Bounds) -> tf.Tensor:
    """Return the log density of clipped actions, f32 ``[N]``.

    At a bound it is the log of the probability of numbers that are clipped to it.
    ``policy`` is of each number in units of half its range, before it is clipped.
    """
    low, high = bounds.flat
    log = policy.log_prob(bounds.unit(action)) - np.log(high / 2 - low / 2)
    below = log_upper_tail((policy.mean + 1) / policy.std)
    above = log_upper_tail((1 - policy.mean) / policy.std)
    log = tf.where(action <= low, below, tf.where(action >= high, above, log))
    return tf.reduce_sum(tf.where(policy.std > 0, log, math.nan), -1)
