"""What every script shares: exit codes, and errors of one line."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from typing import TypeVar

from tfagents_batch.errors import (
    EnvError,
    SaveError,
    Stopped,
    TrainingError,
    UserError,
)
from tfagents_batch.importing import hidden, uncollected
from tfagents_batch.training import interrupt

Command = TypeVar("Command")

EXIT_USAGE = 64  # bad flag, name, config or run folder
EXIT_DATA = 65  # training cannot go on: no finite gradient
EXIT_ENVIRONMENT = 70
EXIT_STORAGE = 74  # the last checkpoint could not be saved
EXIT_INTERRUPTED = 130

_EXITS = {
    UserError: EXIT_USAGE,
    TrainingError: EXIT_DATA,
    EnvError: EXIT_ENVIRONMENT,
    SaveError: EXIT_STORAGE,
    Stopped: EXIT_INTERRUPTED,
    KeyboardInterrupt: EXIT_INTERRUPTED,
}

# What TensorFlow and Keras import only where it is installed.
_NOT_NEEDED = ("matplotlib", "cv2", "pandas", "scipy", "jax")


def run(
    main: Callable[[Sequence[str]], int], tensorflow: bool = True, trains: bool = False
) -> int:
    """Run a script's main on the command line; returns the exit status.

    What went wrong is one line on stderr, or an environment's report; ``--debug`` adds
    the traceback.

    Args:
      main: gets the arguments, without the program's name.
      tensorflow: import it first, in silence.
      trains: its programs may be kept for the next start, see
        ``training.compilation``.
    """
    argv = sys.argv[1:]
    _open_stderr()
    with contextlib.suppress(ValueError):  # not the main thread
        for number in interrupt.stop_signals():  # while nothing is there to save
            if number != signal.SIGINT:
                signal.signal(number, _interrupt)
    try:
        if tensorflow:
            import_tensorflow()
        with keeping() if trains else contextlib.nullcontext():
            return main(argv)
    except tuple(_EXITS) as error:
        if "--debug" in argv:
            traceback.print_exception(error)
        status = _status(error)
        text = "interrupted" if status > 128 else f"error: {error}"
        print(text, file=sys.stderr)
        return status


def keeping() -> contextlib.AbstractContextManager[None]:
    """Within: programs that are trained may be kept, as no user's code runs here."""
    from tfagents_batch.training import compilation

    return compilation.allowed()


def parse(argv: Sequence[str], command: type[Command]) -> Command | None:
    """The flags of a script, as a config of its own; None if help was asked for.

    Args:
      argv: without the program's name.
      command: frozen dataclass of the flags, see ``config``.
    """
    from absl import flags

    from tfagents_batch import config

    values = flags.FlagValues()
    config.define_flags(values, command)
    text = config.parse_argv(argv, values)
    if text is not None:
        print(text)
        return None
    return config.replace(command(), config.overrides(values, command))


class _Interrupted(KeyboardInterrupt):
    """SIGTERM or SIGHUP, its number as the argument."""


def _interrupt(number, frame) -> None:
    raise _Interrupted(number)


def _status(error: BaseException) -> int:
    if isinstance(error, _Interrupted):
        return interrupt.exit_status(error.args[0])
    return next(status for kind, status in _EXITS.items() if isinstance(error, kind))


def _open_stderr() -> None:
    """Have a stderr, where the caller closed it: much writes to descriptor 2."""
    try:
        os.fstat(2)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.stderr = open(2, "w")  # noqa: SIM115


def import_tensorflow() -> None:
    """Import TensorFlow without what it writes about the machine.

    Its log level silences it later, but not while it is imported (measured with 2.21),
    so stderr is put aside meanwhile; a failed import brings it back. Keras, which comes
    with it, imports what it may draw and read tables with if it is there, TensorFlow
    JAX, whose programs it converts: a third of the time, for nothing a script does.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as aside:
        os.dup2(aside.fileno(), 2)
        try:
            with hidden(*_NOT_NEEDED), uncollected():
                importlib.import_module("tensorflow")
            gc.freeze()  # what a script imports stays; never to be looked through
        except BaseException:
            aside.seek(0)
            os.write(saved, aside.read())
            raise
        finally:
            os.dup2(saved, 2)
            os.close(saved)
