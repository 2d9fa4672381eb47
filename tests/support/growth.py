"""How many objects repeated calls leave in memory."""

import collections
import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import tfagents_batch

_TESTS = Path(__file__).parents[1]
_PLACES = Path(tfagents_batch.__file__).parent, _TESTS
_INSIDE = [tracemalloc.Filter(True, str(place / "*")) for place in _PLACES]


def kept(call: Callable[[], object], calls: int = 20) -> float:
    """Return how many objects of a line of the package or a test stay, per call.

    It is the line of which the most stay. What is in flight varies, so a line counts
    with the smaller growth of two equal parts of the calls.
    """
    call()  # compile
    tracemalloc.start()
    try:
        counts = []
        for _ in range(3):
            for _ in range(calls):
                call()
            gc.collect()
            found = tracemalloc.take_snapshot().filter_traces(_INSIDE)
            lines = {str(x.traceback): x.count for x in found.statistics("lineno")}
            counts.append(collections.Counter(lines))
    finally:
        tracemalloc.stop()
    first, second, third = counts
    grown = [min(third[x] - second[x], second[x] - first[x]) for x in third]
    return max(grown, default=0) / calls
