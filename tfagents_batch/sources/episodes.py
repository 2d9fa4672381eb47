"""Trajectories of whole episodes from a batch of environments.

Every environment plays the same number of episodes. (Taking the first episodes that end
would favor short ones.) If an environment fails, episodes may be missing. Which ones
must not depend on their lengths either, so each episode has a turn: turn k of an
environment starts at row ``k * (T + 1)`` at the latest, early enough for an episode of
any length. A failed episode uses up its turn; an episode that starts late gets a later
turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.errors import UserError
from tfagents_batch.graph import arrays
from tfagents_batch.interfaces import Actor, Env
from tfagents_batch.sources import metrics
from tfagents_batch.types import Collected, EnvSpec, Nest, TimeStep, Trajectory


class Episodes(tf.Module):
    """Source of ``episodes`` whole episodes, the same number in each environment.

    Every call starts new episodes in all environments: ``init`` is part of the program.
    So a call depends only on its seed and the weights. An environment that has played
    its episodes is still stepped until all are done; these steps are not used.

    Each episode is one stream: T is the time limit and B is ``episodes``; stream
    ``k * num_envs + i`` is episode k of environment i. After the end of an episode its
    last step is repeated with ``first`` set and reward 0, so it is not ``valid``. All
    steps of a missing episode are invalid, too. An episode is missing if its
    environment failed or was still playing the previous one.

    Args:
      env: the batch of environments; UserError if no time limit is known.
      actor: policy that selects actions; every episode begins with its initial state.
      episodes: n; UserError if it is not a multiple of ``num_envs``.
      info: info columns to report, see ``metrics.episode_info_metrics``.
    """

    def __init__(self, env: Env, actor: Actor, episodes: int, info: Sequence[str] = ()):
        super().__init__()
        self.env, self.envs, self.actor = env, (env,), actor
        self._batch = env.spec.num_envs
        self._rounds = rounds(episodes, self._batch)
        self._length = longest(env.spec)
        self._info = tuple(info)

    @property
    def compilable(self) -> bool:
        """True if collecting can run under XLA."""
        return getattr(self.env, "compilable", False)

    def named_variables(self) -> dict[str, tf.Variable]:
        """Return no variables: every call starts from new episodes."""
        return {}

    def collect(self, seed, step) -> Collected:
        """Collect ``[T, n]`` actions and the ``[T+1, n]`` steps around them.

        The metrics have ``env/idle_steps``, the unused steps of environments that had
        played their episodes, and ``env/missing_episodes``.
        """
        env_state, rows, turns, idle = self._play(seed, step)
        missing = tf.reduce_sum(tf.cast(turns.end < 0, tf.float32))
        counters = {
            "env/idle_steps": tf.cast(idle, tf.float32),
            "env/missing_episodes": missing,
        }
        trajectory = self._to_trajectory(rows, turns)
        ok = self.env.ok(env_state)
        measured = metrics.of_trajectory(trajectory, self.env, self._info)
        return Collected.whole(trajectory, ok, counters | measured)

    def played(self, trajectory: Trajectory) -> int:
        """Return how many steps the batch made for a trajectory without failures."""
        lengths = tf.reduce_sum(tf.cast(trajectory.mask, tf.int32), 0)
        lengths = tf.reduce_sum(tf.reshape(lengths, [self._rounds, self._batch]), 0)
        return int(tf.reduce_max(lengths)) + self._rounds - 1  # restarts between them

    def sample(self, collected: Collected, seed, step) -> Trajectory:
        """Return the collected trajectory."""
        del seed, step
        return collected.trajectory

    def feedback(self, priority: tf.Tensor) -> None:
        """Ignore priorities: a trajectory is used once."""

    def _play(self, seed, now) -> tuple[Any, _Row, _Turns, tf.Tensor]:
        """Step until every environment has played its episodes.

        Return the environments' state, all rows ``[S, B, ...]`` (zeros if not needed),
        the rows of the episodes, and int32 ``[]`` idle steps.
        """
        most = self._rounds * (self._length + 1)
        noise = self.actor.noise((most, self._batch), seed)
        initial = self.actor.initial_state(self._batch)

        def act(t, timestep, state):
            state = nest.where(timestep.first, initial, state)
            drawn = nest.map(lambda x: x[t], noise)
            return self.actor.act(timestep, state, drawn, now, True)

        def step(t, env_state, action, state, written, turns, idle):
            wanted = _wanted(turns, t, self._length)
            idle += tf.reduce_sum(tf.cast(~wanted, tf.int32))
            env_state, timestep = self.env.step(env_state, action)
            t += 1
            action, behavior, state = act(t, timestep, state)
            written = arrays.write(written, t, _Row(timestep, action, behavior))
            turns = _advance(turns, t, timestep, self._length)
            return t, env_state, action, state, written, turns, idle

        env_state, timestep = self.env.init(seed)
        action, behavior, state = act(0, timestep, initial)
        row = _Row(timestep, action, behavior)
        written = arrays.write(arrays.empty(most, row), tf.constant(0), row)
        zeros = tf.zeros([self._batch], tf.int32)
        none = tf.fill([self._rounds, self._batch], -1)
        turns = _Turns(zeros - 1, zeros, zeros > 0, none, none)
        turns = _advance(turns, 0, timestep, self._length)
        idle = tf.constant(0)
        _, env_state, _, _, written, turns, idle = tf.while_loop(
            lambda t, *rest: tf.reduce_any(_wanted(rest[-2], t, self._length)),
            step,
            (tf.constant(0), env_state, action, state, written, turns, idle),
            maximum_iterations=most - 1,
            parallel_iterations=1,
            name="episodes",
        )
        return env_state, arrays.stack(written), turns, idle

    def _to_trajectory(self, rows: _Row, turns: _Turns) -> Trajectory:
        """Gather the rows of each episode into one stream."""
        length, count = self._length, self._rounds * self._batch
        begin, end = (tf.reshape(x, [-1]) for x in (turns.begin, turns.end))
        missing = end < 0
        begin, end = tf.maximum(begin, 0), tf.maximum(end, 0)
        offset = tf.range(length + 1)[:, tf.newaxis]
        ended = begin + offset > end
        row = tf.minimum(begin + offset, end)
        index = row * self._batch + tf.range(count) % self._batch  # [T+1, n]
        timestep, action, behavior = nest.fold(rows)
        steps: TimeStep = nest.gather(timestep, index)
        action, behavior = nest.gather((action, behavior), index[:-1])
        cut = (offset == length) & ~steps.last
        steps = steps._replace(
            reward=tf.where(ended, 0.0, steps.reward),
            first=steps.first | ended,
            truncated=steps.truncated | cut | missing,
        )
        return Trajectory(steps, action, behavior, self.actor.initial_state(count))


def rounds(episodes: int, num_envs: int, name: str = "episodes") -> int:
    """Return the number of episodes per environment, of ``episodes`` together.

    UserError that names the setting, if environments cannot all have the same number.
    """
    if episodes < 1 or episodes % num_envs:
        least = num_envs * max(episodes // num_envs, 1)
        raise UserError(
            f"{name} is {episodes}; expected a multiple of the {num_envs} "
            "environments, because each plays the same number: "
            f"{least} or {least + num_envs}"
        )
    return episodes // num_envs


def longest(spec: EnvSpec) -> int:
    """Return the largest number of steps of an episode; UserError if not known."""
    if spec.max_episode_steps is None:
        raise UserError(
            "the environments have no common time limit, so the largest length of an "
            "episode is not known; give them one (gymnasium.wrappers.TimeLimit)"
        )
    return spec.max_episode_steps


class _Row(NamedTuple):
    """Stored data of one step, ``[B, ...]``, or of all steps, ``[S, B, ...]``."""

    timestep: TimeStep
    action: Nest
    behavior: dict[str, Nest]


class _Turns(NamedTuple):
    """Progress of each environment's turns, and the rows of their episodes."""

    number: tf.Tensor  # int32 [B], turn of the newest episode; -1 before the first one
    opened: tf.Tensor  # int32 [B], first row of the newest episode
    # bool [B], true if the newest episode is not over and will be used
    playing: tf.Tensor
    # begin, end: int32 [R, B], first and last row of each turn's episode; -1 where
    # there is none
    begin: tf.Tensor
    end: tf.Tensor


def _advance(
    turns: _Turns, t: int | tf.Tensor, timestep: TimeStep, length: int
) -> _Turns:
    """Update the turns with row ``t``."""
    rounds = nest.static_size(turns.end)
    opens = timestep.first & timestep.valid
    earliest = (t + length) // (length + 1)  # first turn that may start at row t
    number = tf.where(opens, tf.maximum(turns.number + 1, earliest), turns.number)
    opened = tf.where(opens, t, turns.opened)
    # A failed row has `first` set, which ends the episode before it.
    playing = tf.where(timestep.first, opens & (number < rounds), turns.playing)
    over = playing & (timestep.last | (t - opened == length))
    ends = over & (tf.range(rounds)[:, tf.newaxis] == number)
    begin = tf.where(ends, opened, turns.begin)
    end = tf.where(ends, t, turns.end)
    return _Turns(number, opened, playing & ~over, begin, end)


def _wanted(turns: _Turns, t: tf.Tensor, length: int) -> tf.Tensor:
    """Return bool ``[B]``: true if an environment may still finish an episode."""
    last = nest.static_size(turns.end) - 1
    return turns.playing | ((turns.number < last) & (t < last * (length + 1)))
