"""Trajectories from environments that do not wait for the slowest one.

Each worker process is a group of its own, see ``ProcessEnv.receive``: a step waits for
the first groups that are ready, selects their actions and sends them on. So
environments are at different steps, and what is in flight at the end of a collect
arrives in the next one, acted on by the policy as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.errors import UserError
from tfagents_batch.graph import arrays
from tfagents_batch.graph.state import NestVariables, variable
from tfagents_batch.interfaces import Env, Policy
from tfagents_batch.sources import metrics
from tfagents_batch.types import VERSION, Collected, Nest, TimeStep, Trajectory


class _SentRow(NamedTuple):
    """Step of some environments, what was done there, and with which acting state."""

    timestep: TimeStep
    action: Nest
    behavior: dict[str, Nest]


class _Newest(NamedTuple):
    """Newest step of every environment, ``[n, ...]``."""

    row: _SentRow  # the step, and what was done there
    # before, after: acting state before and after that
    before: Nest
    after: Nest
    # bool [n], whether the action was sent; else it counts for nothing
    flying: tf.Tensor


class AsyncRollout(tf.Module):
    """Source of trajectories ``[length, n]`` that waits for k environments at a time.

    An environment takes up to ``length`` steps in a collect, which ends when fewer than
    k environments may go on. The rows that an environment lacks are marked as failed
    (``first`` and ``truncated``), so they are masked. The order in which environments
    are ready depends on timing, so a seed does not reproduce a run.

    Args:
      env: from ``make_groups``; the constructor starts it with ``seed``. The
        environments of a worker are always at the same step.
      actor: policy that selects actions.
      length: T.
      wait_for: k.
      seed: int.
      info: info columns to report, see ``metrics.episode_info_metrics``.

    Attributes:
      size: number of environments of a worker.
      active: i64 ``[]`` variable, the number of environments that are stepped, the
        first ones; a multiple of those of a worker, and at least k. The others rest.
    """

    def __init__(
        self,
        env: Any,
        actor: Policy,
        length: int,
        wait_for: int,
        seed: int,
        info: Sequence[str] = (),
    ):
        super().__init__()
        self.env, self.envs, self.actor = env, (env,), actor
        self.length, self.batch, self.wait_for = length, env.spec.num_envs, wait_for
        self.size = self.batch // env.num_groups
        self._info = tuple(info)
        token, timestep = env.init(seed)
        state = actor.initial_state(self.batch)
        noise = nest.map(lambda x: x[0], actor.noise((1, self.batch), seed))
        step = tf.constant(0, tf.int64)
        action, behavior, after = self._act(timestep, state, noise, step)
        row = _SentRow(timestep, action, behavior)
        flying = tf.zeros([self.batch], tf.bool)
        self._state = NestVariables((token, _Newest(row, state, after, flying)))
        self.active = variable(tf.constant(self.batch))

    @property
    def compilable(self) -> bool:
        """True if collecting can run under XLA."""
        return getattr(self.env, "compilable", False)

    def named_variables(self) -> dict[str, tf.Variable]:
        """Return the state of environments and actor."""
        return self._state.named_variables() | {"active": self.active}

    def collect(self, seed, step, wait_for: int | None = None) -> Collected:
        """Collect up to T steps of every active environment, perhaps with another k."""
        batch, count, length = self.batch, wait_for or self.wait_for, self.length
        most = batch * length // count
        noise = self.actor.noise((1, batch + most * count), seed)
        noise = nest.map(lambda x: x[0], noise)  # rows of its own for every action
        active = tf.range(batch) < tf.cast(self.active.read_value(), tf.int32)
        limit = tf.where(active, length, 0)

        token, newest = self._state.read()
        first = nest.map(lambda x: x[:batch], noise)
        token, newest = self._send_parked(token, newest, active, first, step)
        noise = nest.unfold(nest.map(lambda x: x[batch:], noise), most, count)

        def advance(t, token, after, before, taken, place, written):
            token, group, timestep = self.env.receive(token, count=count // self.size)
            env = self._environments(group)
            state = nest.gather(after, env)
            drawn = nest.map(lambda x: x[t], noise)
            action, behavior, new = self._act(timestep, state, drawn, step)
            taken = tf.tensor_scatter_nd_add(
                taken, env[:, tf.newaxis], tf.ones([count], tf.int32)
            )
            now = tf.gather(taken, env)
            index = batch + t * count + tf.range(count)
            place = tf.tensor_scatter_nd_update(place, tf.stack([now, env], -1), index)
            goes = now < tf.gather(limit, env)
            token = self._send(token, action, group, goes)
            written = arrays.write(written, t, _SentRow(timestep, action, behavior))
            after, before = _replaced(after, env, new), _replaced(before, env, state)
            return t + 1, token, after, before, taken, place, written

        rows = newest.row
        like = nest.map(lambda x: tf.TensorSpec([count, *x.shape[1:]], x.dtype), rows)
        empty = arrays.empty(most, like)
        place = tf.tile(tf.range(batch)[tf.newaxis], [length + 1, 1])
        taken = tf.zeros([batch], tf.int32)
        loop = tf.constant(0), token, newest.after, newest.before, taken, place, empty
        _, token, after, before, taken, place, written = tf.while_loop(
            lambda t, token, after, before, taken, *_: (
                tf.reduce_sum(tf.cast(taken < limit, tf.int32)) >= count
            ),
            advance,
            loop,
            maximum_iterations=most,
            parallel_iterations=1,
            name="arrivals",
        )
        arrived = nest.fold(arrays.stack(written))
        table = nest.map(lambda x, y: tf.concat([x, y], 0), rows, arrived)
        filled = nest.gather(table, place)
        trajectory = self._trajectory(filled, taken, newest.before)
        last = tf.linalg.diag_part(tf.gather(place, taken))
        flying = tf.where(active, taken < length, newest.flying & (taken == 0))
        newest = _Newest(nest.gather(table, last), before, after, flying)
        self._state.assign((token, newest))
        measured = metrics.of_trajectory(trajectory, self.env, self._info)
        return Collected.whole(trajectory, self.env.ok(token), measured)

    def sample(self, collected: Collected, seed, step) -> Trajectory:
        """Return the collected trajectory."""
        del seed, step
        return collected.trajectory

    def feedback(self, priority: tf.Tensor) -> None:
        """Ignore priorities: a trajectory is used once."""

    def _act(self, timestep: TimeStep, state: Nest, noise: Nest, step) -> tuple:
        """Select actions, and record the version of the policy."""
        action, behavior, state = self.actor.act(timestep, state, noise, step, True)
        version = tf.fill(timestep.first.shape, self.actor.version.read_value())
        return action, behavior | {VERSION: version}, state

    def _send_parked(
        self, token, newest: _Newest, active: tf.Tensor, noise, step
    ) -> tuple:
        """Send actions to the active environments that have none."""
        row = newest.row
        action, behavior, after = self._act(row.timestep, newest.before, noise, step)
        kept = row.action, row.behavior, newest.after
        action, behavior, after = nest.where(
            newest.flying, kept, (action, behavior, after)
        )
        groups = tf.range(self.batch // self.size)
        token = self._send(token, action, groups, active & ~newest.flying)
        row = row._replace(action=action, behavior=behavior)
        flying = newest.flying | active
        return token, newest._replace(row=row, after=after, flying=flying)

    def _environments(self, group: tf.Tensor) -> tf.Tensor:
        """Return the numbers of the environments of groups, int32 ``[k]``."""
        rows = group[:, tf.newaxis] * self.size + tf.range(self.size)
        return tf.reshape(rows, [-1])

    def _send(
        self, token, action: Nest, group: tf.Tensor, goes: tf.Tensor
    ) -> tf.Tensor:
        """Send actions ``[k, ...]`` to those groups that go on, bool ``[k]``."""
        count, size = nest.static_size(group), self.size
        goes = tf.reshape(goes, [count, size])[:, 0]  # all of a group do, or none

        def one(i, token):
            own = nest.map(lambda x: x[i], nest.unfold(action, count, size))
            return i + 1, tf.cond(
                goes[i],
                lambda: self.env.send(token, own, group[i][tf.newaxis]),
                lambda: token,
            )

        def single():
            return tf.while_loop(
                lambda i, _: i < count,
                one,
                (tf.constant(0), token),
                parallel_iterations=1,
                name="sends",
            )[1]

        everyone = tf.reduce_all(goes)
        return tf.cond(everyone, lambda: self.env.send(token, action, group), single)

    def _trajectory(self, rows: _SentRow, taken: tf.Tensor, state: Nest) -> Trajectory:
        """Return the trajectory of rows ``[T+1, n]``, of which some are missing."""
        row = tf.range(self.length + 1)[:, tf.newaxis]
        missing = row > taken
        steps = rows.timestep
        steps = steps._replace(
            reward=tf.where(missing, 0.0, steps.reward),
            first=steps.first | missing,
            terminated=steps.terminated & ~missing,
            truncated=steps.truncated | missing,
        )
        action, behavior = nest.map(lambda x: x[:-1], (rows.action, rows.behavior))
        behavior["counted"] = row[:-1] < taken  # the last row begins the next one
        return Trajectory(steps, action, behavior, state)


def _replaced(every: Nest, index: tf.Tensor, rows: Nest) -> Nest:
    """Return every leaf with other rows at ``index``."""
    place = index[:, tf.newaxis]
    return nest.map(lambda x, y: tf.tensor_scatter_nd_update(x, place, y), every, rows)


def make_groups(
    recipe: Any, num_envs: int, wait_for: int, name: str, options: dict[str, Any]
) -> Env:
    """Create environments whose workers need not wait for each other.

    UserError for environments without workers, or numbers that do not fit.

    Args:
      recipe: ``envs.recipe.EnvRecipe`` of the user's environment.
      num_envs: number of environments.
      wait_for: number that a step waits for.
      name: name of the setting that gives ``wait_for``, for an error.
      options: options of ``recipe.make``.
    """
    if recipe.in_graph:
        raise UserError(
            f"{recipe.describe()} is written in TensorFlow, where all environments "
            "step at once; steps that do not wait for all of them need worker "
            "processes, use another environment"
        )
    workers = options["num_workers"]
    workers = num_envs if workers is None else workers
    if not workers or num_envs % workers:
        raise UserError(
            f"{num_envs} environments cannot share {workers} worker processes equally, "
            "which steps that do not wait for all environments need; leave num_workers "
            "out, or set it to a divisor"
        )
    size = num_envs // workers
    if not 1 <= wait_for <= num_envs or wait_for % size:
        raise UserError(
            f"{name} is {wait_for}; expected a multiple of the {size} environments "
            f"of a worker, up to {num_envs}, which are stepped together"
        )
    options = options | {"num_workers": workers, "groups": workers}
    return recipe.make(num_envs, **options)
