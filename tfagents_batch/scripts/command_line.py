"""Shared code of the scripts: flags, exit codes and error messages."""

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
    is_of_storage,
)
from tfagents_batch.importing import (
    hidden,
    keras_on_tensorflow,
    uncollected,
    without_messages,
)
from tfagents_batch.settings import parsing
from tfagents_batch.training import signals
from tfagents_batch.training.log import console
from tfagents_batch.training.run_folder import runs

Command = TypeVar("Command")


@dataclasses.dataclass(frozen=True)
class AgentCommand:
    """Flags of scripts that load the agent of a run."""

    logdir: str | None = option("", "run folder; required")
    checkpoint: str = option("newest", "checkpoint: newest, best or a step")
    env: str | None = option(None, "environment instead of the run's")
    env_kwargs: dict | None = option(
        None, "arguments of the environment; none: those of the run"
    )
    wrappers: list | None = option(
        None, "wrappers of the environment, innermost first; none: those of the run"
    )
    algorithm: str | None = option(
        None, "your own algorithm again, if the run was trained by one"
    )
    debug: bool = option(False, "print tracebacks")

    def arguments(self) -> dict[str, Any]:
        """Return the flags as arguments of ``tfb.load``."""
        if not self.logdir:
            raise UserError("no run folder is given; pass --logdir=<run folder>")
        check_run(self.logdir, self.checkpoint)
        names = {field.name for field in dataclasses.fields(AgentCommand)} - {"debug"}
        return {name: getattr(self, name) for name in names}


@dataclasses.dataclass(frozen=True)
class PlayCommand(AgentCommand):
    """Flags of scripts that play the agent of a run."""

    seed: int = option(
        0, "seed of environments and sampled actions", least=0, most=2**31 - 1
    )

    def arguments(self) -> dict[str, Any]:
        """Return the flags as arguments of ``tfb.evaluate`` and ``tfb.visualize``."""
        return super().arguments() | {"seed": self.seed}


def check_run(logdir: str, checkpoint: str = "newest") -> None:
    """Check that there is such a run and checkpoint, before TensorFlow is imported."""
    runs.checkpoint(runs.open_run(logdir).folder, checkpoint)


EXIT_USAGE = 64  # bad flag, name, config or run folder
EXIT_DATA = 65  # training cannot continue: gradients are not finite
EXIT_ENVIRONMENT = EXIT_CRASH = 70  # an environment, or this program, has a defect
EXIT_STORAGE = 74  # a run folder or its last checkpoint could not be written
EXIT_INTERRUPTED = 130

_EXITS = {
    UserError: EXIT_USAGE,
    TrainingError: EXIT_DATA,
    EnvError: EXIT_ENVIRONMENT,
    SaveError: EXIT_STORAGE,
    Stopped: EXIT_INTERRUPTED,
    KeyboardInterrupt: EXIT_INTERRUPTED,
}

_TOO_MANY_FILES = (
    "too many open files; raise the limit (ulimit -n), or lower --num_workers, because "
    "every worker needs some"
)
# Optional imports of TensorFlow and Keras that no script needs.
_NOT_NEEDED = ("matplotlib", "cv2", "pandas", "scipy", "jax")


def run(
    main: Callable[[Sequence[str]], int],
    trains: bool = False,
    early: Callable[[Sequence[str]], None] | None = None,
) -> int:
    """Run a script's main function on the command line and return the exit status.

    An error is printed as one line on stderr, or as an environment's report;
    ``--debug`` adds the traceback. An error that nobody expected has its traceback, and
    the status ``EXIT_CRASH``: a command may give 1, as Python would, another meaning.

    Args:
      main: function of the arguments without the program's name.
      trains: it trains, which compiles for long; programs are saved for later starts,
        see ``training.compilation``.
      early: function of the arguments that refuses what is wrong without TensorFlow.
    """
    argv = sys.argv[1:]
    _open_standard_streams()
    with contextlib.suppress(ValueError):  # not the main thread
        for number in signals.stop_signals():  # until training handles them
            if number != signal.SIGINT:
                signal.signal(number, _interrupt)
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(signals.harmless_checkpoint_requests())
            helps = parsing.HELP.intersection(argv)
            reason = console.REASON if trains and not helps else ""
            stack.enter_context(console.starting("--quiet" in argv, reason))
            if early is not None and not helps:
                early(argv)
            if trains:
                import_tensorflow()
                from tfagents_batch.training import compilation

                stack.enter_context(compilation.allow_storing())
            return main(argv)
    except _Helped:
        return 0
    except BaseException as error:
        status = _status(error)
        console.started()
        if status is None:
            if not isinstance(error, Exception):
                raise
            with contextlib.suppress(OSError, ValueError):  # a closed terminal
                traceback.print_exception(error)
            return EXIT_CRASH
        if "--debug" in argv:
            traceback.print_exception(error)
        text = _TOO_MANY_FILES if _lacks_descriptors(error) else error
        say("interrupted" if status > 128 else f"error: {text}")
        return status
    finally:
        _discard_unwritable_output()


