"""Locks of files and folders between processes; the system frees those of ended ones.

Windows has no such locks: nothing is locked there.
"""

from __future__ import annotations

from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

AVAILABLE = fcntl is not None


def lock(file: Any, wait: bool = False) -> None:
    """Lock an open file, or a descriptor of a file or folder, until it is closed.

    BlockingIOError if another process has locked it, unless ``wait`` is set. OSError
    where the file system does not lock folders.
    """
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
