"""Process of a training: it ends with its sweep, even if that is killed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Run a command of the package; the first argument is the process of the sweep."""
    end_with(int(sys.argv.pop(1)))
    from tfagents_batch import __main__ as commands

    commands.main()


def end_with(parent: int) -> None:
    """Let the system kill this process when its parent ends; Linux only."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call above
        os._exit(1)
