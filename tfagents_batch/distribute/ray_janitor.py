"""Program that ends and removes what is left of a local Ray when its owner ends.

Ray's own agents outlive a killed owner by a minute, and Ray never removes the folder
of a session. This process waits until its standard input ends: the owner has closed
it, or was killed. It needs nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_SECONDS = 10.0  # until it gives up
_POLL = 0.05


def processes(folder: str) -> list[int]:
    """Return Ray's processes that have a file of a folder open; needs ``/proc``."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is of another user
            title = (process / "cmdline").read_bytes()
            if title.startswith(b"ray::") and any(
                file.startswith(f"{folder}/") for file in _open_files(process)
            ):
                pids.append(int(process.name))
    return pids


def _open_files(process: Path) -> Iterator[str]:
    for file in (process / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            yield os.readlink(file)


def clean(folder: str) -> None:
    """End these processes and remove the folder."""
    deadline = time.monotonic() + _SECONDS
    while (pids := processes(folder)) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    clean(sys.argv[1])
