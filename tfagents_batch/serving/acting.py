"""Batches of decisions: run the model, log what it chose, and answer."""

from __future__ import annotations

import datetime
import itertools
import secrets
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfagents_batch.errors import SaveError, UserError
from tfagents_batch.serving.decision_log import DecisionLog
from tfagents_batch.serving.models import Model, Models
from tfagents_batch.serving.observations import Decision
from tfagents_batch.serving.refused import Refused

Answer = dict[str, Any]
_PLAIN = ("action", "propensity", "log_density")  # outputs of a decision
TIME_DIGITS = 14  # of a request id: hexadecimal microseconds since 1970


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
        self._token = secrets.token_hex(4)  # of this process
        self._count = itertools.count()
        self.missing = self.unlogged = 0

    def __call__(self, decisions: Sequence[Decision]) -> list[Answer]:
        """Return the answers of decisions, after they were logged.

        Raises:
          Refused: with 503, if they cannot be logged. An answer that is not in the log
            would be missing in all that is learned from it.
        """
        model = self._models.current
        outputs = model.predictor.run(stack(model, decisions))
        answers = split(model, outputs, _PLAIN, len(decisions))
        now = time.time_ns() // 1000
        begin = f"{now:0{TIME_DIGITS}x}-{self._token}-"
        for answer, decision in zip(answers, decisions, strict=True):
            answer["request_id"] = f"{begin}{next(self._count):x}"
            self.missing += decision.observed.missing
        if self._log is not None:
            day = datetime.datetime.fromtimestamp(now / 1e6, datetime.UTC).date()
            try:
                self._log.log(model.description, decisions, answers, str(day), now)
            except SaveError as error:
                self.unlogged += len(decisions)
                raise Refused(503, f"no decision was made: {error}", 10) from error
            except UserError as error:  # NaN of the model, not a fault of the client
                self.unlogged += len(decisions)
                raise Refused(500, f"the model's answer is no row: {error}") from error
        return answers


class Predicting:
    """Work on batches of ``/v1/predict``, which draw and log nothing.

    Args:
      models: whose current one predicts.
    """

    def __init__(self, models: Models):
        self._models = models

    def __call__(self, decisions: Sequence[Decision]) -> list[Answer]:
        model = self._models.current
        outputs = model.predictor.run_greedy(stack(model, decisions))
        return split(model, outputs, tuple(outputs), len(decisions))


def stack(model: Model, decisions: Sequence[Decision]) -> dict[str, np.ndarray]:
    """Return the arrays of decisions as one batch."""
    found = {}
    for each in model.description.inputs:
        if each.role != "noise":
            array = np.empty((len(decisions), *each.shape), each.dtype)
            for index, decision in enumerate(decisions):
                array[index] = decision.observed.arrays[each.name]
            found[each.name] = array
    return found


def split(
    model: Model, outputs: dict[str, Any], wanted: tuple[str, ...], count: int
) -> list[Answer]:
    """Return the outputs of each decision as JSON data, with the model's version."""
    version, names = model.description.version, model.description.actions
    lists = {x: outputs[x].tolist() for x in wanted if x in outputs and x != "state"}
    if names is not None and "action" in lists:
        start = model.description.start
        lists["action_name"] = [names[x - start] for x in lists["action"]]
    if "state" in outputs:
        lists["state"] = list(
            map(list, zip(*(x.tolist() for x in outputs["state"]), strict=True))
        )
    columns = [lists[x] for x in lists]
    return [
        dict(zip(lists, values, strict=True), model_version=version)
        for values in zip(*columns, strict=True)
    ] or [{"model_version": version} for _ in range(count)]
