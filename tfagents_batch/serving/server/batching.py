"""Queue of decisions, which are taken in batches.

A batch takes everything that waits, and starts when all requests that the server has
read are in it. While a model runs, requests arrive, and the next batch is larger. So
there is no time to wait for and no size to tune. Requests that would wait too long are
refused before they are read.
"""

from __future__ import annotations

import asyncio
import collections
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

from tfagents_batch.serving.server.arrivals import Refused

# From the items of each request to the results of each, or why it has none.
Work = Callable[[Sequence[Sequence[Any]]], Sequence[Sequence[Any] | Exception]]

# Seconds that an item takes at least besides the run of the model. On slow machines the
# seconds of a batch include what this leaves out.
ITEM_SECONDS = 3e-5
_REMEMBERED = 16  # batches


class Batches:
    """Queue of items, bounded by time, and the work on them; used in one event loop.

    Args:
      work: function of requests with at most ``most_together`` items in all. It returns
        for each request a result of each item, or an exception.
      is_slow: whether the work is to run in a thread. Quick work runs in the event
        loop, because handing it to a thread and back takes longer than the work.
      executor: of slow work.
      count_requests: returns the number of requests that are being served. A batch
        starts when as many wait: then no other request can join it.
      most_seconds: time that an item may wait.
      most_together: items of a batch.

    Attributes:
      waiting: number of items that wait.
      batches, items: numbers of the batches and items that were worked on.
    """

    def __init__(
        self,
        work: Work,
        is_slow: Callable[[], bool],
        executor: Executor,
        count_requests: Callable[[], int],
        most_seconds: float,
        most_together: int,
    ):
        self._work, self._is_slow, self._executor = work, is_slow, executor
        self._most_seconds, self._most_together = most_seconds, most_together
        self._count_requests = count_requests
        self._queue: collections.deque = collections.deque()
        self._scheduled = self._running = False  # in the event loop, and in a thread
        self._began = self._ended = 0.0  # times of the last batch
        # Seconds of the last batches, without those of their items.
        self._seconds = collections.deque([0.0], _REMEMBERED)
        self.waiting = self.batches = self.items = 0

    def is_full(self) -> bool:
        """Return whether another item would wait too long, after the last batches.

        A batch is worked on from the end of the one before, or from its oldest item on.
        This includes all else that the event loop does meanwhile.
        """
        count = max(self.waiting, self._count_requests())
        mean = sum(self._seconds) / len(self._seconds)
        before = count // self._most_together * mean
        if self._running:
            before += max(0.0, self._began + mean - time.perf_counter())
        return before + count * ITEM_SECONDS > self._most_seconds

    def submit(self, items: Sequence[Any]) -> asyncio.Future:
        """Queue the items of a request; return the future of their results.

        Raises:
          Refused: with 413, if they are no batch.
        """
        if len(items) > self._most_together:
            raise Refused(
                413,
                f"observations has {len(items)} entries; expected at most "
                f"{self._most_together}: send several requests",
            )
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._queue.append((items, future, time.perf_counter()))
        self.waiting += len(items)
        if self._running:
            return future
        if len(self._queue) >= self._count_requests():
            self._start()
        elif not self._scheduled:
            self._scheduled = True
            # Requests that were read in the same round of the event loop come first.
            loop.call_soon(self._start_scheduled)
        return future

    def _start_scheduled(self) -> None:
        self._scheduled = False
        if self._queue and not self._running:
            self._start()

    def _start(self) -> None:
        """Work on the oldest requests that fit into a batch."""
        groups, futures, size = [], [], 0
        self._began = max(self._queue[0][2], self._ended)
        while self._queue:
            items, future, _ = self._queue[0]
            if size + len(items) > self._most_together:
                break
            self._queue.popleft()
            groups.append(items)
            futures.append(future)
            size += len(items)
        self.waiting -= size
        self.batches, self.items = self.batches + 1, self.items + size
        self._began += size * ITEM_SECONDS
        if self._is_slow():
            self._running = True
            loop = asyncio.get_running_loop()
            running = loop.run_in_executor(self._executor, self._work, groups)
            running.add_done_callback(lambda done: self._end(futures, done.result))
        else:
            self._end(futures, lambda: self._work(groups))

    def _end(
        self, futures: Sequence[asyncio.Future], results: Callable[[], Sequence[Any]]
    ) -> None:
        """Hand out results, or the error, and go on with what waits."""
        try:
            answers = results()
        except Exception as error:
            answers = [error] * len(futures)
        for future, answer in zip(futures, answers, strict=True):
            if future.done():  # its client is gone
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        self._ended = time.perf_counter()
        self._seconds.append(max(0.0, self._ended - self._began))
        self._running = False
        if self._queue and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._start_scheduled)
