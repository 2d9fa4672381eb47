"""Endpoints of the server: functions from a body to JSON data."""

from __future__ import annotations

import bisect
import collections
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tfagents_batch.devices import machine
from tfagents_batch.errors import SaveError
from tfagents_batch.serving import bodies
from tfagents_batch.serving.description import Description
from tfagents_batch.serving.server.answering import Answering
from tfagents_batch.serving.server.arrivals import Refused
from tfagents_batch.serving.server.batching import Batches
from tfagents_batch.serving.server.decision_log import DecisionLog
from tfagents_batch.serving.server.models import Models

Json = dict[str, Any]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "tfagents_batch_"
# Upper limits of the buckets of durations, in seconds.
BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)


class RequestCounts:
    """Counts and durations of answered requests."""

    def __init__(self) -> None:
        self._count: collections.Counter = collections.Counter()
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0

    def add(self, path: str, status: int, seconds: float) -> None:
        """Count an answer; its seconds are those since the request's last byte."""
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
        counts = _to_text("requests_total", "Answered requests.", count)
        help = "Duration of requests."
        return counts + _to_text("request_seconds", help, values, "histogram")


def _to_text(
    name: str, help: str, values: Mapping[str, float], kind: str | None = None
) -> str:
    """Return a measure in the text format of Prometheus.

    Values are by what follows the name, such as ``{path="/v1/act"}``, or "". The kind
    None is a counter, if the name ends with ``_total``, or a gauge.
    """
    if kind is None:
        kind = "counter" if name.endswith("_total") else "gauge"
    name = f"{PREFIX}{name}"
    lines = [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]
    lines += [f"{name}{labels} {value:.15g}" for labels, value in values.items()]
    return "\n".join(lines) + "\n"


class Endpoints:
    """Endpoints of the server, in one event loop.

    Args:
      models: what answers.
      log: of decisions and feedback, or None.
      batches: returns a queue for work on batches.
      parent: folder below which other exports are.

    Attributes:
      queues: by the paths that have one.
      ready: whether the server takes requests.
    """

    def __init__(
        self,
        models: Models,
        log: DecisionLog | None,
        batches: Callable[[Any], Batches],
        parent: str,
    ):
        self.models, self.log, self._parent = models, log, parent
        self._work = Answering(models, log)
        self._acting = batches(self._work.act)
        self._predicting = batches(self._work.predict)
        self.queues = {"/v1/act": self._acting, "/v1/predict": self._predicting}
        self.requests = RequestCounts()
        self.ready = False

    def act(self, body: bytes) -> Awaitable[Json]:
        """Draw actions and log them."""
        return self._decide(body, self._acting, "decisions")

    def predict(self, body: bytes) -> Awaitable[Json]:
        """Return greedy actions, values and probabilities."""
        return self._decide(body, self._predicting, "predictions")

    async def _decide(self, body: bytes, queue: Batches, name: str) -> Json:
        decisions, several = bodies.decisions(body, self.models.current.reader)
        del body  # which may be long
        answers = await queue.submit(decisions)
        return {name: answers} if several else answers[0]

    async def feedback(self, body: bytes) -> Json:
        """Log what followed a decision."""
        if self.log is None:
            raise Refused(409, "decisions are not logged; start the server with --log")
        line = bodies.feedback(body, self.models.current.reader)
        try:
            self.log.feedback.log([json.dumps(line | {"time": time.time_ns() // 1000})])
        except SaveError as error:
            raise Refused(503, f"the feedback was not logged: {error}", 10) from error
        known = self._work.knows(line["request_id"])
        return {"request_id": line["request_id"], "logged": True, "known": known}

    async def model(self, body: bytes) -> Json:
        """Return what is served."""
        previous = self.models.previous
        version = previous and previous.description.version
        return describe(self.models.current.description) | {"previous": version}

    async def load(self, body: bytes) -> Json:
        """Load another export, which takes over."""
        asked = bodies.parse(body)
        path = asked.get("export")
        if asked.keys() != {"export"} or not isinstance(path, str) or not path:
            raise Refused(422, 'expected {"export": "<folder of the server>"}')
        await self.models.load(below(self._parent, path))
        return await self.model(b"")

    async def roll_back(self, body: bytes) -> Json:
        """Let the export before the current one take over."""
        self.models.roll_back()
        return await self.model(b"")

    async def health(self, body: bytes) -> Json:
        """Say that the process lives."""
        return {"status": "ok"}

    async def readiness(self, body: bytes) -> Json:
        """Say that the server takes requests."""
        if not self.ready:
            raise Refused(503, "the server is starting or ending", 1)
        return {"status": "ready", "model_version": self._version}

    @property
    def _version(self) -> str:
        return self.models.current.description.version

    def measures(self) -> str:
        """Return all measures as Prometheus text."""
        work, acting, log, models = self._work, self._acting, self.log, self.models
        waiting = acting.waiting + self._predicting.waiting
        numbers: list[tuple[str, str, float]] = [
            ("decisions_total", "Decisions of /v1/act.", acting.items),
            ("batches_total", "Batches of /v1/act.", acting.batches),
            ("waiting", "Decisions that wait for a batch.", waiting),
            ("missing_features_total", "Features that were not given.", work.missing),
            ("unknown_categories_total", "Names that are no category.", work.unknown),
            ("unlogged_total", "Decisions that were not logged.", work.unlogged),
            ("swaps_total", "Exports that took over.", models.swaps),
            ("refusals_total", "Exports that were refused.", models.refusals),
            ("resident_bytes", "Memory of the worker.", machine.resident_bytes()),
        ]
        if log is not None:
            failures = log.decisions.failures + log.feedback.failures
            numbers += [
                ("logged_total", "Logged decisions.", log.decisions.logged),
                ("feedback_total", "Logged feedback.", log.feedback.logged),
                ("log_failures_total", "Failures of the disk.", failures),
            ]
        lines = [_to_text(name, help, {"": x}) for name, help, x in numbers]
        version = json.dumps(self._version, ensure_ascii=False)  # has the same escapes
        labels = f"{{version={version}}}"
        lines.append(_to_text("model", "The current export.", {labels: 1}))
        return "".join([self.requests.to_text(), *lines])


def parent_of(export: str) -> str:
    """Return the folder below which other exports may be, without links."""
    return os.path.dirname(os.path.realpath(export))


def below(parent: str, path: str) -> str:
    """Return the path, without links, of a folder below another one.

    All paths that are refused, with 422, have the same error, which does not tell what
    exists. No path is below the root, which has all files.
    """
    try:
        folder = os.path.realpath(path)
    except ValueError:  # no path has such characters
        folder = ""
    if parent == "/" or not folder.startswith(f"{parent}/"):
        raise Refused(
            422,
            f"export is {path!r:.80}; expected a folder below the one that has the "
            "export of the server's start, which must not be /",
        )
    return folder


def describe(description: Description) -> Json:
    """Return what callers may know of an export."""
    names = "name", "algorithm", "step", "exploration", "observation_space"
    names += "action_space", "actions", "features", "mask"
    values = {name: getattr(description, name) for name in names}
    version = {"model_version": description.version}
    return version | values | {"recurrent": description.is_recurrent}
