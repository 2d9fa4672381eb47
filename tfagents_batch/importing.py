"""Faster imports of large packages."""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Iterator

STARTED = time.time()  # this is the first module of the package that is imported


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Disable Python's cyclic garbage collector.

    Importing TensorFlow creates hundreds of thousands of permanent objects, and the
    collector scans all of them each time their number has grown by a quarter.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def hidden(*packages: str) -> Iterator[None]:
    """Make packages look as if not installed, unless already imported."""
    absent = [name for name in packages if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]
