"""What this process is doing now, for whoever shows it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

_current = ""


def now() -> str:
    """Return what is being done, such as "compiling"; empty while nothing takes long.

    Any thread may call it.
    """
    return _current


@contextlib.contextmanager
def doing(text: str) -> Iterator[None]:
    """Say what is done inside the context."""
    global _current
    before, _current = _current, text
    try:
        yield
    finally:
        _current = before
