"""Queue of decisions, which are taken in batches.

A batch takes everything that waits, and starts when all requests that the server has
read are in it. While a model runs, requests arrive, and the next batch is larger. So
there is no time to wait for and no size to tune.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

from tfagents_batch.serving.server.refused import Refused

Work = Callable[[Sequence[Any]], Sequence[Any]]


class Batches:
    """Bounded queue of items and the work on them; used in one event loop.

    Args:
      work: function of at most ``most_together`` items that returns a result of each.
      is_slow: whether the work is to run in a thread. Quick work runs in the event
        loop, because handing it to a thread and back takes longer than the work.
      executor: of slow work.
      count_requests: returns the number of requests that are being served. A batch
        starts when as many wait: then no other request can join it.
      most_waiting: items that may wait.
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
        most_waiting: int,
        most_together: int,
    ):
        self._work, self._is_slow, self._executor = work, is_slow, executor
        self._most_waiting, self._most_together = most_waiting, most_together
        self._count_requests = count_requests
        self._queue: collections.deque = collections.deque()
        self._scheduled = self._running = False  # in the event loop, and in a thread
        self.waiting = self.batches = self.items = 0

    def submit(self, items: Sequence[Any]) -> asyncio.Future:
        """Queue the items of a request; return the future of their results.

        Raises:
          Refused: with 429, if too many wait; with 413, if they are no batch.
        """
        if len(items) > self._most_together:
            raise Refused(
                413,
                f"observations has {len(items)} entries; expected at most "
                f"{self._most_together}: send several requests",
            )
        if self.waiting + len(items) > self._most_waiting:
            raise Refused(
                429,
                f"{self.waiting} decisions wait, and at most {self._most_waiting} may; "
                "try again later",
                retry_seconds=1,
            )
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._queue.append((items, future))
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
        groups, together = [], []
        while self._queue:
            items, future = self._queue[0]
            if len(together) + len(items) > self._most_together:
                break
            self._queue.popleft()
            groups.append((len(items), future))
            together += items
        self.waiting -= len(together)
        self.batches, self.items = self.batches + 1, self.items + len(together)
        loop = asyncio.get_running_loop()
        if self._is_slow():
            self._running = True
            running = loop.run_in_executor(self._executor, self._work, together)
            running.add_done_callback(lambda done: self._end(groups, done.result))
        else:
            self._end(groups, lambda: self._work(together))

    def _end(self, groups: list, result: Callable[[], Sequence[Any]]) -> None:
        """Hand out results, or the error, and go on with what waits."""
        try:
            found = result()
        except Exception as error:
            for _, future in groups:
                if not future.done():
                    future.set_exception(error)
        else:
            first = 0
            for count, future in groups:
                if not future.done():  # else its client is gone
                    future.set_result(found[first : first + count])
                first += count
        self._running = False
        if self._queue and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._start_scheduled)
