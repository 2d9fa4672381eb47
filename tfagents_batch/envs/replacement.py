"""A new worker process in the place of one that ended.

It is made beside the batch, which goes on without its rows meanwhile.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tfagents_batch.envs import agreement, failures, launcher, postmortem, protocol
from tfagents_batch.envs.failures import Failure
from tfagents_batch.envs.launcher import Worker
from tfagents_batch.envs.outcome import Fault

_ATTACH_SECONDS = 30.0


class Order(NamedTuple):
    """What a worker is made from.

    Attributes:
      constructors: of its environments.
      facts: what is known of the environments it replaces.
      construct: payload of the first request.
      attach: payload of the second.
      memory: descriptor of the shared memory.
      seconds: until its environments must be there; None for never.
      stop: descriptor that is readable when it is no longer needed.
    """

    constructors: Sequence[Callable[[], Any]]
    facts: Sequence[dict]
    construct: dict
    attach: dict
    memory: int
    seconds: float | None
    stop: int


class Stopped(Exception):
    """It is no longer needed."""


class _Failed(Exception):
    def __init__(self, fault: Fault):
        super().__init__()
        self.fault = fault


def make(worker: Worker, start: Callable[[Worker], Any], order: Order) -> Fault | None:
    """Start a worker and have it make its environments.

    Args:
      worker: not started.
      start: starts it, in the thread it belongs to.
      order: what to make.

    Returns:
      None when it is ready for commands, else why it is not; it has ended then.

    Raises:
      Stopped: when ``order.stop`` says so; it has ended then.
    """
    start(worker)
    try:
        pickled = launcher.pickled(order.constructors, worker.rows.start)
        try:
            request = protocol.CONSTRUCT, order.construct, pickled
            reply = _ask(worker, request, order.seconds, order.stop)
        finally:
            os.close(pickled)
        _check_spaces(worker, order.facts, reply["facts"])
        request = protocol.ATTACH, order.attach, order.memory
        _ask(worker, request, _ATTACH_SECONDS, order.stop)
    except _Failed as error:
        end(worker)
        return error.fault
    except BaseException:
        end(worker)
        raise
    return None


def end(worker: Worker) -> None:
    """Kill a worker, however it is."""
    launcher.end([worker], grace=0, term=0)
    worker.reap()


def _ask(
    worker: Worker, request: tuple[int, dict, int], seconds: float | None, stop: int
) -> Any:
    """Send a request; the payload of its reply."""
    code, payload, descriptor = request
    rows = {"first_row": worker.rows.start, "row_count": len(worker.rows)}
    frame = protocol.pack(code, 0, payload, **rows)
    phase = protocol.NAMES[code]
    deadline = None if seconds is None else time.monotonic() + seconds
    poll = select.poll()
    for watched in (worker.channel.fileno(), worker.pidfd, stop):
        poll.register(watched, select.POLLIN)
    try:
        worker.send(frame, descriptor, seconds or _ATTACH_SECONDS)
    except OSError:
        raise _Failed(_dead(worker, phase)) from None
    while True:
        left = None if deadline is None else max(deadline - time.monotonic(), 0) * 1000
        ready = {fd for fd, _ in poll.poll(left)}
        if stop in ready:
            raise Stopped
        if not ready:
            late = postmortem.late(worker, worker.row, phase, lambda row: {})
            raise _Failed(late)
        for header, answer in worker.inbox.read():
            if header.status == protocol.PROGRESS:
                worker.row = header.first_row
            elif header.status == protocol.FAILED:
                failure = Failure(**answer["failures"][0])
                raise _Failed(Fault(failure, worker.index))
            else:
                return answer
        if worker.inbox.closed or worker.pidfd in ready:
            raise _Failed(_dead(worker, phase))


def _dead(worker: Worker, phase: str) -> Fault:
    return postmortem.dead(worker, worker.row, phase, lambda row: {})


def _check_spaces(worker: Worker, old: Sequence[dict], new: Sequence[dict]) -> None:
    for row, pair in zip(worker.rows, zip(old, new, strict=True), strict=True):
        found = agreement.difference(*pair)
        if found:
            text = f"the replacement of a failed one has other spaces: {found}"
            described = failures.describe(failures.Defect(text))
            failure = Failure(failures.ERROR, env=row, phase="construct", **described)
            raise _Failed(Fault(failure, worker.index))
