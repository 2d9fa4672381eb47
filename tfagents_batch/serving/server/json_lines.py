"""Predictions of an export for lines of JSON."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator

from tfagents_batch.errors import UserError
from tfagents_batch.serving.predictor import Predictor
from tfagents_batch.serving.server import acting, bodies
from tfagents_batch.serving.server.observations import Decision, Reader

BATCH = 256


def predict(predictor: Predictor, lines: Iterable[str]) -> Iterator[str]:
    """Yield lines of JSON: the greedy action, values, probabilities.

    Args:
      predictor: of an export that is not recurrent.
      lines: requests as to ``/v1/predict`` of the server.

    Raises:
      UserError: naming the line that is wrong, or for a recurrent policy.
    """
    description = predictor.description
    if description.is_recurrent:
        raise UserError(
            f"{description.folder} is recurrent, and single lines have no memory; use "
            "Predictor in Python, which returns the state"
        )
    decisions = _decisions(Reader(description), lines)
    while batch := list(itertools.islice(decisions, BATCH)):
        outputs = predictor.run_greedy(acting.stack(description, batch))
        yield from map(json.dumps, acting.split(description, outputs))


def _decisions(reader: Reader, lines: Iterable[str]) -> Iterator[Decision]:
    for number, line in enumerate(lines, 1):
        try:
            yield from bodies.decisions(bodies.parse(line.encode()), reader)[0]
        except UserError as error:
            raise UserError(f"line {number}: {error}") from error
