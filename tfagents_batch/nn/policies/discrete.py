"""Policies of whole numbers: softmax of logits, and epsilon-greedy of values."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import gymnasium
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import nest, seeds
from tfagents_batch.errors import UserError
from tfagents_batch.graph import arrays
from tfagents_batch.nn import networks
from tfagents_batch.nn.actor import ActorNetwork, RowActorConfig
from tfagents_batch.nn.normalizers import ObservationNormalizer
from tfagents_batch.nn.policies.base import NetworkPolicy
from tfagents_batch.nn.q_network import QNetwork
from tfagents_batch.ops import branches, distributions, td
from tfagents_batch.ops.branches import Branches, best
from tfagents_batch.ops.categorical import Categorical, gumbel_noise
from tfagents_batch.schedules import Schedule
from tfagents_batch.types import Decision, EnvSpec, Nest, TimeStep


class Softmax(NetworkPolicy):
    """Draws one of ``size`` Discrete actions from the softmax of an actor's ``logits``.

    During the warm-up, every valid action is equally likely.

    Args:
      network: actor.
      space: space of the actions.
      warmup: environment steps with random actions only, at the start of a run.
      observations: see ``NetworkPolicy``.
    """

    action_noise = None  # as of policies of a Box
    bounds: Any = None

    def __init__(
        self,
        network: ActorNetwork,
        space: gs.Discrete,
        warmup: int = 0,
        observations: ObservationNormalizer | None = None,
    ):
        super().__init__(network, observations)
        self._start, self._warmup, self.size = int(space.start), warmup, int(space.n)
        self.branches = branches.of(space)

    def index(self, action: tf.Tensor) -> tf.Tensor:
        """Return the numbers of actions, from 0."""
        return action - self._start

    def split(self, action: tf.Tensor) -> tuple[None, tf.Tensor]:
        """Return the choices of actions, int32 ``[N]``; there are no other numbers."""
        return None, self.index(action)

    def kinds(self, timestep: TimeStep) -> tuple[None, tf.Tensor]:
        """Return ln pi of the choices, see ``log_policy``; there are no numbers."""
        return None, self.log_policy(timestep)

    def valid(self, timestep: TimeStep) -> tf.Tensor | None:
        """Return which actions are valid, ``[N, A]``; None if all are."""
        return networks.split_mask(timestep.observation)[1]

    def noise(self, shape, seed) -> tf.Tensor:
        return gumbel_noise([*shape, self.size], seed)

    def act(self, timestep: TimeStep, state: Nest, noise, step, explore: bool):
        """Draw actions, or take the most probable ones."""
        before, own = self.parts(state)
        warm = step < self._warmup if explore else None
        policy, after = self._distribution(timestep, before, warm)
        action = policy.sample(noise) if explore else policy.mode()
        return action, self.recorded(before), self.joined(after, own)

    def probabilities(self, timestep: TimeStep, state: Nest, step) -> tf.Tensor:
        before, warm = self.parts(state)[0], step < self._warmup
        return self._distribution(timestep, before, warm)[0].probabilities()

    def decide(
        self, timestep: TimeStep, state: Nest, step, noise: tf.Tensor | None = None
    ) -> Decision:
        before, own = self.parts(state)
        policy, after = self._distribution(timestep, before)
        return Decision(policy.mode(), self.joined(after, own), {}, policy)

    def log_policy(self, timestep: TimeStep) -> tf.Tensor:
        """Return ln pi(a | s) of all actions, f32 ``[N, A]``, without the warm-up.

        Observations are normalized already.
        """
        return log_policy(self.network, timestep)

    def _distribution(
        self, timestep: TimeStep, state: Nest, warm=None
    ) -> tuple[Categorical, Nest]:
        """Return the policy, and the encoder's next state."""
        _, mask = networks.split_mask(timestep.observation)
        outputs, state = self.network(self.seen(timestep), state)
        logits = outputs["logits"]
        if warm is not None:
            logits = tf.where(warm, 0.0, logits)
        return Categorical(logits, self._start, mask), state


def softmax(
    spec: EnvSpec,
    config: RowActorConfig,
    network: Any,
    warmup: int = 0,
    observations: ObservationNormalizer | None = None,
) -> Softmax:
    """Return a policy with variables of its own; ``network`` is the user's, or None."""
    space = cast(gs.Discrete, spec.action_space)
    actor = ActorNetwork(spec, config, {"logits": int(space.n)}, network)
    return Softmax(actor, space, warmup, observations)


def log_policy(actor: ActorNetwork, timestep: TimeStep) -> tf.Tensor:
    """Return ln pi(a | s) of all actions, f32 ``[N, A]``; tiny for invalid ones."""
    _, valid = networks.split_mask(timestep.observation)
    return td.log_policy(actor(timestep)[0]["logits"], 1.0, valid)


class GreedyNoise(NamedTuple):
    """Random numbers of an action."""

    explore: tf.Tensor  # uniform, [...]; a random action is taken below epsilon
    action: tf.Tensor  # Gumbel, [..., A]; the place of the largest is a random action
    network: Nest  # noise of the network


