"""Measures of the server as Prometheus text."""

from __future__ import annotations

import bisect
import collections
from collections.abc import Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "tfagents_batch_"
# Upper limits of the buckets of durations, in seconds.
BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)


class Requests:
    """Counts and durations of answered requests."""

    def __init__(self) -> None:
        self._count: collections.Counter = collections.Counter()
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0

    def add(self, path: str, status: int, seconds: float) -> None:
        """Count an answer.

        Args:
          path: of an endpoint.
          status: of HTTP.
          seconds: from the request's last byte to the answer.
        """
        self._count[path, status] += 1
        self._buckets[bisect.bisect_left(BUCKETS, seconds)] += 1
        self._seconds += seconds

    def to_text(self) -> str:
        """Return the counts and the histogram."""
        count = {
            f'{{path="{path}",status="{status}"}}': value
            for (path, status), value in sorted(self._count.items())
        }
        limits = [*map(str, BUCKETS), "+Inf"]
        below, values = 0, {}
        for limit, number in zip(limits, self._buckets, strict=True):
            below += number
            values[f'_bucket{{le="{limit}"}}'] = below
        values |= {"_sum": self._seconds, "_count": below}
        counts = to_text("requests_total", "Answered requests.", count)
        help = "Duration of requests."
        return counts + to_text("request_seconds", help, values, "histogram")


def to_text(
    name: str, help: str, values: Mapping[str, float], kind: str | None = None
) -> str:
    """Return a measure in the text format of Prometheus.

    Args:
      name: without prefix.
      help: one line.
      values: by what follows the name, such as ``{path="/v1/act"}``, or "".
      kind: None for a counter, whose name ends with ``_total``, or a gauge.
    """
    if kind is None:
        kind = "counter" if name.endswith("_total") else "gauge"
    name = f"{PREFIX}{name}"
    lines = [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]
    lines += [f"{name}{labels} {value:.15g}" for labels, value in values.items()]
    return "\n".join(lines) + "\n"


def resident_bytes() -> int:
    """Return the memory of this process; 0 where /proc is missing."""
    try:
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
    except OSError:
        return 0
    return pages * 4096
