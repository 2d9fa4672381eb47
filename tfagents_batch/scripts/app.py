"""What every script shares: exit codes, and errors of one line."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence

from tfagents_batch.errors import EnvError, UserError

EXIT_USAGE = 64  # bad flag, name, config or run folder
EXIT_ENVIRONMENT = 70
EXIT_INTERRUPTED = 130


def run(main: Callable[[Sequence[str]], int]) -> int:
    """Run a script's main on the command line; returns the exit status.

    Input that cannot be used is one line on stderr and status 64, an environment
    that failed its report and status 70; ``--debug`` adds the traceback.
    """
    argv = sys.argv[1:]
    try:
        import_tensorflow()
        return main(argv)
    except (UserError, EnvError, KeyboardInterrupt) as error:
        if "--debug" in argv:
            traceback.print_exception(error)
        status, message = _explain(error)
        print(message, file=sys.stderr)
        return status


def _explain(error: BaseException) -> tuple[int, str]:
    if isinstance(error, UserError):
        return EXIT_USAGE, f"error: {error}"
    if isinstance(error, EnvError):
        return EXIT_ENVIRONMENT, f"error: {error}"
    return EXIT_INTERRUPTED, "interrupted"


def import_tensorflow() -> None:
    """Import TensorFlow without what it writes about the machine.

    Its log level silences it later, but not while it is imported (measured with 2.21),
    so stderr is put aside meanwhile; a failed import brings it back.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as aside:
        os.dup2(aside.fileno(), 2)
        try:
            importlib.import_module("tensorflow")
        except BaseException:
            aside.seek(0)
            os.write(saved, aside.read())
            raise
        finally:
            os.dup2(saved, 2)
            os.close(saved)