def show(text: str) -> None:
    """Print a line of results; warn instead of failing if stdout is closed.

    Results come last, so the line about the progress ends.
    """
    console.started()
    try:
        print(text, flush=True)
    except (OSError, ValueError) as error:
        say(f"warning: stdout cannot be written ({error}); the line was: {text}")


def parse(argv: Sequence[str], command: type[Command]) -> Command:
    """Return the checked flags of a script, see ``parse_parts``."""
    return parse_parts(argv, command)[0]


def parse_parts(argv: Sequence[str], *commands: type) -> list[Any]:
    """Return the checked flags of a script that has those of several dataclasses.

    Raises:
      UserError: for an unknown flag, or a value that is wrong or out of bounds.
    """
    parts = flags(argv, *((command, "") for command in commands))
    return [
        config.check(config.replace(command(), part), "--")
        for command, part in zip(commands, parts, strict=True)
    ]


def flags(
    argv: Sequence[str], *parts: tuple[Any, str], epilog: str = ""
) -> list[dict[str, Any]]:
    """Parse flags by ``parsing.parse``; print help and exit if it is requested.

    The parts are configs and prefixes. The epilog is a text after the help.
    """
    if parsing.HELP.intersection(argv):
        about = sys.modules[parts[0][0].__module__].__doc__ or ""
        about = about.partition("\n\n")[0].replace("``", "").strip()
        console.started()
        print(f"{about}\n\n{parsing.help_text(parts, argv)}{epilog}")
        raise _Helped(0)
    return parsing.parse(argv, parts)


class _Helped(SystemExit):
    """The help was printed."""


class _Interrupted(KeyboardInterrupt):
    """SIGTERM or SIGHUP; the argument is the signal number."""


def _interrupt(number, frame) -> None:
    raise _Interrupted(number)


def _status(error: BaseException) -> int | None:
    """Return the exit status of an expected error; None for any other."""
    if isinstance(error, _Interrupted):
        return signals.exit_status(error.args[0])
    if _is_of_storage(error):
        return EXIT_STORAGE
    for kind, number in _EXITS.items():
        if isinstance(error, kind):
            return number
    return EXIT_USAGE if _lacks_descriptors(error) else None


def _is_of_storage(error: BaseException) -> bool:
    """Return whether a full or broken disk caused an error, see ``is_of_storage``.

    A UserError on rows that cannot be read may have such a cause, for example where
    DuckDB has no room for temporary files. Environments have a status of their own.
    """
    cause: BaseException | None = error
    if isinstance(error, (EnvError, TrainingError)):
        return False
    while isinstance(cause, UserError):
        cause = cause.__cause__
    return isinstance(cause, Exception) and is_of_storage(cause)


def _lacks_descriptors(error: BaseException) -> bool:
    """Return whether the error is EMFILE or ENFILE, even from TensorFlow."""
    known = isinstance(error, tuple(_EXITS))
    return not known and os.strerror(errno.EMFILE) in str(error)


def say(text: str) -> None:
    """Print a line that is no result, on stderr."""
    # The terminal may be closed.
    with console.aside(), contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def _discard_unwritable_output() -> None:
    """Discard output that cannot be written, so that Python exits with our status."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _open_standard_streams() -> None:
    """Open descriptors 0 to 2 if they are closed, so that no other file gets them."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number: this one
    if sys.stderr is None:
        sys.stderr = open(2, "w")  # noqa: SIM115


def import_tensorflow() -> None:
    """Import TensorFlow without its log output about the machine.

    Commands call it after they have read their flags, whose errors come at once.
    Optional packages for plots, tables and JAX programs are hidden: importing them
    takes a third of the time, and no script needs them.
    """
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        raise SaveError(
            "no folder for temporary files can be written, and TensorFlow needs one; "
            "free disk space, or set TMPDIR to another folder"
        ) from error
    if "tensorflow" in sys.modules:
        return
    with (
        keras_on_tensorflow(),
        console.doing("importing TensorFlow"),
        without_messages(),
        hidden(*_NOT_NEEDED),
        uncollected(),
    ):
        importlib.import_module("tensorflow")
    gc.freeze()  # imported objects are permanent; the collector skips them
