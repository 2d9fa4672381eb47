"""Exceptions that users meet, each with what they need to act on it."""

from __future__ import annotations

from typing import Any


class UserError(ValueError):
    """Input that cannot be used: a flag, a name, a space, a network, a folder.

    The message is one line that says what was wrong, what was expected and what
    to do. Scripts print it without a traceback and exit with status 64.
    """

    ag_pass_through = True  # or AutoGraph would replace it by a StagingError


def first_line(error: BaseException) -> str:
    """Class and first line of an exception."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


class RemoteError(Exception):
    """What an environment raised in its worker process; it crossed as text only.

    Attributes:
      type_name: qualified name of the original exception class.
      text: its message.
      traceback_text: its formatted traceback.
    """

    def __init__(self, type_name: str, text: str, traceback_text: str):
        super().__init__(f"{type_name}: {text}\n\n{traceback_text}".rstrip())
        self.type_name = type_name
        self.text = text
        self.traceback_text = traceback_text


class EnvError(RuntimeError):
    """An environment failed; attributes are None where they are unknown.

    Attributes:
      env: index of the environment in the batch.
      worker: index of its worker process; None for in-process environments.
      seed: seed the environment was reset with.
      episode, step: counts at the failure, both from 0.
      action: the last action sent, as text.
      phase: "construct", "reset", "step" or "close".
    """

    env: int | None = None
    worker: int | None = None
    seed: int | None = None
    episode: int | None = None
    step: int | None = None
    action: str | None = None
    phase: str | None = None

    def __init__(self, message: str, **attributes: Any):
        super().__init__(message)
        vars(self).update(attributes)


class WorkerCrashed(EnvError):
    """A worker process ended without a word: killed, exited or out of memory."""


class WorkerTimeout(EnvError):
    """An environment did not answer before its deadline."""


class ProtocolError(EnvError):
    """A worker sent what this version does not understand."""


class Stopped(Exception):
    """Stepping ended because the process was asked to stop; not an error."""


class TrainingError(RuntimeError):
    """Training cannot go on, for example because no gradient is finite any more."""


class SaveError(OSError):
    """A file of a run could not be written, for example because the disk is full.

    Nothing is left of it, earlier ones are whole, and saving may be tried again.
    """
