"""Logged rows beside the windows of a replay, as a share of every batch.

Half of each batch from prior data makes an agent that acts learn much faster (Ball et
al. 2023, RLPD, arXiv:2302.02948). Which places of a batch are rows is drawn anew for
each update, because a prioritized replay draws place i from part i of its transitions.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfagents_batch import nest, seeds
from tfagents_batch.errors import UserError
from tfagents_batch.graph.inputs import InputSchedule
from tfagents_batch.graph.state import variable
from tfagents_batch.logged.table import RowTable
from tfagents_batch.logged.table_settings import TableSettings
from tfagents_batch.metrics import Metrics
from tfagents_batch.ops import masked
from tfagents_batch.schedules import Constant, Schedule
from tfagents_batch.types import EnvSpec, Trajectory, Windows


class PriorRows(tf.Module):
    """Logged rows that take a share of every batch of a replay.

    Args:
      table: rows in memory; a draw has one for each window of a batch.
      share: expected part of a batch that is rows, by environment steps.
      wanted: the windows that the algorithm samples.
    """

    def __init__(self, table: RowTable, share: Schedule, wanted: Windows):
        super().__init__()
        self._table, self._share = table, InputSchedule(share)
        self._length = wanted.length
        self._gamma = variable(tf.constant(wanted.gamma, tf.float32))
        self._updates = variable(tf.constant(0, tf.int64))
        # Places of the newest batch: those of rows, and those of windows with steps.
        nothing = tf.zeros([wanted.batch_size], tf.bool)
        self._places = [variable(nothing) for _ in range(2)]
        self._errors = [variable(tf.constant(0.0)) for _ in range(2)]

    @property
    def places(self) -> tf.Tensor:
        """bool ``[N]``: places of the newest batch that are rows."""
        return self._places[0].read_value()

    def mixed(self, windows: Trajectory, seed, step) -> Trajectory:
        """Return windows, ``[T+1, N, ...]``, of which a share is replaced by rows.

        The expected share is exact: what is left of a place is drawn.
        """
        size = self._places[0].shape[0]
        chance, start = tf.unstack(seeds.uniform([2], seeds.key(seed, "prior")))
        count = tf.cast(tf.floor(self._share(step) * size + chance), tf.int32)
        first = tf.cast(start * size, tf.int32)
        places = (tf.range(size) + first) % size < count

        updates = self._updates.read_value()
        self._updates.assign(updates + 1)
        rows = self._padded(self._table.rows(seed, updates))
        behavior = {"discount": tf.fill(windows.mask.shape, self._gamma.read_value())}
        weight = tf.where(places, 1.0, windows.weight)
        windows = windows._replace(behavior=behavior, weight=())
        rows = nest.map(lambda row, like: tf.cast(row, like.dtype), rows, windows)
        mixed = nest.where(places[tf.newaxis], rows, windows)
        self._places[0].assign(places)
        self._places[1].assign(mixed.mask[0] & ~places)
        return mixed._replace(weight=weight)

    def feedback(self, priority: tf.Tensor) -> None:
        """Measure the absolute TD errors of the newest batch, f32 ``[N]``."""
        if not tf.is_tensor(priority):
            return
        for mean, places in zip(self._errors, self._places, strict=True):
            mean.assign(masked.mean(priority, places.read_value()))

    def metrics(self) -> Metrics:
        """Return the share of rows in the newest batch, and TD errors of both parts."""
        rows, windows = (mean.read_value() for mean in self._errors)
        return {
            "replay/prior_share": tf.reduce_mean(tf.cast(self.places, tf.float32)),
            "replay/prior_td_error": rows,
            "replay/collected_td_error": windows,
        }

    def named_variables(self) -> dict[str, tf.Variable]:
        """Return the number of updates, by which rows are drawn."""
        return {"updates": self._updates}

    def _padded(self, rows: Trajectory) -> Trajectory:
        """Return rows ``[1, N]`` as windows, which end after one action."""
        more = self._length - 2

        def longer(x):
            return tf.concat([x, tf.repeat(x[-1:], more, axis=0)], 0) if more else x

        steps = nest.map(longer, rows.steps)
        after = tf.range(self._length)[:, tf.newaxis] > 1
        steps = steps._replace(first=steps.first | after)
        behavior = {"discount": longer(rows.behavior["discount"])}
        return Trajectory(steps, longer(rows.action), behavior)


def check(config: Any, wanted: Windows) -> TableSettings:
    """Return the settings of the rows of a replay, checked beside its windows.

    UserError if rows and windows cannot be in one batch, or if a share means nothing.
    """
    share = config.prior_share
    if isinstance(share, Constant) and share.value in (0, 1):
        advice = (
            "leave replay.prior out"
            if share.value == 0
            else "that is training from rows: pass the timeline as --data instead"
        )
        raise UserError(
            f"replay.prior_share is {share}; expected a number between 0 and 1; "
            f"{advice}"
        )
    if wanted.no_rows:
        raise UserError(f"replay.prior cannot be used: {wanted.no_rows}")
    table = TableSettings(config.prior)
    table.check_gamma(wanted.gamma)
    table.check_n_step(wanted.n_step)
    table.check_discount_per_step()
    if table.preprocessing() is not None:
        raise UserError(
            f"the features of {config.prior} are normalized by a file, which the "
            "environment's observations are not; make a timeline without --features"
        )
    if table.streams:
        raise UserError(
            f"the rows of {config.prior} take more than half of the free memory; "
            "expected rows that fit beside the replay; make a timeline of fewer rows"
        )
    return table


def check_spaces(config: Any, env: EnvSpec) -> None:
    """Refuse rows that cannot be steps of the environment."""
    TableSettings(config.prior).check_spaces(env)


def required_bytes(config: Any) -> int:
    """Return the bytes of the rows in memory."""
    return TableSettings(config.prior).required_bytes()


def open_rows(config: Any, wanted: Windows) -> PriorRows:
    """Read the rows."""
    table = TableSettings(config.prior).in_memory(wanted.batch_size)
    return PriorRows(table, config.prior_share, wanted)
