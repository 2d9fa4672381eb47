"""The worker process: ``python -m tfagents_batch.envs.worker SOCKET DUMP PARENT``.

Constructs its environments from the one message that is unpickled, then steps them
whenever a frame says so, reading and writing shared memory. It ends when it is told
to, when the socket closes, or when its parent dies. Heavy imports come after that
last promise is made; TensorFlow is never imported.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import faulthandler
import functools
import gc
import itertools
import mmap
import os
import pickle
import resource
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

_LOOK_EVERY = 64  # commands, between looks at the memory in use
_PR_SET_PDEATHSIG = 1
_STOPS = (signal.SIGTERM, signal.SIGHUP)


def main(arguments: list[str]) -> None:
    """Serve one learner.

    Args:
      arguments: descriptors of the control socket and of the file for stack dumps,
        and the process id of the learner.
    """
    channel_fd, dump_fd, parent = (int(argument) for argument in arguments)
    _protect(parent)
    faulthandler.enable(dump_fd)
    faulthandler.register(signal.SIGUSR1, dump_fd, all_threads=True)
    channel = socket.socket(fileno=channel_fd)
    os.set_inheritable(channel_fd, False)
    os.set_inheritable(dump_fd, False)
    try:
        _serve(channel)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the learner is gone, and nobody would read about it
    except OSError as error:  # of ours: those of environments are failures
        if error.errno not in (errno.EBADF, errno.ENOTSOCK):
            raise
        from tfagents_batch.envs import protocol

        sys.stderr.flush()
        os._exit(protocol.EXIT_CUT_OFF)  # an environment closed the control socket


def _protect(parent: int) -> None:
    """Die with the learner, leave signals to it, and write no core files."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A signal to all processes is meant for the learner, which saves and ends its
    # workers. Not ignored, as the programs that an environment starts would inherit it.
    for number in _STOPS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _leave_to_learner)
    os.register_at_fork(after_in_child=_forked)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def _leave_to_learner(number: int, frame: Any) -> None:
    """Do nothing about a signal."""


def _forked() -> None:
    """Let signals end a process that an environment has forked."""
    for number in _STOPS:
        if signal.getsignal(number) is _leave_to_learner:
            signal.signal(number, signal.SIG_DFL)


def _serve(channel: socket.socket) -> None:
    from tfagents_batch.envs import futex, layout, protocol, stepper
    from tfagents_batch.envs.memory import resident_bytes

    started = _construct(channel)
    if started is None:
        return
    envs, facts, constructors, first_row = started
    request = protocol.receive(channel, descriptor=True)
    if request is None or request[0].command != protocol.ATTACH:
        return _close_all(envs)
    header, payload, descriptor = request
    memory, arrays, words = _attach(payload, descriptor, first_row, len(envs))
    spare = None
    if payload["restarts"] is not None:
        learner = layout.control(memory, payload["layout"]["num_workers"])
        seed = functools.partial(layout.seed, learner)
        spare = stepper.Spare(constructors, facts, payload["restarts"], seed)
    checks = payload["finite_check"], payload["strict"]
    batch = stepper.Stepper(envs, arrays, words, first_row, *checks, spare=spare)
    limit = payload["max_bytes"]
    full = memory_guard(limit)
    if limit is not None and (size := resident_bytes()) > limit:
        found = [_too_large(size, limit, first_row)]
        channel.sendall(_answer(header, words, found, batch.notes))
        return _close_all(envs)
    if payload["takes_over"]:
        batch.take_over()
    if "tensorflow" in sys.modules:
        batch.notes.append(
            f"worker {payload['worker']} imported TensorFlow, which takes seconds and "
            "hundreds of megabytes: define its environment in a module without it"
        )
    if payload["core"] is not None:
        with contextlib.suppress(OSError):  # it may have been taken away since
            os.sched_setaffinity(0, {payload["core"]})
    gc.collect()
    gc.freeze()  # what is there now stays: collections need not look at it again
    bell = None
    if payload["native"]:  # before the answer, after which there may be a command
        places = (payload["worker"], payload["layout"]["num_workers"], payload["group"])
        sequence = words[layout.COMMAND_SEQUENCE]
        bell = futex.Doorbell(memory, *places, sequence, payload["poll_microseconds"])
    channel.sendall(_answer(header, words, [], batch.notes))
    if bell is not None:
        _obey_hub(channel, batch, bell, full)
    else:
        _obey_frames(channel, batch, words, full)


def memory_guard(limit: int | None) -> Callable[[], bool]:
    """A function that says whether this process has grown too large.

    It looks now and then, and remembers what it saw: the process may only leave at the
    end of an episode, which hardly ever is when it looks.

    Args:
      limit: bytes; None for none.
    """
    from tfagents_batch.envs.memory import resident_bytes

    if limit is None:
        return lambda: False
    calls, large = itertools.count(1), False

    def is_full() -> bool:
        nonlocal large
        if not large and next(calls) % _LOOK_EVERY == 0:
            large = resident_bytes() > limit
        return large

    return is_full


def _too_large(size: int, limit: int, row: int) -> Any:
    from tfagents_batch.envs import failures

    text = (
        f"its worker uses {size / 2**20:.0f} MB once its environments are "
        f"made, but max_worker_mb is {limit / 2**20:.0f}: allow more"
    )
    described = failures.describe(failures.Defect(text))
    return failures.Failure(failures.ERROR, env=row, phase="construct", **described)


