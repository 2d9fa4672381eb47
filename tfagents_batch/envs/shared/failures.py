"""Failures as records that are sent between processes, and as exceptions.

Only text is sent: an exception object may fail to be pickled, printed or encoded.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from tfagents_batch import errors
from tfagents_batch.envs.shared import protocol

_LOG = logging.getLogger("tfagents_batch")
LIMIT = 64 << 10  # characters of a message or traceback that are sent

# Kinds of failures.
ERROR = "error"  # the environment raised, or returned an invalid value
CRASH = "crash"  # its worker ended
TIMEOUT = "timeout"  # its worker did not answer
PROTOCOL = "protocol"  # its worker sent bytes that are not a frame
ACTION = "action"  # the learner's action is outside the action space

_CLASSES = {
    ERROR: errors.EnvError,
    CRASH: errors.WorkerCrashed,
    TIMEOUT: errors.WorkerTimeout,
    PROTOCOL: errors.ProtocolError,
    ACTION: errors.EnvError,
}
_PLACES = {"construct": "its constructor"}
# Frames of these files are cut from tracebacks: they only call the environment.
_WORKER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "worker", "")


class Defect(Exception):
    """Invalid value from an environment: it breaks its spaces or Gymnasium's API."""

    def __init__(
        self, text: str, kind: str = "", field: str = "", row: int | None = None
    ):
        super().__init__(text)
        self.kind = kind  # "type", "shape", "dtype", "bounds", "finite", ...
        self.field = field  # "reward", "observation['camera']", "step()", ...
        self.row = row  # of the environment in its batch; None if that is not known


class Failure(NamedTuple):
    """Record of one failure, as in ``errors.EnvError``; unknown fields are None."""

    kind: str  # one of the kinds above
    env: int | None = None
    worker: int | None = None
    seed: int | None = None
    episode: int | None = None
    step: int | None = None
    action: str | None = None
    phase: str | None = None
    text: str = ""  # message of the exception, or a description of what happened
    type_name: str = ""  # qualified name of the exception's class, if there was one
    traceback_text: str = ""
    cause: BaseException | None = None  # unless it was raised in another process

    def to_json(self) -> dict:
        return {**self._asdict(), "cause": None}


# Function of a row that returns fields of ``Failure`` for a worker that has ended.
Context = Callable[[int], dict[str, Any]]


@dataclasses.dataclass(slots=True)
class Outcome:
    """Result of one command."""

    faults: list[Failure] = dataclasses.field(default_factory=list)  # as detected
    lost: set[int] = dataclasses.field(default_factory=set)  # rows without a result
    replies: dict[int, Any] = dataclasses.field(default_factory=dict)  # by worker
    stopped: bool = False  # whether a stop ended the wait

    @property
    def fine(self) -> bool:
        return not self.faults and not self.stopped

    def log_notes(self) -> None:
        """Log the notes in the replies of all workers."""
        for index in sorted(self.replies):
            log_notes(self.replies[index])


def log_notes(payload: Any) -> None:
    """Log the notes in the reply of a worker."""
    for note in (payload or {}).get("notes", ()):
        _LOG.warning("%s", note)


def from_payload(payload: Any, worker: int) -> list[Failure]:
    """Return the failures in a worker's reply.

    Raises:
      Malformed: if it contains no failures.
    """
    try:
        return [Failure(**{**data, "worker": worker}) for data in payload["failures"]]
    except (KeyError, TypeError) as error:
        raise protocol.Malformed(f"a reply without failures: {error}") from None


def from_error(error: BaseException, **known: Any) -> Failure:
    """Return the failure for an environment's exception and other known fields."""
    return Failure(ERROR, cause=error, **{**known, **describe(error)})


def describe(error: BaseException) -> dict[str, str]:
    """Return name, message and traceback of an exception as valid, limited text.

    Works for exceptions that cannot be printed, and when memory is short.
    """
    kind = type(error)
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    try:
        text = str(error)
    except BaseException as second:
        text = f"<its text is unavailable: {type(second).__name__}>"
    try:
        frames = error.__traceback__
        while frames and frames.tb_frame.f_code.co_filename.startswith(_WORKER):
            frames = frames.tb_next
        traced = "".join(traceback.format_exception(kind, error, frames))
        if isinstance(error, Defect):  # it has frames of this library only
            traced = ""
    except BaseException as second:
        traced = f"<its traceback is unavailable: {type(second).__name__}>"
    return {
        "type_name": clean(name),
        "text": clean(text),
        "traceback_text": clean(traced),
    }


def clean(text: str) -> str:
    """Return valid UTF-8 of at most about ``LIMIT`` characters; cuts the middle."""
    text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= LIMIT:
        return text
    half = LIMIT // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters]\n{text[-half:]}"


def to_exception(failure: Failure) -> Exception:
    """Return the exception to raise: a constructor's ``UserError``, or an ``EnvError``.

    Its cause is the original exception (in this process) or a ``RemoteError``.
    """
    user_error = f"{errors.UserError.__module__}.{errors.UserError.__qualname__}"
    if failure.type_name == user_error and failure.phase == "construct":
        return errors.UserError(f"env {failure.env}: {failure.text}")
    message = _headline(failure)
    if failure.traceback_text:
        message += f"\n\n{failure.traceback_text.rstrip()}"
    error = _CLASSES[failure.kind](
        message,
        env=failure.env,
        worker=failure.worker,
        seed=failure.seed,
        episode=failure.episode,
        step=failure.step,
        action=failure.action,
        phase=failure.phase,
    )
    if failure.cause is not None:
        error.__cause__ = failure.cause
    elif failure.type_name:
        error.__cause__ = errors.RemoteError(
            failure.type_name, failure.text, failure.traceback_text
        )
    return error


def _headline(failure: Failure) -> str:
    if failure.env is None:
        who = "an environment" if failure.worker is None else f"worker {failure.worker}"
    else:
        known = {"worker": failure.worker, "seed": failure.seed}
        pairs = [f"{key} {x}" for key, x in known.items() if x is not None]
        who = f"env {failure.env}" + (f" ({', '.join(pairs)})" if pairs else "")
    where = _where(failure)
    if failure.kind == ACTION:
        return f"{who} was sent an invalid action{where}: {failure.text}"
    if failure.kind != ERROR:
        return f"{who} {failure.text}{where and f', in{where}'}"
    if failure.type_name.endswith(f".{Defect.__name__}"):
        return f"{who} broke the environment API in{where}: {failure.text}"
    return f"{who} raised {failure.type_name} in{where}: {failure.text}"


def _where(failure: Failure) -> str:
    """Return text such as " step() at step 402 of episode 7, action [1]"."""
    if failure.phase is None:
        return ""
    parts = ""
    if failure.kind != ACTION:
        parts = f" {_PLACES.get(failure.phase) or f'{failure.phase}()'}"
    if failure.step is not None and failure.phase == "step":
        parts += f" at step {failure.step}"
    if failure.episode is not None and failure.phase in ("step", "reset"):
        parts += f" of episode {failure.episode}"
    if failure.action is not None:
        parts += f", action {failure.action}"
    return parts
