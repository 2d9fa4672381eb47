"""How learner and workers wait for each other, by the cores there are."""

from __future__ import annotations

import os
from typing import NamedTuple

_POLL_MICROSECONDS = 300  # longer than the other side takes, as a rule


class Waiting(NamedTuple):
    """How to wait.

    To sleep and be woken takes tens of microseconds, on a virtual machine more, which
    is as long as a step of some environments. So one polls for a moment before one
    sleeps, and gives the core away between two looks.

    Attributes:
      hub, worker: microseconds to poll before sleeping.
      cores: of the workers, one each, so that two never share one while another is
        free; None leaves that to the system.
    """

    hub: int
    worker: int
    cores: tuple[int, ...] | None


def choose(num_workers: int, cores: list[int], pin: bool | None = None) -> Waiting:
    """Decide for a pool, by the cores that this process may use.

    Args:
      pin: whether every worker is to have a core of its own; None where there are
        as many workers as cores. With fewer, other programs of the user's may have
        chosen the same ones.
    """
    if pin is None:
        pin = num_workers == len(cores)
    pinned = tuple(cores[i % len(cores)] for i in range(num_workers)) if pin else None
    if num_workers < len(cores):
        return Waiting(_POLL_MICROSECONDS, _POLL_MICROSECONDS, pinned)
    if num_workers == len(cores):  # the learner runs on the core of one of them
        return Waiting(0, _POLL_MICROSECONDS, pinned)
    return Waiting(0, 0, pinned)


def available() -> list[int]:
    """Numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