def _obey_frames(channel: socket.socket, batch: Any, words: Any, full: Any) -> None:
    """The portable route: commands and replies are frames."""
    from tfagents_batch.envs import protocol

    while True:
        request = protocol.receive(channel)
        if request is None or request[0].command == protocol.CLOSE:
            _end(batch, told=request is not None)
        header, payload, _ = request
        if header.command == protocol.STEP:
            found = batch.step()
        elif header.command == protocol.RESET:
            found = batch.reset(payload["seed"])
        else:
            raise protocol.Malformed(f"command {header.command}")
        channel.sendall(_answer(header, words, found, batch.notes))
        if full() and batch.some_ended:
            _leave_full(batch)


def _obey_hub(channel: socket.socket, batch: Any, bell: Any, full: Any) -> None:
    """The native route: commands and replies are words; only texts are frames."""
    from tfagents_batch.envs import protocol

    wait, answer, step, notes = bell.wait, bell.answer, batch.step, batch.notes
    while True:
        code, sequence = wait()
        if code == protocol.STEP:
            found = step()
        elif code == protocol.RESET:
            found = batch.reset(bell.seed())
        else:
            return _end(batch, told=protocol.receive(channel) is not None)
        # The hub goes on at once; whoever asks what happened reads the frame.
        answer(sequence, protocol.FAILED if found else protocol.OK)
        if found or notes:
            channel.sendall(_frame(code, sequence, found, notes))
        if full() and batch.some_ended:
            _leave_full(batch)


def _leave_full(batch: Any) -> None:
    """Make room for another process."""
    from tfagents_batch.envs import protocol

    batch.close()
    sys.stderr.flush()
    os._exit(protocol.EXIT_FULL)


def _end(batch: Any, told: bool) -> None:
    """Close the environments and leave."""
    from tfagents_batch.envs import failures

    found = batch.close()
    for failure in found:
        print(failures.to_exception(failure, None), file=sys.stderr)
    sys.exit(1 if found and told else 0)


def _construct(channel: socket.socket) -> tuple[list, list, list, int] | None:
    """Answer the first request.

    Returns:
      environments, what is known of each, their constructors, index of the first; None
      if there is nothing to go on with.
    """
    from tfagents_batch.envs import failures, protocol, stepper

    request = protocol.receive(channel, descriptor=True)
    if request is None or request[0].command != protocol.CONSTRUCT:
        return None
    header, payload, descriptor = request
    first_row = header.first_row
    sys.path[:] = payload["path"]
    if payload["pythonpath"] is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = payload["pythonpath"]
    try:
        with open(descriptor, "rb") as file:
            file.seek(0)
            constructors = pickle.load(file)
    except BaseException as error:
        described = failures.describe(error)
        described["text"] = f"while it was unpickled in the worker: {described['text']}"
        failure = failures.Failure(
            failures.ERROR, env=first_row, phase="construct", **described
        )
        constructors, envs, facts = [], [], []
    else:

        def progress(row):
            status = protocol.PROGRESS
            channel.sendall(
                protocol.pack(
                    header.command, header.sequence, status=status, first_row=row
                )
            )

        envs, facts, failure = stepper.construct(constructors, first_row, progress)
    answer = {"facts": facts, "failures": [failure.to_json()] if failure else []}
    status = protocol.FAILED if failure else protocol.OK
    frame = protocol.pack(header.command, header.sequence, answer, status=status)
    channel.sendall(frame)
    if failure is not None:
        _close_all(envs)
        return None
    return envs, facts, constructors, first_row


def _attach(
    payload: dict, descriptor: int, first_row: int, count: int
) -> tuple[Any, Any, Any]:
    """Map the shared memory; it, views of the worker's rows, its control words."""
    from tfagents_batch.envs import layout

    plan = layout.Layout.from_json(payload["layout"])
    memory = mmap.mmap(descriptor, plan.size)
    os.close(descriptor)
    rows = first_row, first_row + count
    arrays = layout.views(plan, memory).of(payload["worker"], *rows)
    words = layout.control(memory, payload["worker"])
    words[layout.ROW] = layout.NO_ROW  # a predecessor's may stand there
    return memory, arrays, words


def _answer(header: Any, words: Any, found: list, notes: list[str]) -> bytes:
    """The reply to a frame, also noted in the control words."""
    from tfagents_batch.envs import layout, protocol

    words[layout.STATUS] = protocol.FAILED if found else protocol.OK
    words[layout.REPLY_SEQUENCE] = header.sequence & 0xFFFFFFFF
    return _frame(header.command, header.sequence, found, notes)


def _frame(command: int, sequence: int, found: list, notes: list[str]) -> bytes:
    """A reply with what is to tell; empties ``notes``."""
    from tfagents_batch.envs import protocol

    payload, status = None, protocol.OK
    if found or notes:
        status = protocol.FAILED if found else protocol.NOTES
        reported = [failure.to_json() for failure in found]
        payload = {"failures": reported, "notes": list(notes)}
        notes.clear()
    return protocol.pack(command, sequence, payload, status=status)


def _close_all(envs: list[Any]) -> None:
    for env in envs:
        try:
            env.close()
        except BaseException as error:
            print(f"{type(error).__name__} in close()", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
