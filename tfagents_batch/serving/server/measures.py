"""Measures of the server as Prometheus text."""

from __future__ import annotations

import bisect
import collections
from collections.abc import Iterable, Mapping
from typing import NamedTuple

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
PREFIX = "tfagents_batch_"
# Upper limits of the buckets of durations, in seconds.
BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)


class Sample(NamedTuple):
    """A measure with its values.

    Attributes:
      name: without prefix.
      kind: "counter", "gauge" or "histogram".
      help: one line.
      values: ``{labels: value}``; labels are text such as ``path="/v1/act"``, or "".
    """

    name: str
    kind: str
    help: str
    values: Mapping[str, float]


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

    def samples(self) -> list[Sample]:
        """Return the counts and the histogram."""
        count = {
            f'path="{path}",status="{status}"': value
            for (path, status), value in sorted(self._count.items())
        }
        limits = [*map(str, BUCKETS), "+Inf"]
        below, values = 0, {}
        for limit, number in zip(limits, self._buckets, strict=True):
            below += number
            values[f'_bucket{{le="{limit}"}}'] = below
        values |= {"_sum": self._seconds, "_count": below}
        return [
            Sample("requests_total", "counter", "Answered requests.", count),
            Sample("request_seconds", "histogram", "Duration of requests.", values),
        ]


def counter(name: str, help: str, value: float) -> Sample:
    """Return a counter without labels."""
    return Sample(name, "counter", help, {"": value})


def gauge(name: str, help: str, value: float) -> Sample:
    """Return a gauge without labels."""
    return Sample(name, "gauge", help, {"": value})


def label(name: str, value: str) -> str:
    """Return a label, with the escapes of the text format."""
    for text, escape in (("\\", r"\\"), ('"', r"\""), ("\n", r"\n")):
        value = value.replace(text, escape)
    return f'{name}="{value}"'


def to_text(samples: Iterable[Sample]) -> str:
    """Return samples in the text format of Prometheus."""
    lines = []
    for name, kind, help, values in samples:
        lines.append(f"# HELP {PREFIX}{name} {help}")
        lines.append(f"# TYPE {PREFIX}{name} {kind}")
        for labels, value in values.items():
            if labels and kind != "histogram":
                labels = f"{{{labels}}}"
            lines.append(f"{PREFIX}{name}{labels} {value:.15g}")
    return "\n".join(lines) + "\n"


def resident_bytes() -> int:
    """Return the memory of this process; 0 where /proc is missing."""
    try:
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
    except OSError:
        return 0
    return pages * 4096
