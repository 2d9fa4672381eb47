"""Logged rows of a timeline: experience without an environment.

A row is complete in itself, unlike a step of a replay: it holds both states, the reward
and the factor of the value after it. A table in memory is variables, from which rows
are drawn uniformly; ``TableStream`` reads one that is larger, block by block.

Draws depend on seed and step alone. A table of more than ``block_rows`` rows is used
block by block, in another order in every pass; its rows were shuffled when they were
written. A seed gives the same weights from memory and from files.

Which block an update draws from: passes follow one another like rows on a tape, and the
k-th update owns the k-th ``batch_size`` rows of it. It takes the block of a random one
of these. With blocks A and B of 100 rows and batches of 60, updates own rows 0 to 59,
60 to 119 and so on, so the second one draws from A with probability 40 / 60, otherwise
from B. So all rows are drawn equally often, also from blocks smaller than a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfagents_batch import nest, seeds
from tfagents_batch.devices import placement
from tfagents_batch.graph import arrays, state
from tfagents_batch.interfaces import Policy
from tfagents_batch.metrics import Metrics
from tfagents_batch.offline import table_reader
from tfagents_batch.offline.table_reader import Columns
from tfagents_batch.tracing import anew
from tfagents_batch.types import Collected, TimeStep, Trajectory

FEATURES, MASK = "action_features", "action_mask"  # parts of an observation
STATE, PRESENCE = "state", "presence"  # the part beside them, and what is there
_PARTS = ("", "next_")  # of columns, at both ends of a transition
_LARGE = 2**24  # bytes
_ENDLESS = 2**31
UPDATES = 50  # of a fetch, at most
_USED = ("state", "reward", "discount", "terminated", "action", "mask", "candidates")


class Sizes(NamedTuple):
    """Sizes of the draws."""

    blocks: tuple[int, ...]  # number of rows of each block, at least 1
    batch_size: int  # rows of an update


class TablePlace(NamedTuple):
    """Place of an update in the passes over a table."""

    block: tf.Tensor  # int32 [], number of the block
    # i64 [], updates of this block from here on in this pass; _ENDLESS if there is no
    # other block
    left: tf.Tensor


class RowTable(tf.Module):
    """Source of rows in memory; an ``experience.Source``.

    Args:
      blocks: columns of each block, see ``offline.table_reader.read``; read one by one.
      sizes: sizes of the draws.
    """

    envs = ()
    compilable = True

    def __init__(self, blocks: Iterator[Columns], sizes: Sizes):
        super().__init__()
        self._sizes = lambda: sizes  # tf.Module rewraps the containers it holds
        if len(sizes.blocks) == 1:
            joined = next(blocks)  # without a copy
        else:
            joined = table_reader.joined(blocks, sum(sizes.blocks))
        self._names = tuple(joined)
        self._dtypes = [tf.as_dtype(x.dtype) for x in joined.values()]
        self._columns = [state.variable(_tensor(x)) for x in joined.values()]

    def collect(self, seed, step) -> Collected:
        """Count an update."""
        del seed, step
        one = tf.constant(1)
        return Collected(tf.cast(one, tf.int64), tf.constant(True), one, {})

    def sample(self, collected: Collected, seed, step) -> Trajectory:
        """Draw rows: a trajectory of one action, ``[1, batch_size]``."""
        del collected
        return self.rows(seed, step)

    def rows(self, seed, step) -> Trajectory:
        """Draw the rows of an update; ``step`` is the number of updates before it."""
        sizes = self._sizes()
        block = place(sizes, step).block
        index = draw(sizes, seed, block)
        first = tf.constant(np.cumsum([0, *sizes.blocks[:-1]]), tf.int32)
        index += first[block]
        columns = zip(self._names, self._columns, self._dtypes, strict=True)
        rows = {name: tf.cast(tf.gather(x, index), kind) for name, x, kind in columns}
        return trajectory(rows)

    def feedback(self, priority: tf.Tensor) -> None:
        """Ignore priorities: draws are uniform."""

    def named_variables(self) -> dict[str, tf.Variable]:
        """Return no variables: rows do not change."""
        return {}


class TableStream:
    """Source of rows in files; an ``experience.HostSource``.

    Args:
      read: returns the columns of the rows that a block has for training; called in
        another thread.
      sizes: sizes of the draws.
      seed, steps: seed and number of updates of the run.
    """

    envs = ()
    compilable = True

    def __init__(
        self, read: Callable[[int], Columns], sizes: Sizes, seed: int, steps: int
    ):
        self._read, self._sizes = read, sizes
        self._seed, self._steps = seed, steps
        self._thread = ThreadPoolExecutor(1, "tfagents_batch-read")
        self._blocks: dict[int, Future[Columns]] = {}
        self._draws = tf.function(anew(self._draw), autograph=False)

    def start(self, compiled: bool) -> None:
        """Do nothing: it runs no program that XLA could compile."""

    def fetch(self, step: int) -> Collected:
        """Return the rows of the next updates, see ``experience.HostSource``."""
        with placement.host():
            now, index, after = self._draws(arrays.argument(step, tf.int64))
        left = max(self._steps - step, 1)  # one is fetched ahead at the end
        count = min(UPDATES, left, int(now.left))  # all of one block
        number, index = int(now.block), index.numpy()[:count]
        columns = self._block(number)
        self._block(int(after), wait=False)
        for other in self._blocks.keys() - {number, int(after)}:
            del self._blocks[other]
        rows = {k: tf.convert_to_tensor(x[index.ravel()]) for k, x in columns.items()}
        joined = trajectory(rows)  # [T, K N, ...]
        stacked = nest.map(lambda x: tf.stack(tf.split(x, count, 1)), joined)
        return Collected(count, True, count, {}, stacked)

    def publish(self, policy: Policy) -> None:
        """Do nothing: nobody acts."""

    def report(self, seconds: float) -> Metrics:
        """Return no metrics."""
        del seconds
        return {}

    def check(self) -> None:
        """Do nothing: a failure is raised by the next fetch."""

    def traces(self) -> int:
        """Return how often the program of the draws was traced."""
        return max(1, self._draws.experimental_get_tracing_count())

    def named_variables(self) -> dict[str, Any]:
        """Return no variables: draws depend on the step alone."""
        return {}

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(cancel_futures=True)

    def _draw(self, step: tf.Tensor) -> tuple[TablePlace, tf.Tensor, tf.Tensor]:
        """Return place and rows ``[UPDATES, N]`` of updates, and the next block."""
        steps = step + tf.range(UPDATES, dtype=tf.int64)
        keys = seeds.iteration_seed(tf.constant(self._seed), steps)
        now = place(self._sizes, step)
        index = [draw(self._sizes, key, now.block) for key in tf.unstack(keys, UPDATES)]
        after = place(self._sizes, step + now.left).block
        return now, tf.stack(index), after

    def _block(self, number: int, wait: bool = True) -> Any:
        if number not in self._blocks:
            self._blocks[number] = self._thread.submit(self._read, number)
        return self._blocks[number].result() if wait else None


def _tensor(column: np.ndarray) -> tf.Tensor:
    """Return a column as a tensor, without a copy if it is large.

    TensorFlow would copy it twice, and a variable takes the tensor's memory.
    """
    if column.dtype != np.float32 or column.nbytes < _LARGE:
        return tf.convert_to_tensor(column)
    return tf.experimental.dlpack.from_dlpack(column.__dlpack__())


def place(sizes: Sizes, step: Any) -> TablePlace:
    """Return the place of an update; ``step`` is i64 ``[]``, the updates before it."""
    if len(sizes.blocks) == 1:
        return TablePlace(tf.constant(0), tf.constant(_ENDLESS, tf.int64))
    step, rows = tf.cast(step, tf.int64), tf.constant(sizes.blocks, tf.int64)
    row, total = _row(sizes, step), sum(sizes.blocks)
    turn = row // total
    order = _order(len(sizes.blocks), turn)
    ends = turn * total + tf.cumsum(tf.gather(rows, order))
    number = tf.reduce_sum(tf.cast(ends <= row, tf.int32))
    end = ends[number]
    last = end // sizes.batch_size  # the update whose rows are on both sides of the end
    left = last - step + tf.cast(_row(sizes, last) < end, tf.int64)
    return TablePlace(order[number], left)


def _row(sizes: Sizes, step: tf.Tensor) -> tf.Tensor:
    """Return the row of all passes at which an update points, i64 ``[]``."""
    size = sizes.batch_size
    return step * size + tf.cast(seeds.iteration_seed(0, step, "row"), tf.int64) % size


def draw(sizes: Sizes, seed: Any, block: Any) -> tf.Tensor:
    """Draw the rows of an update, int32 ``[batch_size]``, positions in its block.

    The seed, of the update, and the number of the block are int32 ``[]``.
    """
    rows = tf.constant(sizes.blocks, tf.int32)[block]
    return seeds.indices(sizes.batch_size, seeds.key(seed, "table"), rows)


def _order(count: int, turn: tf.Tensor) -> tf.Tensor:
    """Return the order of the blocks in a pass, int32 ``[count]``."""
    key = seeds.key(seeds.iteration_seed(0, turn, "blocks"), "blocks")
    return tf.argsort(tf.cast(seeds.words([count], key), tf.int64), stable=True)


def used(columns: Columns, masked: bool) -> Columns:
    """Return the columns of a trajectory, with masks of actions if it is ``masked``."""
    names = _USED if masked else set(_USED) - {"mask"}
    return {k: x for k, x in columns.items() if k.removeprefix("next_") in names}


def trajectory(rows: Mapping[str, tf.Tensor]) -> Trajectory:
    """Return rows ``[N, ...]`` as a trajectory of one action.

    A row whose next action is not known has the number ``UNKNOWN`` for it, which lies
    below every action, so that SARSA leaves it out.
    """
    ends = [_observation(rows, part) for part in _PARTS]
    observation = nest.map(lambda x, y: tf.stack([x, y]), *ends)
    reward, end = rows["reward"], rows["terminated"]
    no = tf.zeros_like(end)
    steps = TimeStep(
        observation,
        tf.stack([tf.zeros_like(reward), reward]),
        tf.stack([no, no]),
        tf.stack([no, end]),
        tf.stack([no, no]),
        {},
    )
    behavior = {
        "discount": rows["discount"][tf.newaxis],
        "next_action": rows["next_action"][tf.newaxis],
    }
    return Trajectory(steps, rows["action"][tf.newaxis], behavior)


def _observation(rows: Mapping[str, tf.Tensor], part: str) -> Any:
    parts = {
        STATE: rows[f"{part}state"],
        FEATURES: rows.get(f"{part}candidates"),
        MASK: rows.get(f"{part}mask"),
    }
    parts = {name: x for name, x in parts.items() if x is not None}
    return parts if len(parts) > 1 else parts[STATE]
