"""The pools of this process: checked together, and warned about before a fork."""

from __future__ import annotations

import os
import warnings
import weakref
from typing import Any

POOLS: weakref.WeakSet[Any] = weakref.WeakSet()


_warned_of_fork = False


def _before_fork() -> None:
    global _warned_of_fork
    if _warned_of_fork or not any(pool.num_workers and pool.ok for pool in POOLS):
        return
    _warned_of_fork = True
    warnings.warn(
        "this process is forked while environments run in worker processes: the child "
        "must not use them, and TensorFlow hangs in a forked child; start processes "
        "with multiprocessing's 'spawn' method or subprocess",
        RuntimeWarning,
        stacklevel=2,
    )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork)
