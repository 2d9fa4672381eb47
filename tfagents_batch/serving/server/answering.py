"""Batches of decisions: run the model, log what it chose, and answer."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tfagents_batch.errors import SaveError
from tfagents_batch.serving.description import TIME_DIGITS
from tfagents_batch.serving.observations import (
    Answers,
    DecisionRequest,
    not_finite,
    split,
    stack,
)
from tfagents_batch.serving.server.arrivals import Refused
from tfagents_batch.serving.server.decision_log import DecisionLog
from tfagents_batch.serving.server.models import Models

Requests = Sequence[Sequence[DecisionRequest]]


class Answering:
    """Work on batches of requests, each of one or several decisions.

    Attributes:
      missing: number of features that were not given.
      unknown: number of names of categories that the export does not know.
      unlogged: number of decisions that could not be logged, and got no answer.
    """

    def __init__(self, models: Models, log: DecisionLog | None):
        self._models, self._log = models, log
        # Ids of requests are those of no other process, and in the order of time.
        self._process, self._made = secrets.token_hex(4), 0
        self._next_number = 0
        self.missing = self.unknown = self.unlogged = 0

    def knows(self, request_id: str) -> bool:
        """Return whether this process has made the decision with an id."""
        own = rf"[0-9a-f]+-{self._process}-([0-9a-f]{{1,16}})"
        match = re.fullmatch(own, request_id)
        return match is not None and int(match[1], 16) < self._made

    def predict(self, requests: Requests) -> list[Answers | Refused]:
        """Return the answers of each request of ``/v1/predict``, or its refusal."""
        model = self._models.current
        decisions = [decision for request in requests for decision in request]
        outputs = model.predictor.run_greedy(stack(model.description, decisions))
        shares, rows = _share(requests, split(model.description, outputs), outputs)
        self._count([decisions[row] for row in rows])
        return shares

    def act(self, requests: Requests) -> list[Answers | Refused]:
        """Return the answers of each request of ``/v1/act``, or its refusal.

        Raises:
          Refused: with 503, if they cannot be logged. An answer that is not in the log
            would be missing in all that is learned from it.
        """
        model = self._models.current
        decisions = [decision for request in requests for decision in request]
        feeds = stack(model.description, decisions)
        outputs = model.predictor.run(feeds, outputs=model.needed)
        answers = split(model.description, outputs)
        shares, rows = _share(requests, answers, outputs)
        if not rows:
            return shares
        if len(rows) < len(decisions):
            decisions = [decisions[row] for row in rows]
            answers = [answers[row] for row in rows]
            feeds = {name: array[rows] for name, array in feeds.items()}
        now = time.time_ns() // 1000
        begin = f"{now:0{TIME_DIGITS}x}-{self._process}-"
        for answer in answers:
            answer["request_id"] = f"{begin}{self._made:x}"
            self._made += 1
        self._count(decisions)
        if self._log is not None:
            ds = time.strftime("%Y-%m-%d", time.gmtime(now // 10**6))
            # Two decisions of an episode differ, also if they have the same time.
            first = max(self._next_number, now)
            self._next_number = first + len(decisions)
            lines = model.rows(decisions, answers, feeds, ds, first)
            try:
                self._log.decisions.log(lines)
            except SaveError as error:
                self.unlogged += len(decisions)
                raise Refused(503, f"no decision was made: {error}", 10) from error
        return shares

    def _count(self, decisions: Sequence[DecisionRequest]) -> None:
        self.missing += sum(decision.missing for decision in decisions)
        self.unknown += sum(decision.unknown for decision in decisions)


def _share(
    requests: Requests, answers: Answers, outputs: Mapping[str, Any]
) -> tuple[list[Answers | Refused], list[int]]:
    """Return the answers of each request, or its refusal, and the answered decisions.

    A request with an output that is not finite is refused as a whole, so that its
    client knows which decisions count; it does not cost the others.
    """
    wrong = not_finite(outputs)
    shares: list[Answers | Refused] = []
    answered: list[int] = []
    first = 0
    for request in requests:
        rows = range(first, first + len(request))
        first = rows.stop
        bad = next((row for row in rows if row in wrong), None) if wrong else None
        if bad is None:
            shares.append(answers[rows.start : rows.stop])
            answered += rows
            continue
        where = "the observation"
        if len(request) > 1:
            where = f"observations[{bad - rows.start}]"
        text = (
            f"{where} leads to values of {wrong[bad]} that are not finite; send "
            "smaller numbers, or load another export if this happens to all"
        )
        shares.append(Refused(422, text))
    return shares, answered
