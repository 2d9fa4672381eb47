"""A replay around an on-policy source: stores its steps and samples windows of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_batch import config as configs
from tfagents_batch import nest
from tfagents_batch.errors import UserError
from tfagents_batch.graph.state import NestVariables, variable
from tfagents_batch.metrics import Metrics
from tfagents_batch.ops import masked
from tfagents_batch.sources import replay_frames, replay_layout
from tfagents_batch.sources.hindsight import Goals, Hindsight
from tfagents_batch.sources.prior import PriorRows
from tfagents_batch.sources.prioritized import Prioritized
from tfagents_batch.sources.replay_layout import RingSpan
from tfagents_batch.sources.replay_storage import Storage
from tfagents_batch.sources.sampler import Ring, Uniform
from tfagents_batch.types import Collected, Nest, TimeStep, Trajectory, Windows

_CHECKED = 1000  # steps of an environment whose frame stacks are checked


class Replay(tf.Module):
    """Source of windows of stored steps.

    A collect stores k steps of every environment. A sample is a batch of windows whose
    first transition is drawn from all stored ones (mask true), uniformly or by
    priority. A window may go on behind the end of an episode; its mask says so.

    Everything that touches the storage is compiled by XLA, also in a program that is
    not. The storage is written in every collect, outside of branches: a void collect
    writes rows that are never sampled.

    UserError for a capacity, stack or inner source that cannot be used.

    Args:
      inner: source that collects: ``collect(seed, step)`` returns ``Collected`` with a
        trajectory, whose first step is the last one of the call before.
      config: ``replay_settings.ReplaySettings``.
      like: Trajectory of tensors or specs with the shapes of a collect; see
        ``outline``.
      wanted: what the algorithm samples: N windows, their length and the updates per
        environment step.
      prior: logged rows that take a share of every batch, or none.
      hindsight: other goals of windows (HER), or none.
    """

    def __init__(
        self,
        inner: Any,
        config: Any,
        like: Trajectory,
        wanted: Windows,
        prior: PriorRows | None = None,
        hindsight: Hindsight | None = None,
    ):
        super().__init__()
        self.prior, self._hindsight = prior, hindsight
        config = configs.check(config, "replay.")
        self.inner, self.config = inner, config
        ratio = wanted.ratio
        self._ratio = lambda: ratio  # tf.Module rewraps the containers it holds
        like = nest.map(lambda x: tf.TensorSpec(x.shape, x.dtype), like)
        if "state" in like.behavior and not wanted.recorded:
            raise UserError(
                "the policy records a recurrent state, but the algorithm learns from "
                "windows without one, so recurrent networks cannot be trained; use a "
                "network without memory, or an on-policy algorithm"
            )
        batch = nest.static_size(like.steps.first, 1)
        if prior is not None and like.behavior:
            raise UserError(
                f"the policy records {', '.join(like.behavior)}, which logged rows "
                "lack; leave replay.prior out"
            )
        sizes = replay_layout.ring(config, batch, wanted.length)
        replay_layout.check_capacity(config.capacity, wanted.batch_size, sizes)
        stacks = replay_frames.find(like.steps.observation, config.stack)
        self._sizes, self._stacks = lambda: sizes, lambda: stacks

        stored = like.steps._replace(info={})
        if stacks is not None:
            stored = stored._replace(observation=stacks.newest(stored.observation))
        taken = _Taken(like.action, like.behavior)
        self._steps = Storage(_rows(_Stored(stored, stored.first)), sizes.size)
        self._taken = Storage(_rows(taken), sizes.size)

        self._span = NestVariables(RingSpan(tf.constant(0), tf.constant(0)))
        self._break = NestVariables(replay_frames.broken(batch, sizes.stack))
        self._size = NestVariables(tf.constant(0))
        self._age = variable(tf.constant(0.0))
        self._start = variable(tf.constant(ratio.start, tf.int64))
        self._stacked = variable(tf.constant(True))
        self._sampler = (
            Prioritized(config, sizes, wanted.batch_size)
            if config.prioritized
            else Uniform(wanted.batch_size)
        )
        compiled = {"jit_compile": True, "autograph": False}
        self._store = tf.function(self._store_steps, **compiled)
        self._draw = tf.function(self._draw_windows, **compiled)

    @property
    def envs(self) -> tuple:
        """Environments that the inner source steps."""
        return self.inner.envs

    @property
    def compilable(self) -> bool:
        """True if collecting and sampling can run under XLA."""
        goals = self._hindsight is None or self._hindsight.compilable
        return self.inner.compilable and goals

    @property
    def actor(self) -> Any:
        """Policy that selects actions."""
        return self.inner.actor

    def collect(self, seed, step) -> Collected:
        """Collect k steps of every environment, see ``experience.Source``."""
        return self.inner.collect(seed, step)

    def store(self, collected: Collected, step) -> Collected:
        """Store what was collected after ``step`` transitions, int64 ``[]``."""
        trajectory = collected.trajectory
        steps = trajectory.steps._replace(info={})
        trajectory = trajectory._replace(steps=steps, state=(), weight=())
        ok = self._store(trajectory, collected.ok)
        made = tf.where(ok, collected.steps, 0)
        step = tf.cast(step, tf.int64)
        updates = self._ratio().due(self._start.read_value(), step, step + made)
        metrics = collected.metrics | self.metrics()
        return Collected(made, ok, tf.where(ok, updates, 0), metrics, ())

    def sample(self, collected: Collected, seed, step) -> Trajectory:
        """Draw N windows.

        Where nothing could be drawn, all masks of a window are false.

        Args:
          collected: unused: what is sampled was stored.
          seed: int or int32 scalar; another one for each sample of a round.
          step: int64 ``[]``, for the schedule of beta.

        Returns:
          Trajectory of steps ``[window, N, ...]``, actions ``[window - 1, N, ...]``,
          the recurrent state before the first step, if acting has recorded it, and f32
          ``[N]`` importance weights (ones if uniform).
        """
        del collected
        seed, step = tf.cast(seed, tf.int32), tf.cast(step, tf.int64)
        windows, goals = self._draw(seed, step)
        if self._hindsight is not None:
            windows = self._hindsight.relabeled(windows, goals)
        if self.prior is None:
            return windows
        return self.prior.mixed(windows, seed, step)

    def feedback(self, priority: tf.Tensor) -> None:
        """Set priorities of the windows drawn last: absolute TD errors, f32 ``[N]``."""
        if self.prior is None:
            return self._sampler.feedback(priority)
        self.prior.feedback(priority)
        return self._sampler.feedback(priority, ~self.prior.places)

    def metrics(self) -> Metrics:
        """Return the size, the age of the newest sample, and metrics of the sampler.

        The age is the mean number of environment steps since a transition was made; 0
        before the first sample.
        """
        size = tf.cast(self._size.read(), tf.float32)
        metrics = {"replay/size": size, "replay/age": self._age.read_value()}
        if self.prior is not None:
            metrics |= self.prior.metrics()
        return metrics | self._sampler.metrics(size)

    def check(self) -> None:
        """Raise a UserError if observations were no stacks; not for use in a graph."""
        if not self._stacked.numpy():
            raise UserError(
                f"stack is {self.config.stack}, but observations are not stacks of the "
                "newest frames; expected the oldest frame first, and the first frame "
                "repeated after a reset (FrameStackObservation with its defaults, as "
                "the last wrapper that changes frames); or set stack to none"
            )

    def postpone(self, step: int) -> int:
        """Warm up again after ``step`` environment steps; return the steps of that."""
        warmup = self._ratio().start
        self._start.assign(step + warmup)
        return warmup

    def check_numbers(self, numbers: Mapping[str, Any]) -> None:
        """Check saved positions in the storage, see ``Source``."""
        sizes = self._sizes()
        if self.prior is not None and numbers["updates"] < 0:
            raise ValueError(f"updates is {numbers['updates']}; expected at least 0")
        limits = {
            "head": sizes.rows - 1,
            "filled": sizes.room,
            "size": sizes.batch * sizes.room,
        }
        for name, most in limits.items():
            if not 0 <= numbers[name] <= most:
                raise ValueError(f"{name} is {numbers[name]}; expected 0 to {most}")

    def interrupt(self, when: bool | tf.Tensor = True) -> None:
        """Declare that the inner source was started anew, if ``when``, bool ``[]``."""
        sizes = self._sizes()
        fresh = replay_frames.broken(sizes.batch, sizes.stack)
        self._break.assign(
            nest.map(lambda x, y: tf.where(when, x, y), fresh, self._break.read())
        )

    def named_variables(self) -> dict[str, tf.Variable]:
        """Return the storage, the position in it and the inner source's variables."""
        names = "head", "filled", "broken", "missing", "size"
        parts = self._span, self._break, self._size
        numbers = [x for part in parts for x in part.named_variables().values()]
        return {
            **dict(zip(names, numbers, strict=True)),
            "age": self._age,
            "start": self._start,
            **nest.prefixed("steps", self._steps.named_variables()),
            **nest.prefixed("taken", self._taken.named_variables()),
            **nest.prefixed("inner", self.inner.named_variables()),
            **self._sampler.named_variables(),
            **(self.prior.named_variables() if self.prior else {}),
        }

    def _store_steps(self, trajectory: Trajectory, ok: tf.Tensor) -> tf.Tensor:
        """Store a collect; return bool ``[]``: whether it is one that counts."""
        sizes, stacks = self._sizes(), self._stacks()
        span, state = self._span.read(), self._break.read()
        if stacks is not None:
            ok &= self._check_stacks(stacks, trajectory.steps, ok, span)
        steps, marked = replay_frames.mark(trajectory.steps, state, sizes.stack)
        self._write(trajectory._replace(steps=steps), span, state.broken)

        moved = replay_layout.advance(sizes, span, state.broken)
        after = nest.map(lambda new, old: tf.where(ok, new, old), moved, span)
        self._count(*replay_layout.changes(sizes, span, after))
        self._span.assign(after)
        fresh = replay_frames.broken(sizes.batch, sizes.stack)
        self._break.assign(nest.map(lambda x, y: tf.where(ok, x, y), marked, fresh))
        return ok

    def _check_stacks(
        self,
        stacks: replay_frames.Frames,
        steps: TimeStep,
        ok: tf.Tensor,
        span: RingSpan,
    ) -> tf.Tensor:
        """Return bool ``[]``: whether observations were frame stacks so far."""
        wanted = ok & (span.filled < _CHECKED)
        good = tf.cond(wanted, lambda: stacks.consistent(steps), lambda: True)
        good &= self._stacked.read_value()
        self._stacked.assign(good)
        return good

    def _write(self, trajectory: Trajectory, span: RingSpan, broken: tf.Tensor) -> None:
        """Write the rows of a collect."""
        sizes, stacks, steps = self._sizes(), self._stacks(), trajectory.steps
        follows = tf.pad(trajectory.mask, [[1, 0], [0, 0]])
        if stacks is not None:
            steps = steps._replace(observation=stacks.newest(steps.observation))
        rows = span.head + tf.cast(broken, tf.int32) + tf.range(sizes.steps + 1)
        # The first step is stored already, unless it follows a break.
        new = (tf.range(sizes.steps + 1) > 0) | broken
        for index in sizes.targets(rows, new):
            self._steps.write(index, _Stored(steps, follows))
        for index in sizes.targets(rows[:-1], tf.fill([sizes.steps], True)):
            self._taken.write(index, _Taken(trajectory.action, trajectory.behavior))

    def _count(self, entering: tuple, leaving: tuple) -> None:
        """Count the transitions that can be sampled, and set their priorities."""
        sizes = self._sizes()
        env = tf.range(sizes.batch)[:, tf.newaxis]
        index, valid = [], []
        for rows, use in (leaving, entering):
            valid.append(use & self._is_transition(env, rows))
            leaf = tf.where(use, self._leaf(env, rows), sizes.batch * sizes.rows)
            index.append(tf.reshape(leaf, [-1]))
        gone, came = (tf.reduce_sum(tf.cast(x, tf.int32)) for x in valid)
        self._size.assign(self._size.read() + came - gone)
        entered = tf.reshape(tf.stack([tf.zeros_like(valid[1]), valid[1]]), [-1])
        self._sampler.change(tf.concat(index, 0), entered)

    def _draw_windows(
        self, seed: tf.Tensor, step: tf.Tensor
    ) -> tuple[Trajectory, Goals | tuple[()]]:
        sizes, stacks = self._sizes(), self._stacks()
        span = self._span.read()
        ring = Ring(sizes, span, self._size.read(), self._is_transition)
        env, row, valid, weight = self._sampler.draw(ring, seed, step)
        age = (span.head - row) % sizes.rows * sizes.batch
        self._age.assign(masked.mean(tf.cast(age, tf.float32), valid))
        before = sizes.stack - 1
        rows = before + sizes.window
        steps = self._steps.read(sizes.place(env, row - before), rows).steps
        if stacks is not None:
            stacked = stacks.rebuild(steps.observation, steps)
            steps = nest.map(lambda x: x[before:], steps._replace(observation=()))
            steps = steps._replace(observation=stacked)
        # A step that is first ends the transition into it: no mask is left.
        ignored = ~valid & (tf.range(sizes.window) > 0)[:, tf.newaxis]
        steps = steps._replace(first=steps.first | ignored)
        place = sizes.place(env, row)
        taken, state = self._taken.read(place, sizes.window - 1), ()
        behavior = dict(taken.behavior)
        if "state" in behavior:  # of which only the first one is read
            del behavior["state"]
            state = self._taken.gather(place).behavior["state"]
        windows = Trajectory(steps, taken.action, behavior, state, weight)
        if self._hindsight is None:
            return windows, ()
        return windows, self._goals(self._hindsight, span, env, row, valid, seed)

    def _goals(
        self, hindsight: Hindsight, span: RingSpan, env, row, valid, seed
    ) -> Goals:
        """Return goals that the episodes of windows have reached."""
        sizes = self._sizes()
        ahead = 1 + tf.range(hindsight.limit)[:, tf.newaxis]
        follows = self._is_transition(env, row + ahead - 1)
        follows &= ahead <= (span.head - row) % sizes.rows
        remaining = tf.reduce_sum(tf.math.cumprod(tf.cast(follows, tf.int32), 0), 0)
        place = sizes.place(env, row + hindsight.distance(remaining, seed))
        goal = self._steps.gather(place).steps.observation["achieved_goal"]
        chosen = hindsight.chosen(row.shape[0], seed) & valid
        return Goals(goal, chosen)

    def _is_transition(self, env: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
        """Return bool: whether a transition leads from a row to the next one."""
        return self._steps.gather(self._sizes().place(env, row + 1)).follows

    def _leaf(self, env: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
        rows = self._sizes().rows
        return env * rows + row % rows


class _Stored(NamedTuple):
    """Stored data of steps, ``[k+1, B, ...]``."""

    steps: TimeStep  # without info
    follows: tf.Tensor  # bool [k+1, B], true where a transition led from the row before


class _Taken(NamedTuple):
    """Stored data of actions, ``[k, B, ...]``."""

    action: Nest
    behavior: dict[str, Nest]


def _rows(like: Nest) -> Nest:
    """Return the specs of one row of ``[T, B, ...]`` specs."""
    return nest.map(lambda x: tf.TensorSpec(x.shape[2:], x.dtype), like)