class EpsilonGreedy(NetworkPolicy):
    """Takes the action of the largest value, or a random one.

    With probability epsilon, and always during the warm-up, every valid action is
    equally likely. With a temperature, the other actions are drawn with the
    probabilities softmax(Q / temperature). If the network says which actions are
    allowed, all others are taken at random only. An action of several choices has
    values of each, see ``Branches``: it is random in all of them, or in none.

    Args:
      network: network of action values. If it is noisy, each row has its own noise.
      space: space of actions: Discrete, MultiDiscrete or MultiBinary.
      warmup, observations: see ``Softmax``.
      epsilon: schedule of the probability over environment steps.
      temperature: schedule over environment steps; None for the largest value.
      gamma: discount factor of the running return that it records, by which rewards
        are normalized; None if it records none.
    """

    def __init__(
        self,
        network: QNetwork,
        space: gymnasium.Space,
        epsilon: Schedule,
        warmup: int = 0,
        temperature: Schedule | None = None,
        observations: ObservationNormalizer | None = None,
        gamma: float | None = None,
    ):
        super().__init__(network, observations)
        self._branches = cast(Branches, branches.of(space))
        self._family = distributions.for_space(space)
        self._epsilon, self._temperature = epsilon, temperature
        self._warmup, self._gamma = warmup, gamma

    def index(self, action: tf.Tensor) -> tf.Tensor:
        """Return the choices of actions, see ``Branches.index``."""
        return self._branches.index(action)

    def own_state(self, batch: int | tf.Tensor) -> Nest:
        """Return a running return of 0, if it is recorded."""
        return () if self._gamma is None else arrays.zeros([batch])

    def memory(self, batch: int | tf.Tensor, explore: bool) -> Nest:
        return self._state(batch, False)

    def noise(self, shape, seed) -> GreedyNoise:
        return GreedyNoise(
            seeds.uniform([*shape], seeds.key(seed, "explore")),
            gumbel_noise([*shape, self.network.size], seed),
            self.network.noise(shape, seeds.key(seed, "network")),
        )

    def act(
        self, timestep: TimeStep, state: Nest, noise: GreedyNoise, step, explore: bool
    ):
        """Select actions of the largest value among the valid ones, or random ones."""
        before, own = self.parts(state)
        drawn = noise.network if explore else ()
        q, mask, allowed, after = self._values(timestep, before, drawn)
        if explore and self._temperature is not None:
            q = q / self._temperature(step) + noise.action  # a sample of the softmax
        action = self._branches.best(q, allowed)
        if explore:
            drawn = noise.explore < self.epsilon(step)
            other = self._branches.best(noise.action, mask)
            action = nest.where(drawn, other, action)
        behavior = self.recorded(before)
        if self._gamma is not None:
            own = self._gamma * own + timestep.reward
            behavior["return"] = own = tf.where(timestep.first, 0.0, own)
        return action, behavior, self.joined(after, own)

    def probabilities(self, timestep: TimeStep, state: Nest, step) -> tf.Tensor:
        if self._branches.shape:
            raise UserError(
                "probabilities of all actions need a Discrete action space, but "
                "actions have several choices: there are too many joint actions"
            )
        if self.network.noisy:
            raise UserError(
                "the probabilities of actions are not available with noisy networks: "
                "a mean over the noise of all weights has no closed form; train with "
                "--algorithm.network.noisy=false and explore by --algorithm.epsilon or "
                "--algorithm.temperature"
            )
        q, mask, allowed, _ = self._values(timestep, self.parts(state)[0])
        if self._temperature is None:
            chosen = tf.one_hot(best(q, allowed), self.network.size)
        else:
            logits = q / self._temperature(step)
            chosen = Categorical(logits, mask=allowed).probabilities()
        drawn = Categorical(tf.zeros_like(q), mask=mask).probabilities()
        epsilon = self.epsilon(step)
        return epsilon * drawn + (1 - epsilon) * chosen

    def decide(
        self, timestep: TimeStep, state: Nest, step, noise: tf.Tensor | None = None
    ) -> Decision:
        before, own = self.parts(state)
        q, mask, allowed, after = self._values(timestep, before)
        zeros = tf.zeros([nest.size(q), self._family.size])
        uniform = self._family.make(zeros, mask=mask)
        action, state = self._branches.best(q, allowed), self.joined(after, own)
        return Decision(action, state, {"values": q}, uniform)

    def epsilon(self, step) -> tf.Tensor:
        """Return the probability of a random action, f32 ``[]``."""
        return tf.where(step < self._warmup, 1.0, self._epsilon(step))

    def _values(self, timestep: TimeStep, state: Nest, noise: Nest = ()) -> tuple:
        """Return the values of all actions, and masks of the valid and allowed ones.

        The last result is the encoder's next state.
        """
        _, mask = networks.split_mask(timestep.observation)
        heads, state = self.network(self.seen(timestep), state, noise)
        return heads.q, mask, both(mask, heads.allowed), state


def both(valid: tf.Tensor | None, allowed: Nest) -> tf.Tensor | None:
    """Return which actions are valid and allowed, see ``ActionValueHeads``.

    All are valid if ``valid`` is None, and all are allowed if ``allowed`` is ``()``.
    """
    if isinstance(allowed, tuple):
        return valid
    return allowed if valid is None else valid & allowed
