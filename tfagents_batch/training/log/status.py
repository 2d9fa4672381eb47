"""What this process is doing now, for whoever shows it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

_current = ""


def now() -> str:
    """Return what is being done, such as "compiling"; empty while nothing takes long.

    Any thread may call it.
    """
    return _current


@contextlib.contextmanager
def doing(text: str) -> Iterator[Callable[[str], None]]:
    """Say what is done inside the context; yield a function that changes the text."""
    before = _current
    _change(text)
    try:
        yield _change
    finally:
        _change(before)


def _change(text: str) -> None:
    global _current
    _current = text
