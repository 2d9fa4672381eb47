"""Batches of decisions: run the model, log what it chose, and answer."""

from __future__ import annotations

import datetime
import functools
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfagents_batch.errors import SaveError
from tfagents_batch.serving.description import Description
from tfagents_batch.serving.request_ids import RequestIds
from tfagents_batch.serving.server import sharing
from tfagents_batch.serving.server.decision_log import DecisionLog
from tfagents_batch.serving.server.models import Models
from tfagents_batch.serving.server.observations import Decision
from tfagents_batch.serving.server.refused import Refused
from tfagents_batch.serving.server.sharing import Answers, Requests

Answer = dict[str, Any]
_DAY = 86_400_000_000  # microseconds


class Acting:
    """Work on batches of ``/v1/act``.

    Args:
      models: whose current one acts.
      log: of the decisions, or None.

    Attributes:
      missing: number of features that were not given.
      unlogged: number of decisions that could not be logged, and got no answer.
    """

    def __init__(self, models: Models, log: DecisionLog | None):
        self._models, self._log = models, log
        self._ids = RequestIds()
        self._next_number = 0
        self.missing = self.unlogged = 0

    def __call__(self, requests: Requests) -> list[Answers | Refused]:
        """Return the answers of each request, after they were logged, or its refusal.

        Raises:
          Refused: with 503, if they cannot be logged. An answer that is not in the log
            would be missing in all that is learned from it.
        """
        model = self._models.current
        decisions = sharing.join(requests)
        feeds = stack(model.description, decisions)
        outputs = model.predictor.run(feeds, outputs=model.needed)
        answers = split(model.description, outputs)
        found = sharing.share(requests, answers, sharing.find_wrong(outputs))
        rows = sharing.accepted(requests, found)
        if len(rows) < len(decisions):
            decisions = [decisions[row] for row in rows]
            answers = [answers[row] for row in rows]
            feeds = {name: array[rows] for name, array in feeds.items()}
        if not rows:
            return found
        now = time.time_ns() // 1000
        make_id = self._ids.at(now)
        for answer, decision in zip(answers, decisions, strict=True):
            answer["request_id"] = make_id()
            self.missing += decision.observed.missing
        if self._log is not None:
            ds = _day(now // _DAY)
            # Two decisions of an episode differ, also if they have the same time.
            first = max(self._next_number, now)
            self._next_number = first + len(decisions)
            try:
                self._log.log(model.description, decisions, answers, feeds, ds, first)
            except SaveError as error:
                self.unlogged += len(decisions)
                raise Refused(503, f"no decision was made: {error}", 10) from error
        return found


class Predicting:
    """Work on batches of ``/v1/predict``, which draw and log nothing.

    Args:
      models: whose current one predicts.
    """

    def __init__(self, models: Models):
        self._models = models

    def __call__(self, requests: Requests) -> list[Answers | Refused]:
        model = self._models.current
        outputs = model.predictor.run_greedy(
            stack(model.description, sharing.join(requests))
        )
        wrong = sharing.find_wrong(outputs)
        return sharing.share(requests, split(model.description, outputs), wrong)


def stack(
    description: Description, decisions: Sequence[Decision]
) -> dict[str, np.ndarray]:
    """Return the arrays of decisions as one batch."""
    found = {}
    for each in description.inputs:
        if each.role != "noise":
            array = np.empty((len(decisions), *each.shape), each.dtype)
            for index, decision in enumerate(decisions):
                array[index] = decision.observed.arrays[each.name]
            found[each.name] = array
    return found


def split(description: Description, outputs: dict[str, Any]) -> list[Answer]:
    """Return the outputs of each decision as JSON data, with the model's version."""
    version, names = description.version, description.actions
    lists = {name: x.tolist() for name, x in outputs.items() if name != "state"}
    if names is not None and "action" in lists:
        start = description.start
        lists["action_name"] = [names[x - start] for x in lists["action"]]
    if "state" in outputs:
        parts = [x.tolist() for x in outputs["state"]]
        lists["state"] = [list(each) for each in zip(*parts, strict=True)]
    return [
        dict(zip(lists, values, strict=True), model_version=version)
        for values in zip(*lists.values(), strict=True)
    ]


@functools.lru_cache(2)
def _day(number: int) -> str:
    """Return the date of a number of days since 1970."""
    return str(datetime.date(1970, 1, 1) + datetime.timedelta(number))
