"""Ids of requests: the time of the decision, the process, and a number."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable

TIME_DIGITS = 14  # hexadecimal digits of microseconds since 1970


class RequestIds:
    """Ids that no other process has; their text is in the order of time."""

    def __init__(self) -> None:
        self._process = secrets.token_hex(4)
        self._count = itertools.count()

    def at(self, microseconds: int) -> Callable[[], str]:
        """Return a function that makes ids of decisions at a time.

        Args:
          microseconds: since 1970.
        """
        begin = f"{microseconds:0{TIME_DIGITS}x}-{self._process}-"
        return lambda: f"{begin}{next(self._count):x}"
