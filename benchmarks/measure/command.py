"""Command lines of the benchmarks: flags, errors of one line, and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from tfagents_batch.scripts import command_line


def run(flags: type, main: Callable[[Any], int]) -> None:
    """Run ``main`` with the flags of the command line, and exit with its status."""

    def parsed(argv: Sequence[str]) -> int:
        return main(command_line.parse(argv, flags))

    sys.exit(command_line.run(parsed))
