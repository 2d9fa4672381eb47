"""How large packages are imported."""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Iterator

STARTED = time.time()  # this is the first module of the package that is imported


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Python's collector of cycles rests.

    Importing TensorFlow makes hundreds of thousands of objects that stay. Collecting
    looks through all of them each time that their number has grown by a quarter.
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
    """Have packages seem not to be installed, but for those imported before."""
    absent = [name for name in packages if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]
