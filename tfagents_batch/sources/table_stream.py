"""Logged rows that do not fit into memory, read block by block ahead of the updates.

The draws are those of ``table``, made on the host. While a program updates, a thread
gathers the rows of the next updates; another one reads the next block from the files.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import tensorflow as tf

from tfagents_batch import nest, seeds
from tfagents_batch.devices import placement
from tfagents_batch.envs.checking.findings import Place
from tfagents_batch.graph import arrays
from tfagents_batch.interfaces import Policy
from tfagents_batch.logged import table
from tfagents_batch.logged.table import Sizes
from tfagents_batch.metrics import Metrics
from tfagents_batch.offline.table_reader import Columns
from tfagents_batch.types import Collected

UPDATES = 50  # of a fetch, at most


class TableStream:
    """Source of rows in files; an ``interfaces.HostSource``.

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
        self._draws = tf.function(self._draw, autograph=False)

    def start(self, compiled: bool) -> None:
        """Do nothing: it runs no program that XLA could compile."""

    def fetch(self, step: int) -> Collected:
        """Return the rows of the next updates, see ``interfaces.HostSource``."""
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
        joined = table.trajectory(rows)  # [T, K N, ...]
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

    def _draw(self, step: tf.Tensor) -> tuple[Place, tf.Tensor, tf.Tensor]:
        """Return place and rows ``[UPDATES, N]`` of updates, and the next block."""
        steps = step + tf.range(UPDATES, dtype=tf.int64)
        keys = seeds.iteration_seed(tf.constant(self._seed), steps)
        now = table.place(self._sizes, step)
        index = [
            table.draw(self._sizes, key, now.block) for key in tf.unstack(keys, UPDATES)
        ]
        after = table.place(self._sizes, step + now.left).block
        return now, tf.stack(index), after

    def _block(self, number: int, wait: bool = True) -> Any:
        if number not in self._blocks:
            self._blocks[number] = self._thread.submit(self._read, number)
        return self._blocks[number].result() if wait else None
