"""Compiled programs: kept for later starts, and freed when a run ends.

Without this package, runs would give the same results but start more slowly. Other code
needs only the functions below.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tfagents_batch.training.compilation import compile_cache, executables
from tfagents_batch.training.compilation.compile_cache import enable, publish, root
from tfagents_batch.training.compilation.program_store import Saver, allow_storing
from tfagents_batch.training.compilation.stablehlo import name_evaluation

__all__ = [
    "Saver",
    "allow_storing",
    "during_run",
    "enable",
    "name_evaluation",
    "publish",
    "root",
]


@contextlib.contextmanager
def during_run() -> Iterator[None]:
    """Save the programs compiled in this context, and free them, at its end."""
    with executables.limited_to_run():
        try:
            yield
        finally:
            compile_cache.publish()
