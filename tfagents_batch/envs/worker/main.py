"""Worker process: ``python -m tfagents_batch.envs.worker.main PARENT SOCKET ...``.

It ends on the learner's command, when the socket closes, or when the learner dies.
Signals are handled before the slow imports, because only the learner reacts to them.
TensorFlow is never imported.
"""

from __future__ import annotations

import ctypes
import errno
import faulthandler
import os
import resource
import signal
import socket
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1
_STOPS = (signal.SIGTERM, signal.SIGHUP)


def main(arguments: list[str]) -> None:
    """Serve the learner with this process id, on these descriptors.

    They are of the control socket, and of the files for stack dumps, for pickled
    constructors and for shared memory.
    """
    parent, *descriptors = (int(argument) for argument in arguments)
    channel_fd, dump_fd, constructors, memory = descriptors
    _protect(parent)
    faulthandler.enable(dump_fd)
    faulthandler.register(signal.SIGUSR1, dump_fd, all_threads=True)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    from tfagents_batch.envs.shared import protocol
    from tfagents_batch.envs.worker import serving

    try:
        serving.serve(socket.socket(fileno=channel_fd), constructors, memory)
    except ConnectionError:
        pass  # the learner has ended
    except OSError as error:  # not an environment's: that is reported as a failure
        if error.errno not in (errno.EBADF, errno.ENOTSOCK):
            raise
        os._exit(protocol.EXIT_CUT_OFF)  # at once, as threads could keep the process


def _protect(parent: int) -> None:
    """End with the learner, ignore its signals, and write no core files."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A signal to all processes is meant for the learner, which saves and ends its
    # workers. A handler, unlike SIG_IGN, is not inherited by an environment's programs.
    for number in _STOPS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _leave_to_learner)
    os.register_at_fork(after_in_child=_forked)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the learner ended before the call above
        os._exit(1)
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def _leave_to_learner(number: int, frame: Any) -> None:
    """Handle a signal by doing nothing."""


def _forked() -> None:
    """Restore default signal handling in a process that an environment forks."""
    for number in _STOPS:
        if signal.getsignal(number) is _leave_to_learner:
            signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    main(sys.argv[1:])
