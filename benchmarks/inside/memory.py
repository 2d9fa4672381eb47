"""Resident memory of this process and of its worker processes."""

from __future__ import annotations

from typing import Any

import psutil

MIB = 2**20


def workers() -> list[psutil.Process]:
    """Return the worker processes of this process."""
    children = psutil.Process().children()
    return [x for x in children if "tfagents_batch.envs.worker.main" in x.cmdline()]


def resident() -> dict[str, Any]:
    """Return ``learner_rss_mib``, the sum ``workers_rss_mib``, and ``workers``.

    Shared pages, such as the rows of the environments, count for every process.
    """
    processes = workers()
    return {
        "learner_rss_mib": psutil.Process().memory_info().rss / MIB,
        "workers_rss_mib": sum(child.memory_info().rss for child in processes) / MIB,
        "workers": len(processes),
    }
