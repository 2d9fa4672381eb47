"""Predictions of an export for lines of JSON."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator

from tfagents_batch.errors import UserError
from tfagents_batch.serving.decisions import batch, bodies
from tfagents_batch.serving.decisions.observations import Decision, Reader
from tfagents_batch.serving.predictor import Predictor

BATCH = 256
_KEYS = {"observation", "possible_actions"}


def predict(predictor: Predictor, lines: Iterable[bytes]) -> Iterator[str]:
    """Yield a line of JSON for each line: the greedy action, values, probabilities.

    Args:
      predictor: of an export that is not recurrent.
      lines: ``{"observation": ...}`` as to ``/v1/predict`` of the server, with
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
    decisions = _decisions(Reader(description), lines)
    while rows := list(itertools.islice(decisions, BATCH)):
        outputs = predictor.run_greedy(batch.stack(description, rows))
        yield from map(json.dumps, batch.split(description, outputs))


def _decisions(reader: Reader, lines: Iterable[bytes]) -> Iterator[Decision]:
    for number, line in enumerate(lines, 1):
        try:
            asked = bodies.parse(line)
            if not {"observation"} <= asked.keys() <= _KEYS:
                raise UserError(
                    'expected an object with "observation", and "possible_actions" for '
                    "a policy with an action mask, but no other keys"
                )
            yield reader.read(asked["observation"], asked.get("possible_actions"))
        except UserError as error:
            raise UserError(f"line {number}: {error}") from error
        except RecursionError:
            raise UserError(f"line {number}: {bodies.TOO_DEEP}") from None
