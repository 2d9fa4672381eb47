"""Shared parts of the commands: flags, errors of one line, and exit codes."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.measure.process import Failure, report
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import app


def run(flags: type, main: Callable[[Any], int]) -> None:
    """Run a command on the command line, and exit with its status.

    Args:
      flags: dataclass of its flags.
      main: function of the flags that returns the status.
    """
    signal.signal(signal.SIGTERM, _interrupt)  # so that its contender ends too
    status = 0
    try:
        found = app.parse(sys.argv[1:], flags)
        if found is not None:
            status = main(found)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        status = app.EXIT_USAGE
    except KeyboardInterrupt:
        report("interrupted")
        status = app.EXIT_INTERRUPTED
    sys.exit(status)


def show_result(row: str, contender: str, result: dict[str, Any] | Failure) -> bool:
    """Print one contender's result; return whether it failed."""
    if isinstance(result, Failure):
        report(str(result))
        return True
    print(json.dumps({"row": row, "contender": contender, **result}))
    return False


def _interrupt(number, frame) -> None:
    raise KeyboardInterrupt
