"""Resident memory of this process and of its worker processes."""

from __future__ import annotations

from typing import Any

MIB = 2**20


def resident() -> dict[str, Any]:
    """Return ``learner_rss_mib``, the sum ``workers_rss_mib``, and ``workers``.

    Shared pages, such as the rows of the environments, count for every process.
    """
    import psutil

    learner = psutil.Process()
    workers = [
        child
        for child in learner.children()
        if "tfagents_batch.envs.worker.main" in child.cmdline()
    ]
    return {
        "learner_rss_mib": learner.memory_info().rss / MIB,
        "workers_rss_mib": sum(child.memory_info().rss for child in workers) / MIB,
        "workers": len(workers),
    }
