"""Answers of a batch by request; a refused one does not cost the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfagents_batch.serving.server.observations import Decision
from tfagents_batch.serving.server.refused import Refused

Answers = list[dict[str, Any]]
Requests = Sequence[Sequence[Decision]]


def join(requests: Requests) -> list[Decision]:
    """Return the decisions of all requests, in order."""
    return [decision for request in requests for decision in request]


def find_wrong(outputs: Mapping[str, Any]) -> dict[int, str]:
    """Return an output that has NaN or infinity, by row; JSON has neither of them."""
    found: dict[int, str] = {}
    for name, value in outputs.items():
        for array in value if name == "state" else (value,):
            # Finite for nearly all batches, and quicker than a test of each number.
            if array.dtype.kind != "f" or np.vdot(array, array) < np.inf:
                continue
            rows = ~np.isfinite(array.reshape(len(array), -1)).all(1)
            found |= dict.fromkeys(np.flatnonzero(rows).tolist(), name)
    return found


def share(
    requests: Requests, answers: Answers, wrong: Mapping[int, str]
) -> list[Answers | Refused]:
    """Return the answers of each request, or its refusal with 422.

    A request is refused as a whole, so that its client knows which decisions count.

    Args:
      requests: decisions by request.
      answers: of all decisions, in order.
      wrong: outputs that are not finite, by decision.
    """
    found: list[Answers | Refused] = []
    first = 0
    for request in requests:
        rows = range(first, first + len(request))
        first += len(request)
        bad = next((row for row in rows if row in wrong), None) if wrong else None
        if bad is None:
            found.append(answers[rows.start : rows.stop])
            continue
        where = "the observation"
        if len(request) > 1:
            where = f"observations[{bad - rows.start}]"
        found.append(
            Refused(
                422,
                f"{where} leads to values of {wrong[bad]} that are not finite; send "
                "smaller numbers, or load another export if this happens to all",
            )
        )
    return found


def accepted(requests: Requests, found: Sequence[Answers | Refused]) -> list[int]:
    """Return the rows of the decisions whose requests have answers."""
    rows, first = [], 0
    for request, each in zip(requests, found, strict=True):
        if not isinstance(each, Refused):
            rows += range(first, first + len(request))
        first += len(request)
    return rows
