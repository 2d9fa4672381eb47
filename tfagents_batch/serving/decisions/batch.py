"""Decisions as a batch of the model, and its outputs as answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfagents_batch.serving.decisions.observations import Decision
from tfagents_batch.serving.description import Description

Answers = list[dict[str, Any]]


def stack(
    description: Description, decisions: Sequence[Decision]
) -> dict[str, np.ndarray]:
    """Return the arrays of decisions as one batch."""
    found = {}
    for each in description.inputs:
        if each.role != "noise":
            array = np.empty((len(decisions), *each.shape), each.dtype)
            for index, decision in enumerate(decisions):
                array[index] = decision.arrays[each.name]
            found[each.name] = array
    return found


def split(description: Description, outputs: dict[str, Any]) -> Answers:
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
