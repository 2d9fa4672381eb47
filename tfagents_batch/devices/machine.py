"""Memory of the machine and of processes."""

from __future__ import annotations

import os
from pathlib import Path


def available_bytes(root: str = "/") -> int | None:
    """Return the memory that this process may still take; None if unknown.

    It is the least of the machine's and of what the process's control groups (v1 and
    v2) leave. File caches count as available. ``root`` is of the file system.
    """
    free = [*_machine(Path(root)), *_groups(Path(root))]
    return max(min(free), 0) if free else None


def resident_bytes(pid: int | str = "self") -> int:
    """Return the resident memory of a process, by default of this one.

    It is 0 if it is unknown: the process has ended, or this is not Linux.
    """
    pages = _read(Path(f"/proc/{pid}/statm")).split()[1:2]
    return int(pages[0]) * os.sysconf("SC_PAGE_SIZE") if pages else 0


def _machine(root: Path) -> list[int]:
    info = _columns(root / "proc/meminfo")
    return [info["MemAvailable:"] * 1024] if "MemAvailable:" in info else []


def _groups(root: Path) -> list[int]:
    """Return what each control group of this process and its parents leaves."""
    free = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        names = "memory.max", "memory.current", "inactive_file"
        base = root / "sys/fs/cgroup"
        if controllers:  # v1, which names the controllers of each hierarchy
            if "memory" not in controllers.split(","):
                continue
            names = (
                *("memory.limit_in_bytes", "memory.usage_in_bytes"),
                "total_inactive_file",
            )
            base /= "memory"
        folder = base / path.lstrip("/")
        # In a container the path may be that of the host; the root is then its own.
        for group in {base, folder, *(x for x in folder.parents if base in x.parents)}:
            limit, used = (_read(group / name).strip() for name in names[:2])
            if limit.isdecimal() and used.isdecimal():
                cached = _columns(group / "memory.stat").get(names[2], 0)
                free.append(int(limit) - int(used) + cached)
    return free


def _columns(path: Path) -> dict[str, int]:
    lines = (line.split() for line in _read(path).splitlines())
    return {x[0]: int(x[1]) for x in lines if len(x) > 1 and x[1].isdecimal()}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def amount(size: int) -> str:
    """Return a number of bytes as text."""
    return f"{size / 2**30:,.2f} GiB" if size >= 2**30 else f"{size / 2**20:,.1f} MiB"
