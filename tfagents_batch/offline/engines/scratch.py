"""Temporary folders that the next start removes if their process was killed."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
from pathlib import Path

_PREFIX = "tfagents_rows_"
_LOCK = ".lock"  # the system releases it if the process is killed


class Scratch:
    """Temporary folder, locked by this process.

    Attributes:
      name: its path.
    """

    def __init__(self):
        remove_abandoned()
        self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX)
        self.name = self._folder.name
        new = Path(self.name, f"{_LOCK}-new")
        self._lock = new.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        new.rename(new.with_name(_LOCK))  # others find it only when it is locked

    def close(self) -> None:
        """Remove the folder; may be called again."""
        self._folder.cleanup()
        self._lock.close()


def remove_abandoned() -> None:
    """Remove the folders that killed processes left behind."""
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        # It is locked, of another user, or removed meanwhile.
        with contextlib.suppress(OSError), lock.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent)
