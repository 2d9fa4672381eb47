"""Arrival of bodies: limits of their size, their time, and the memory of all of them.

The HTTP server limits heads, but waits for ever for a body of any size.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

from tfagents_batch.serving.server.refused import GONE, Refused

SMALL = 1 << 12  # bytes of a body that needs no room, as connections are limited
_MIDDLE = 1 << 16  # bytes of a body that is read in no time
_MIDDLE_ROOM = 1 << 25  # bytes of all of them
_MOST_WAITING = 4096  # bodies; beyond it, the oldest one ends for each new one,
_SOON = 0.5  # if it waits for as many seconds: others arrive at once


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
        # Tasks that wait for a body, the oldest first, and since when.
        self._waiting: dict[Any, float] = {}
        self.slow = 0
        self._reasons: dict[Any, Refused] = {}  # why they were ended

    async def read(self, headers: Any, protocol: Any) -> bytes:
        """Return the body of a request.

        Args:
          headers: of RSGI.
          protocol: of RSGI; awaiting it reads the whole body.

        Raises:
          Refused: with 413 if it is too long, with 408 if it takes too long, and with
            429 if many long bodies arrive together.
        """
        length = headers.get("content-length")
        if length is None and "transfer-encoding" not in headers:
            return b""
        size = self._most if length is None else int(length)
        room, is_long = size if SMALL < size <= self._most else 0, size > _MIDDLE
        if room > self._room[is_long]:
            raise _many()
        self._room[is_long] -= room
        if len(self._waiting) >= _MOST_WAITING:
            self._end_before(time.monotonic() - _SOON, 1, _many())
        task = asyncio.current_task()
        self._waiting[task] = time.monotonic()
        try:
            if length is None or size > self._most:
                return await self._read_parts(protocol, size)
            return await protocol()
        except asyncio.CancelledError:
            raise self._reasons.pop(task) from None
        except RuntimeError:  # the connection ended
            raise Refused(GONE, "the client is gone") from None
        finally:
            self._room[is_long] += room
            self._waiting.pop(task, None)

    async def _read_parts(self, protocol: Any, size: int) -> bytes:
        """Read to the end, also of a body that is too long, so that an answer is read.

        Clients send all of a body before they look at the answer.
        """
        parts, found = [], 0
        async for part in protocol:
            found += len(part)
            if max(found, size) <= self._most:
                parts.append(part)
        if max(found, size) > self._most:
            raise Refused(
                413,
                f"the body has {max(found, size):,} bytes; expected at most "
                f"{self._most:,}: send less, or start the server with a larger "
                "--max_body",
            )
        return b"".join(parts)

    def end_slow(self) -> None:
        """End what waits for longer than the time for a body."""
        slow = Refused(408, "the body did not arrive in time; send it faster")
        oldest = time.monotonic() - self._seconds
        self._end_before(oldest, len(self._waiting), slow)
        self.slow = len(self._waiting)

    def _end_before(self, time: float, most: int, reason: Refused) -> None:
        """End what waits since a time or before, the oldest first."""
        for task, since in [*itertools.islice(self._waiting.items(), most)]:
            if since > time:
                break
            del self._waiting[task]
            self._reasons[task] = reason
            task.cancel()


def _many() -> Refused:
    return Refused(429, "many bodies arrive; try again later", 1)
