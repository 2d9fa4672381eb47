"""Run work on logged rows, with our library or with d3rlpy."""

from __future__ import annotations

import sys

from benchmarks.measure import process
from benchmarks.measure.process import Failure, Result
from benchmarks.work.logged import OURS, Logged

_DEADLINE = 3600  # seconds


def run(library: str, work: Logged, python: str = "") -> Result | Failure:
    """Run work in a new process; ``python`` is d3rlpy's interpreter."""
    if library == OURS:
        return process.run("benchmarks.inside.logged_ours", work, _DEADLINE)
    peers = process.python_of("peers", {"peers": python}) or sys.executable
    return process.run("benchmarks.inside.logged_theirs", work, _DEADLINE, peers)
