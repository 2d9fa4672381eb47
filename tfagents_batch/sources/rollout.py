"""Trajectories of fixed length from a batch of environments."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.graph import arrays
from tfagents_batch.graph.state import NestVariables
from tfagents_batch.interfaces import Actor, Env
from tfagents_batch.sources import metrics
from tfagents_batch.types import Collected, Nest, Trajectory


class Rollout(tf.Module):
    """Source of trajectories of ``length`` steps of every environment.

    The environments' state, the last TimeStep and the acting state are variables,
    so the next trajectory starts with the last step of this one.

    Args:
      env: the batch of environments; the constructor starts it with ``seed``.
      actor: policy that selects actions.
      length: T.
      seed: int.
      explore: explore as in training; otherwise take the policy's best action.
      info: info columns to report, see ``metrics.episode_info_metrics``.
    """

    def __init__(
        self,
        env: Env,
        actor: Actor,
        length: int,
        seed: int,
        explore: bool = True,
        info: Sequence[str] = (),
    ):
        super().__init__()
        self.env, self.envs, self.actor = env, (env,), actor
        self.length, self.explore = length, explore
        self.batch = env.spec.num_envs
        self._info = tuple(info)
        first = env.init(seed)
        state = actor.initial_state(self.batch)

        noise = nest.map(lambda x: x[0], actor.noise((1, self.batch), seed))
        step = tf.constant(0, tf.int64)
        action, behavior, _ = actor.act(first[1], state, noise, step, explore)

        tensors = nest.map(tf.convert_to_tensor, (first[1], action, behavior))
        recorded = nest.map(tf.TensorSpec.from_tensor, tensors)
        self._state = NestVariables((*first, state))
        # A function: tf.Module would replace a nest by a wrapper of its own.
        self._recorded = lambda: recorded

    def outline(self) -> Trajectory:
        """Return the specs of its trajectories; nothing is collected or traced."""
        timestep, action, behavior = self._recorded()

        def many(nested: Nest, rows: int) -> Nest:
            return nest.map(lambda x: tf.TensorSpec([rows, *x.shape], x.dtype), nested)

        *_, start = self._state.read()
        return Trajectory(
            many(timestep, self.length + 1),
            many(action, self.length),
            many(behavior, self.length),
            nest.map(tf.TensorSpec.from_tensor, start),
        )

    @property
    def compilable(self) -> bool:
        """True if collecting can run under XLA."""
        return getattr(self.env, "compilable", False)

    def named_variables(self) -> dict[str, tf.Variable]:
        """Return the state of environments and actor.

        A rollout with these values continues there, if environments are ``resumable``.
        """
        return self._state.named_variables()

    def restart(self, seed: int) -> None:
        """Start new episodes in all environments."""
        self._state.assign((*self.env.init(seed), self.actor.initial_state(self.batch)))

    def collect(self, seed, step) -> Collected:
        """Collect ``[T, B]`` actions and the ``[T+1, B]`` steps around them."""
        env_state, timestep, start = self._state.read()
        noise = self.actor.noise((self.length, self.batch), seed)

        def advance(t, env_state, timestep, state, written):
            now = nest.map(lambda x: x[t], noise)
            action, behavior, state = self.actor.act(
                timestep, state, now, step, self.explore
            )
            written = arrays.write(written, t, (timestep, action, behavior))
            env_state, timestep = self.env.step(env_state, action)
            return t + 1, env_state, timestep, state, written

        empty = arrays.empty(self.length, self._recorded())
        _, env_state, timestep, state, written = tf.while_loop(
            lambda t, *_: t < self.length,
            advance,
            (tf.constant(0), env_state, timestep, start, empty),
            parallel_iterations=1,
            name="rollout",
        )
        self._state.assign((env_state, timestep, state))
        steps, action, behavior = arrays.stack(written)
        steps = nest.map(
            lambda rows, last: tf.concat([rows, last[tf.newaxis]], 0), steps, timestep
        )
        trajectory = Trajectory(steps, action, behavior, start)
        ok = self.env.ok(env_state)
        measured = metrics.of_trajectory(trajectory, self.env, self._info)
        return Collected.whole(trajectory, ok, measured)

    def played(self, trajectory: Trajectory) -> int:
        """Return how many steps the batch made for a trajectory."""
        del trajectory
        return self.length

    def sample(self, collected: Collected, seed, step) -> Trajectory:
        """Return the collected trajectory."""
        del seed, step
        return collected.trajectory

    def feedback(self, priority: tf.Tensor) -> None:
        """Ignore priorities: a trajectory is used once."""
