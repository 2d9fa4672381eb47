"""Timeouts of requests that arrive slowly.

The HTTP server waits for ever for the rest of a request. A look at its connections now
and then costs requests nothing, unlike a timer for each of them.
"""

from __future__ import annotations

import json
import time
from typing import Any

TEXT = json.dumps({"error": "the request did not arrive in time; send it faster"})
ANSWER = (
    "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n"
    f"content-type: application/json\r\ncontent-length: {len(TEXT)}\r\n\r\n{TEXT}"
).encode()


class SlowClients:
    """Connections of uvicorn whose request is incomplete.

    Args:
      connections: of the HTTP server.
      seconds: time in which the head of a request, and then its body, has to arrive.

    Attributes:
      closed: number of connections that were closed.
    """

    def __init__(self, connections: set[Any], seconds: float):
        self._connections, self._seconds = connections, seconds
        self._since: dict[Any, tuple[Any, float]] = {}
        self.closed = 0

    def check(self) -> None:
        """Answer 408 to connections that wait too long, and close them."""
        now, old = time.monotonic(), self._since
        self._since = {}
        for each in list(self._connections):
            waits_for = _incomplete(each)
            if waits_for is None:
                continue
            known = old.get(each)
            since = known[1] if known and known[0] == waits_for else now
            if now - since < self._seconds:
                self._since[each] = waits_for, since
            elif not each.transport.is_closing():
                each.transport.write(ANSWER)
                each.transport.close()
                self.closed += 1


def _incomplete(connection: Any) -> tuple[int, str] | None:
    """Return which part of which request a connection waits for; None for none.

    A connection between two requests has a timer of uvicorn.
    """
    cycle = getattr(connection, "cycle", None)
    if cycle is None or cycle.response_complete:
        if getattr(connection, "timeout_keep_alive_task", None) is not None:
            return None
        return id(cycle), "head"
    return (id(cycle), "body") if cycle.more_body else None
