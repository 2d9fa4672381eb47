"""How much memory a process has in use."""

from __future__ import annotations

import os


def resident_bytes(pid: int | str = "self") -> int:
    """Resident memory of a process, by default this one.

    Raises:
      OSError: where that cannot be told, for example because the process is gone.
    """
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
