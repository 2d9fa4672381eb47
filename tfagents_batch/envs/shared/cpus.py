"""Choice of how the learner and its workers wait for each other."""

from __future__ import annotations

import os
from typing import NamedTuple

_POLL_MICROSECONDS = 300  # usually longer than the other side takes


class Waiting(NamedTuple):
    """Times to poll before sleeping, and the cores of the workers.

    A sleep and a wake-up take tens of microseconds, and more on a virtual machine. Some
    environments step as fast. So each side polls before it sleeps, and yields the core
    while it polls.
    """

    hub: int  # microseconds
    worker: int  # microseconds
    # Of each worker, so that two never share one while another is free; None lets the
    # system choose.
    cores: tuple[int, ...] | None


def choose(num_workers: int, cores: list[int], pin: bool | None = None) -> Waiting:
    """Choose how the workers of a batch wait, on the cores that this process may use.

    By default every worker is pinned to a core if there are as many workers as cores.
    With fewer, other programs may be pinned to the same cores.
    """
    if pin is None:
        pin = num_workers == len(cores)
    pinned = tuple(cores[i % len(cores)] for i in range(num_workers)) if pin else None
    if num_workers < len(cores):
        return Waiting(_POLL_MICROSECONDS, _POLL_MICROSECONDS, pinned)
    if num_workers == len(cores):  # the learner shares a core with a worker
        return Waiting(0, _POLL_MICROSECONDS, pinned)
    return Waiting(0, 0, pinned)


def available() -> list[int]:
    """Return the numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
