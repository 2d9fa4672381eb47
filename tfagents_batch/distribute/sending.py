"""Jobs and exceptions in a form that other processes can read."""

from __future__ import annotations

import traceback
from typing import Any

import cloudpickle

from tfagents_batch.errors import EnvError, UserError, first_line


def pickled(job: Any) -> bytes:
    """Return a job as bytes.

    Raises:
      UserError: if it refers to something that cannot be sent.
    """
    try:
        return cloudpickle.dumps(job)
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"the environment cannot be sent to workers ({first_line(error)}); pass a "
            "name, or a function that creates it and refers to nothing that only this "
            "process has, such as locks, files or other environments"
        ) from None


def unpickled(job: bytes) -> Any:
    """Return a job from bytes of the run that this process works for."""
    return cloudpickle.loads(job)


def portable(error: BaseException) -> BaseException:
    """Return an exception that other processes can read, with its cause as text."""
    if isinstance(error, UserError):
        return UserError(str(error))
    if isinstance(error, EnvError):
        return EnvError(str(error))
    return RuntimeError("".join(traceback.format_exception(error)))
