"""Refusals of requests, and the arrival of bodies, which are refused beyond limits.

The HTTP server limits heads, but waits for ever for a body of any size. The limits are
those of size, time, and the memory of all bodies.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

GONE = 499  # status of requests whose client is gone, in measures only
SMALL = 1 << 12  # bytes of a body that needs no room, as connections are limited
_MIDDLE = 1 << 16  # bytes of a body that is read in no time
_MIDDLE_ROOM = 1 << 25  # bytes of all of them
_MOST_WAITING = 4096  # bodies; beyond it, the oldest one ends for each new one,
_SOON = 0.5  # if it waits for as many seconds: others arrive at once, or in turn
_MANY = 429, "many bodies arrive; try again later", 1


class Refused(Exception):
    """Request that gets no decision.

    It has the status of HTTP, and the seconds after which it may succeed, or None.
    """

    def __init__(self, status: int, message: str, retry_seconds: int | None = None):
        super().__init__(message)
        self.status, self.retry_seconds = status, retry_seconds


class Arrivals:
    """Reader of bodies, in one event loop.

    Args:
      most: bytes of a body.
      seconds: time in which a body has to arrive.

    Attributes:
      slow: number of bodies that arrive slowly; they do not hold up others.
    """

    def __init__(self, most: int, seconds: float):
        self._most, self._seconds = most, seconds
        # Bytes that may still arrive, of bodies by whether they are long. There is room
        # for one of the longest, as parsing it holds up all others for 0.2 s.
        self._room = {False: _MIDDLE_ROOM, True: most}
        self._taken: dict[Any, int] = {}  # room of each task
        # Tasks that wait for a body, the oldest first, and since when.
        self._waiting: dict[Any, float] = {}
        self._reasons: dict[Any, Refused] = {}  # why they were ended
        self.slow = 0

    async def read(self, headers: Any, protocol: Any) -> bytes:
        """Return the body of a request; awaiting the protocol of RSGI reads it.

        Raises:
          Refused: with 413 if it is too long, with 408 if it takes too long, and with
            429 if many bodies arrive together.
        """
        length = headers.get("content-length")
        if length is None and "transfer-encoding" not in headers:
            return b""
        size, task = int(length or 0), asyncio.current_task()
        if len(self._waiting) >= _MOST_WAITING:
            self._end_before(time.monotonic() - _SOON, 1, Refused(*_MANY))
        try:
            if size <= self._most:
                self._take(task, size)
            self._waiting[task] = time.monotonic()
            if length is None or size > self._most:
                return await self._read_parts(task, protocol, size)
            return await protocol()
        except asyncio.CancelledError:
            raise self._reasons.pop(task, Refused(*_MANY)) from None
        except RuntimeError:  # the connection ended
            raise Refused(GONE, "the client is gone") from None
        finally:
            self._take(task, 0)
            self._waiting.pop(task, None)

    def _take(self, task: Any, size: int) -> None:
        """Take room for a body instead of what its task has."""
        before = self._taken.pop(task, 0)
        self._room[before > _MIDDLE] += before
        if size > SMALL:
            if size > self._room[size > _MIDDLE]:
                raise Refused(*_MANY)
            self._room[size > _MIDDLE] -= size
            self._taken[task] = size

    async def _read_parts(self, task: Any, protocol: Any, size: int) -> bytes:
        """Read to the end, also of a body that is too long, so that an answer is read.

        Clients send all of a body before they look at the answer.
        """
        parts, arrived = [], 0
        async for part in protocol:
            arrived += len(part)
            size = max(arrived, size)
            if size <= self._most:
                parts.append(part)
                if arrived > self._taken.get(task, SMALL):
                    self._take(task, min(self._most, max(_MIDDLE, 4 * arrived)))
            else:
                parts.clear()
        if size > self._most:
            raise Refused(
                413,
                f"the body has {size:,} bytes; expected at most {self._most:,}: send "
                "less, or start the server with a larger --max_body",
            )
        return b"".join(parts)

    def end_slow(self) -> None:
        """End what waits for longer than the time for a body."""
        slow = Refused(408, "the body did not arrive in time; send it faster")
        now = time.monotonic()
        self._end_before(now - self._seconds, len(self._waiting), slow)
        self.slow = sum(since < now - _SOON for since in self._waiting.values())

    def _end_before(self, time: float, most: int, reason: Refused) -> None:
        """End what waits since a time or before, the oldest first."""
        for task, since in [*itertools.islice(self._waiting.items(), most)]:
            if since > time:
                break
            del self._waiting[task]
            self._reasons[task] = reason
            task.cancel()
