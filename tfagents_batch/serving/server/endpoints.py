"""Endpoints of the server: functions from a body to JSON data."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tfagents_batch.errors import SaveError
from tfagents_batch.serving.description import Description
from tfagents_batch.serving.server import bodies, measures
from tfagents_batch.serving.server.acting import Acting, Predicting
from tfagents_batch.serving.server.batching import Batches
from tfagents_batch.serving.server.decision_log import DecisionLog
from tfagents_batch.serving.server.measures import counter, gauge
from tfagents_batch.serving.server.models import Models
from tfagents_batch.serving.server.refused import Refused

Json = dict[str, Any]


class Endpoints:
    """Endpoints of the server, in one event loop.

    Args:
      models: what answers.
      log: of decisions and feedback, or None.
      batches: returns a queue for work on batches.

    Attributes:
      requests: counts of answered requests.
      slow_clients: returns the number of connections that were closed as too slow.
      ready: whether the server takes requests.
    """

    def __init__(
        self,
        models: Models,
        log: DecisionLog | None,
        batches: Callable[[Any], Batches],
    ):
        self.models, self._log = models, log
        self._work = Acting(models, log)
        self._acting, self._predicting = (
            batches(self._work),
            batches(Predicting(models)),
        )
        self.requests = measures.Requests()
        self.slow_clients: Callable[[], int] = lambda: 0
        self.ready = False

    async def act(self, body: bytes) -> Json:
        """Draw actions and log them."""
        model = self.models.current
        asked = bodies.parse(body)
        found, several = bodies.decisions(asked, model.reader, model.description)
        answers = await self._acting.submit(found)
        return {"decisions": answers} if several else answers[0]

    async def predict(self, body: bytes) -> Json:
        """Return greedy actions, values and probabilities."""
        model = self.models.current
        asked = bodies.parse(body)
        found, several = bodies.decisions(asked, model.reader, model.description)
        answers = await self._predicting.submit(found)
        return {"predictions": answers} if several else answers[0]

    async def feedback(self, body: bytes) -> Json:
        """Log what followed a decision."""
        if self._log is None:
            raise Refused(409, "decisions are not logged; start the server with --log")
        model = self.models.current
        line = bodies.feedback(bodies.parse(body), model.reader, model.description)
        try:
            self._log.feedback.log(
                [json.dumps(line | {"time": time.time_ns() // 1000})]
            )
        except SaveError as error:
            raise Refused(503, f"the feedback was not logged: {error}", 10) from error
        return {"request_id": line["request_id"], "logged": True}

    async def model(self, body: bytes) -> Json:
        """Return what is served."""
        previous = self.models.previous
        return describe(self.models.current.description) | {
            "previous": previous and previous.description.version
        }

    async def load(self, body: bytes) -> Json:
        """Load another export, which takes over."""
        asked = bodies.parse(body)
        path = asked.get("export")
        if asked.keys() != {"export"} or not isinstance(path, str) or not path:
            raise Refused(
                422, 'expected {"export": "<folder on the server\'s machine>"}'
            )
        try:
            folder = str(Path(path).expanduser())
        except RuntimeError as error:  # of a user that does not exist
            raise Refused(422, f"export is {path!r:.80}: {error}") from None
        await self.models.load(folder)
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
        return measures.to_text([*self.requests.samples(), *self._samples()])

    def _samples(self) -> Iterable[measures.Sample]:
        acting, log = self._acting, self._log
        yield counter("decisions_total", "Decisions of /v1/act.", acting.items)
        yield counter("batches_total", "Batches of /v1/act.", acting.batches)
        waiting = acting.waiting + self._predicting.waiting
        yield gauge("waiting", "Decisions that wait for a batch.", waiting)
        missing = self._work.missing
        yield counter(
            "missing_features_total", "Features that were not given.", missing
        )
        yield counter(
            "unlogged_total",
            "Decisions that could not be logged and got no answer.",
            self._work.unlogged,
        )
        if log is not None:
            rows, lines = log.decisions, log.feedback
            yield counter("logged_total", "Logged decisions.", rows.logged)
            yield counter("feedback_total", "Logged feedback.", lines.logged)
            failures = rows.failures + lines.failures
            yield counter("log_failures_total", "Failures of the disk.", failures)
        yield counter(
            "slow_clients_total",
            "Connections that were closed as too slow.",
            self.slow_clients(),
        )
        models = self.models
        yield counter("swaps_total", "Exports that took over.", models.swaps)
        yield counter("refusals_total", "Exports that were refused.", models.refusals)
        version = {measures.label("version", self._version): 1}
        yield measures.Sample("model", "gauge", "The current export.", version)
        yield gauge(
            "resident_bytes", "Memory of this process.", measures.resident_bytes()
        )


def describe(description: Description) -> Json:
    """Return what callers may know of an export."""
    return {
        "model_version": description.version,
        "name": description.name,
        "algorithm": description.algorithm,
        "step": description.step,
        "exploration": description.exploration,
        "observation_space": description.observation_space,
        "action_space": description.action_space,
        "actions": description.actions,
        "features": description.features,
        "mask": description.mask,
        "recurrent": description.is_recurrent,
    }
