"""What can be said of a worker that crashed, hung or spoke nonsense.

Each function ends the process: its rows have no owner until it is surely gone.
"""

from __future__ import annotations

from tfagents_batch.envs import failures, launcher, layout, protocol
from tfagents_batch.envs.failures import Failure
from tfagents_batch.envs.launcher import Worker
from tfagents_batch.envs.outcome import Context, Fault

_END_SECONDS = 1.0


def dead(worker: Worker, row: int | None, phase: str | None, context: Context) -> Fault:
    """A worker that ended, or that closed its socket."""
    # The socket of a process that ends closes a moment before it has ended.
    cut_off = worker.inbox.closed and not launcher.ended([worker], _END_SECONDS)
    launcher.end([worker], 0.2)
    text = worker.reap()
    if cut_off:  # it was ended by the lines above
        text = launcher.CUT_OFF
    if row == layout.NO_ROW:
        phase = None
        text += "" if text == launcher.CUT_OFF else " while idle"
    details = [worker.dump()]
    tail = worker.tail()
    if tail:
        details.append(f"Last lines of its output:\n{tail}")
    details = "\n\n".join(filter(None, details))
    return _fault(failures.CRASH, worker, row, phase, context, text, details)


def late(worker: Worker, row: int | None, phase: str, context: Context) -> Fault:
    """A worker that did not answer in time."""
    text = "did not answer before its deadline and was killed (stack below)"
    stack = worker.stack()
    worker.kill()
    worker.reap()
    return _fault(failures.TIMEOUT, worker, row, phase, context, text, stack)


def deaf(
    worker: Worker, row: int | None, phase: str, context: Context, error: Exception
) -> Fault:
    """A worker that sent what is no frame."""
    worker.kill()
    worker.reap()
    text = f"sent what this version does not understand: {error}"
    return _fault(failures.PROTOCOL, worker, row, phase, context, text, "")


def _fault(
    kind: str,
    worker: Worker,
    row: int | None,
    phase: str | None,
    context: Context,
    text: str,
    details: str,
) -> Fault:
    rows = worker.rows
    if row not in rows:
        row = rows.start if phase and len(rows) == 1 else None
    known = {} if row is None else context(row)
    if row is None or phase == protocol.NAMES[protocol.ATTACH]:
        text = f"(envs {rows.start} to {rows.stop - 1}) {text}"
    failure = Failure(
        kind,
        env=row,
        text=failures.clean(text),
        traceback_text=failures.clean(details),
        **{"phase": phase, **known},
    )
    return Fault(failure, worker.index)
