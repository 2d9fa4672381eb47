"""Main function of a learning contender's process: train, watch, and report."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.inside import session
from benchmarks.inside.clock import Clock
from benchmarks.inside.watch import Watch
from benchmarks.work.thresholds import Learning


def main(
    load: Callable[[], None], train: Callable[[Learning, Watch], dict[str, Any]]
) -> None:
    """Run a contender and print its result as one line of JSON.

    Args:
      load: function that imports large packages.
      train: function that trains until the watch ends the run, and returns ``own`` and
        ``versions``.
    """
    with session.result_line() as result:
        work = Learning(**session.work_flag(sys.argv[1:]))
        if work.cache_home:
            os.environ["XDG_CACHE_HOME"] = work.cache_home
        watch = Watch(work, Clock(work.launched))
        load()
        watch.phase("import")
        try:
            figures = train(work, watch)
        finally:
            watch.close()
        result.update(watch.result() | figures)
