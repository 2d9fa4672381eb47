"""Predictions of an export for lines of JSON."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator

from tfagents_batch.errors import UserError
from tfagents_batch.serving.predictor import Predictor
from tfagents_batch.serving.server import acting
from tfagents_batch.serving.server.observations import Decision, Reader

BATCH = 256
_KEYS = {"observation", "possible_actions"}


def predict(predictor: Predictor, lines: Iterable[str]) -> Iterator[str]:
    """Yield a line of JSON for each line: the greedy action, values, probabilities.

    Args:
      predictor: of an export that is not recurrent.
      lines: ``{"observation": ...}`` as for ``/v1/predict`` of the server, with
        ``possible_actions`` if the policy has an action mask.

    Raises:
      UserError: naming the line that is wrong, or for a recurrent policy.
    """
    description = predictor.description
    if description.is_recurrent:
        raise UserError(
            f"{description.folder} is recurrent, and single lines have no memory; use "
            "Predictor in Python, which returns the state"
        )
    reader = Reader(description)
    numbered = enumerate(lines, 1)
    while batch := list(itertools.islice(numbered, BATCH)):
        decisions = [_decision(reader, *each) for each in batch]
        outputs = predictor.run_greedy(acting.stack(description, decisions))
        yield from map(json.dumps, acting.split(description, outputs))


def _decision(reader: Reader, number: int, line: str) -> Decision:
    try:
        asked = json.loads(line)
        if not isinstance(asked, dict) or not {"observation"} <= set(asked) <= _KEYS:
            raise UserError(
                'expected an object with "observation", and "possible_actions" for a '
                "policy with an action mask"
            )
        observed = reader.read(asked["observation"], asked.get("possible_actions"))
    except UserError as error:
        raise UserError(f"line {number}: {error}") from error
    except ValueError as error:
        raise UserError(f"line {number} is no JSON: {error}") from error
    return Decision(observed, None, None)
