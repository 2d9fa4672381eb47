"""Exceptions that users see."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from typing import Any

_KERAS = "Exception encountered when calling"
_STORAGE = errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO


class UserError(ValueError):
    """Invalid input: a flag, a name, a space, a network or a folder.

    The message is one line: what was wrong, what was expected and what to do. Scripts
    print it without a traceback and exit with status 64.
    """

    ag_pass_through = True  # otherwise AutoGraph replaces it by a StagingError


def is_of_storage(error: BaseException) -> bool:
    """Return whether a disk caused an error, which other libraries say by text only."""
    return any(os.strerror(number) in str(error) for number in _STORAGE)


def no_folder(folder: os.PathLike | str, error: OSError, flag: str) -> Exception:
    """Return the error to raise where a folder cannot be created.

    It is a UserError if the path itself cannot be that of a folder.
    """
    text = f"cannot create the folder {folder}: {error.strerror}"
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        return UserError(f"{text}; pass a {flag} that is a writable folder")
    return SaveError(f"{text}; make room, or pass a {flag} that is a writable folder")


@contextlib.contextmanager
def saving(path: os.PathLike | str) -> Iterator[None]:
    """Turn an OSError into a SaveError that names the path and says what to do."""
    try:
        yield
    except SaveError:
        raise
    except OSError as error:
        raise SaveError(
            f"{path} cannot be written: {error.strerror or first_line(error)}; make "
            "room on the disk, or choose a folder on another one"
        ) from error


def headline(text: object) -> str:
    """Return the first line of a text, or of the text of an exception.

    Of an exception inside a layer of Keras, it is the line that says what went wrong.
    """
    plain = re.sub(r"\x1b\[\d*m", "", str(text))  # without colours
    lines = [line.strip() for line in plain.splitlines() if line.strip()] or [""]
    return lines[1] if lines[0].startswith(_KERAS) and lines[1:] else lines[0]


def first_line(error: BaseException) -> str:
    """Return the class and the first line of an exception."""
    return f"{type(error).__name__}: {headline(error)}"


class RemoteError(Exception):
    """Exception of an environment in its worker process, transferred as text.

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
    """Failure of an environment; unknown attributes are None.

    Attributes:
      env: index of the environment in the batch.
      worker: index of its worker process; None for in-process environments.
      seed: seed of the environment's reset.
      episode, step: episode and step of the failure, both counted from 0.
      action: last action that was sent, as text.
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
    """End of a worker process without an error message: killed or exited."""


class WorkerTimeout(EnvError):
    """Environment that did not answer before its deadline."""


class ProtocolError(EnvError):
    """Message of a worker that this version does not understand."""


class Stopped(Exception):
    """End of stepping because the process was asked to stop; not an error."""


class TrainingError(RuntimeError):
    """Training that cannot continue, for example because gradients are not finite."""


class SaveError(OSError):
    """File of a run that could not be written, for example because the disk is full.

    The partial file was removed, earlier files are intact, and saving can be retried.
    """
