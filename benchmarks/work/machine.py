"""Description of the machine and the commit of a result."""

from __future__ import annotations

import os
import pathlib
import platform
import subprocess
from typing import Any

ROOT = pathlib.Path(__file__).parents[2]


def cores() -> int:
    """Return the number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe() -> dict[str, Any]:
    """Return processor, cores, system, and the load before the run."""
    return {
        "cpu": _processor(),
        "cores": cores(),
        "system": f"{platform.system()} {platform.release()}",
        "load": os.getloadavg()[0],
    }


def summary() -> str:
    """Return the same in one line, for commands that record nothing."""
    return ", ".join(map(str, describe().values()))


def commit() -> str | None:
    """Return the commit, with ``+`` if files differ from it; None without git."""
    try:
        head = _git("rev-parse", "HEAD")
        ours = "tfagents_batch", "benchmarks/*.py"
        changed = _git("status", "--porcelain", "--", *ours)
    except (OSError, subprocess.CalledProcessError):
        return None
    return head[:12] + ("+" if changed else "")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _processor() -> str:
    path = pathlib.Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.processor() or platform.machine()
