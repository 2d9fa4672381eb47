"""Shared parts of the commands: errors of one line, and the scripts' exit codes."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.measure.process import Failure
from tfagents_batch.errors import UserError
from tfagents_batch.scripts.app import EXIT_INTERRUPTED, EXIT_USAGE


def run(main: Callable[[Sequence[str]], int]) -> int:
    """Run a command's main on the command line; return the exit status."""
    signal.signal(signal.SIGTERM, _interrupt)  # so that its contender ends too
    try:
        return main(sys.argv[1:])
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def report(text: str) -> None:
    """Print a line of progress on stderr; stdout has the table."""
    print(text, file=sys.stderr, flush=True)


def show_result(row: str, contender: str, result: dict[str, Any] | Failure) -> bool:
    """Print one contender's result; return whether it failed."""
    if isinstance(result, Failure):
        report(str(result))
        return True
    print(json.dumps({"row": row, "contender": contender, **result}))
    return False


def _interrupt(number, frame) -> None:
    raise KeyboardInterrupt
