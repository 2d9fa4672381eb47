"""What every script shares: exit codes, and errors of one line."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import gc
import importlib
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tfagents_batch import config
from tfagents_batch.config import option
from tfagents_batch.errors import (
    EnvError,
    SaveError,
    Stopped,
    TrainingError,
    UserError,
)
from tfagents_batch.importing import hidden, uncollected
from tfagents_batch.training.runtime import signals

Command = TypeVar("Command")


@dataclasses.dataclass(frozen=True)
class Played:
    """Flags of scripts that play a run's agent."""

    logdir: str | None = option(None, "the run's folder")
    checkpoint: str = option("newest", "newest, best or a step")
    env: str | None = option(None, "environment to play instead")
    env_kwargs: dict | None = option(None, "JSON object of its arguments")
    wrappers: list | None = option(
        None, "JSON list of what to wrap it in; default as of the run"
    )
    seed: int = option(0, "of environments (apart from training's) and samples")
    debug: bool = option(False, "show tracebacks")

    def arguments(self) -> dict[str, Any]:
        """The flags as arguments of ``tfb.evaluate`` and its likes."""
        if self.logdir is None:
            raise UserError("no run: pass --logdir=<run folder>")
        names = {field.name for field in dataclasses.fields(Played)} - {"debug"}
        return {name: getattr(self, name) for name in names}


EXIT_USAGE = 64  # bad flag, name, config or run folder
EXIT_DATA = 65  # training cannot go on: no finite gradient
EXIT_ENVIRONMENT = 70
EXIT_STORAGE = 74  # a run's folder or its last checkpoint could not be written
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
    _open_standard_streams()
    with contextlib.suppress(ValueError):  # not the main thread
        for number in signals.stop_signals():  # while nothing is there to save
            if number != signal.SIGINT:
                signal.signal(number, _interrupt)
    try:
        if tensorflow:
            import_tensorflow()
        with keeping() if trains else contextlib.nullcontext():
            return main(argv)
    except BaseException as error:
        status = _status(error)
        if status is None:
            raise
        if "--debug" in argv:
            traceback.print_exception(error)
        text = _too_many_files() if _lacks_descriptors(error) else error
        _say("interrupted" if status > 128 else f"error: {text}")
        return status
    finally:
        _discard_what_nobody_reads()


def show(text: str) -> None:
    """Print a line of results; a stdout that is gone gets a warning, and no error."""
    try:
        print(text, flush=True)
    except (OSError, ValueError) as error:
        _say(f"warning: stdout cannot be written ({error}); it would have said: {text}")


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
    given = flags(argv, (command, ""))
    return None if given is None else config.replace(command(), given[0])


def flags(argv: Sequence[str], *parts: tuple[Any, str]) -> list[dict] | None:
    """What ``config.parse`` says of the flags; None after printing help for them."""
    if config.HELP.intersection(argv):
        print(config.help_text(parts))
        return None
    return config.parse(argv, parts)


class _Interrupted(KeyboardInterrupt):
    """SIGTERM or SIGHUP, its number as the argument."""


def _interrupt(number, frame) -> None:
    raise _Interrupted(number)


def _status(error: BaseException) -> int | None:
    """Exit status of an error that one line explains; None for any other."""
    if isinstance(error, _Interrupted):
        return signals.exit_status(error.args[0])
    for kind, status in _EXITS.items():
        if isinstance(error, kind):
            return status
    return EXIT_USAGE if _lacks_descriptors(error) else None


def _lacks_descriptors(error: BaseException) -> bool:
    """Whether it is EMFILE or ENFILE, which TensorFlow has in the text of its own."""
    known = isinstance(error, tuple(_EXITS))
    return not known and os.strerror(errno.EMFILE) in str(error)


def _too_many_files() -> str:
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        f"too many open files: this process may have {limit}, and every worker process "
        "takes some; raise the limit (ulimit -n) or lower --num_workers"
    )


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # a terminal that was closed
        print(text, file=sys.stderr, flush=True)


def _discard_what_nobody_reads() -> None:
    """Let Python end with our status, though it cannot write what is buffered."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _open_standard_streams() -> None:
    """Occupy the descriptors 0 to 2 that the caller has closed, or a file gets them."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free: this one
    if sys.stderr is None:
        sys.stderr = open(2, "w")  # noqa: SIM115


def import_tensorflow() -> None:
    """Import TensorFlow without what it writes about the machine.

    Its log level silences it later, but not while it is imported (measured with 2.21),
    so stderr is put aside meanwhile; a failed import brings it back. Keras, which comes
    with it, imports what it may draw and read tables with if it is there, TensorFlow
    JAX, whose programs it converts: a third of the time, for nothing a script does.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        aside = tempfile.TemporaryFile()  # noqa: SIM115
    except FileNotFoundError as error:
        raise SaveError(
            "there is no folder that takes temporary files, which TensorFlow needs: "
            "make room on the disk, or name one by TMPDIR"
        ) from error
    sys.stderr.flush()
    saved = os.dup(2)
    with aside:
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
