"""What the commands share: errors of one line, with the scripts' exit codes."""

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
    """Run a command's main on the command line; returns the exit status."""
    signal.signal(signal.SIGTERM, _interrupt)  # or its contender would run on
    try:
        return main(sys.argv[1:])
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def report(text: str) -> None:
    """A line of progress, beside the table on stdout."""
    print(text, file=sys.stderr, flush=True)


def look(row: str, contender: str, result: dict[str, Any] | Failure) -> bool:
    """Print one contender's result; whether it failed."""
    if isinstance(result, Failure):
        report(str(result))
        return True
    print(json.dumps({"row": row, "contender": contender, **result}))
    return False


def _interrupt(number, frame) -> None:
    raise KeyboardInterrupt
