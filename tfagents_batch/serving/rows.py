"""Decisions as logged rows, see ``offline.schema``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tfagents_batch.errors import UserError
from tfagents_batch.serving.description import Description
from tfagents_batch.serving.observations import DecisionRequest

ACTION_ID = 1_000_000  # of the first feature of a continuous action, as in collecting
Row = dict[str, Any]
_MASKS = 10_000  # masks whose text is stored
_to_json = json.JSONEncoder(separators=(",", ":")).encode


def _check(description: Description) -> None:
    """Refuse an export whose decisions are no rows."""
    kind = description.action_space["type"]
    if kind not in ("Discrete", "Box"):
        raise UserError(
            f"the action space is {kind}, and rows have Discrete actions or a Box; "
            "serve without --log"
        )
    for field in description.numbers:
        if len(field.shape) > 1:
            raise UserError(
                f"{field.name} is {list(field.shape)}, and rows have features, which "
                "are vectors and numbers; serve without --log"
            )
    size = sum(field.size for field in description.numbers)
    if description.features is not None and len(description.features) != size:
        raise UserError(
            f"observations have {size} numbers and {len(description.features)} ids of "
            "features, so they are no rows; serve without --log"
        )


class DecisionRows:
    """Rows of an export's decisions, as lines of JSON.

    A server writes thousands of rows a second that differ in a few values, so the text
    is filled into a template, which takes a third of the time of an encoder. UserError
    if decisions of the export are no rows.
    """

    def __init__(self, description: Description):
        _check(description)
        self._description, self._start = description, description.start
        self._actions = [_to_json(name) for name in description.action_names]
        # Names of the possible actions as JSON, by the bytes of the mask; b"" for none.
        self._possible = {b"": _to_json(description.action_names)}
        policy = f"{description.algorithm}, exploration {description.exploration:g}"
        origin = {"model_version": description.version, "policy": policy}
        self._origin = _to_json(origin)[1:-1]
        size = sum(field.size for field in description.numbers)
        self._numbers = _template(description.features or range(size))
        count = sum(x.size for x in description.outputs if x.name == "action")
        self._vector = _template(range(ACTION_ID, ACTION_ID + count))

    def __call__(
        self,
        decisions: Sequence[DecisionRequest],
        answers: Sequence[Row],
        arrays: Mapping[str, np.ndarray],
        ds: str,
        first_number: int,
    ) -> list[str]:
        """Return the rows of a batch of decisions.

        Args:
          decisions: what was asked.
          answers: what is answered, see ``acting``; its numbers are finite.
          arrays: inputs of the model for the batch.
          ds: partition of the rows, the day.
          first_number: sequence number of the first decision, if none was given; it
            increases by 1 for each decision.
        """
        is_discrete = self._description.is_discrete
        action = self._discrete if is_discrete else self._continuous
        states = self._states(decisions, arrays)
        rows = []
        together = zip(decisions, states, answers, strict=True)
        for own_number, (decision, state, answer) in enumerate(together, first_number):
            request_id = answer["request_id"]
            number = decision.sequence_number
            end = ""
            if decision.mdp_id is None:  # an episode of one decision
                episode, number, end = f'"{request_id}"', 0, ',"terminated":true'
            else:
                episode = _to_json(decision.mdp_id)
                number = own_number if number is None else number
            # The reward is 0 until feedback is joined.
            rows.append(
                f'{{"ds":"{ds}","mdp_id":{episode},"sequence_number":{number},'
                f'"state_features":{state},{action(decision, answer)},'
                f'"reward":0.0,"request_id":"{request_id}",{self._origin}{end}}}'
            )
        return rows

    def _discrete(self, decision: DecisionRequest, answer: Row) -> str:
        name = self._actions[answer["action"] - self._start]
        text = f'"action":{name},"possible_actions":{self._find_possible(decision)}'
        if "propensity" in answer:  # float32, which may round to more than 1
            text += f',"action_probability":{min(answer["propensity"], 1.0)!r}'
        return text

    def _continuous(self, decision: DecisionRequest, answer: Row) -> str:
        del decision
        # The density is that of the sample, which the action keeps within its bounds.
        action = answer.get("sample", answer["action"])
        text = f'"action":{self._vector % tuple(np.ravel(action).tolist())}'
        if "log_density" in answer:
            text += f',"action_log_density":{answer["log_density"]!r}'
        return text

    def _find_possible(self, decision: DecisionRequest) -> str:
        mask = self._description.mask
        key = b"" if mask is None else decision.arrays[mask].tobytes()
        text = self._possible.get(key)
        if text is None:
            if len(self._possible) >= _MASKS:
                self._possible = {b"": self._possible[b""]}
            text = _to_json(possible(self._description, decision))
            self._possible[key] = text
        return text

    def _states(
        self, decisions: Sequence[DecisionRequest], arrays: Mapping[str, np.ndarray]
    ) -> list[str]:
        """Return numbers by id: those that were given, or all of the observation."""
        if decisions[0].features is not None:
            return [_to_json(decision.features) for decision in decisions]
        parts = [
            arrays[x.name].reshape(len(decisions), -1)
            for x in self._description.numbers
        ]
        joined = parts[0] if len(parts) == 1 else np.concatenate(parts, 1)
        if joined.dtype == bool:
            joined = joined.astype(np.int8)
        return [self._numbers % tuple(numbers) for numbers in joined.tolist()]


def _template(ids: Iterable[int]) -> str:
    """Return a template of a JSON object of numbers by id."""
    return "{" + ",".join(f'"{i}":%r' for i in ids) + "}"


def possible(description: Description, decision: DecisionRequest) -> list[str]:
    """Return the names of the actions that can be taken."""
    names = description.action_names
    if description.mask is None:
        return [*names]
    mask = decision.arrays[description.mask].tolist()
    return [name for name, valid in zip(names, mask, strict=True) if valid]


def final(description: Description, decision: DecisionRequest) -> Row:
    """Return the columns of an observation after the last decision of an episode."""
    if decision.features is not None:
        features = decision.features
    else:
        parts = [np.ravel(decision.arrays[x.name]) for x in description.numbers]
        numbers = np.concatenate(parts).astype(float).tolist()
        ids = description.features or range(len(numbers))
        features = {str(k): x for k, x in zip(ids, numbers, strict=True)}
    row: Row = {"final_state_features": features}
    if description.is_discrete:
        row["final_possible_actions"] = possible(description, decision)
    return row
