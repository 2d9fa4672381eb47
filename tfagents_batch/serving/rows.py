"""Decisions as logged rows, see ``offline.schema``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfagents_batch.errors import UserError
from tfagents_batch.offline.schema import Mode
from tfagents_batch.serving.description import Description
from tfagents_batch.serving.observations import Decision, Observed

ACTION_ID = 1_000_000  # of the first feature of a continuous action, as in collecting
Row = dict[str, Any]


def mode(description: Description) -> Mode:
    """Return the kind of rows of an export's decisions.

    Raises:
      UserError: if its decisions are no rows.
    """
    kind = description.action_space["type"]
    if kind not in ("Discrete", "Box"):
        raise UserError(
            f"the action space is {kind}, and rows have Discrete actions or a Box; "
            "serve without --log"
        )
    for each in description.numbers:
        if len(each.shape) > 1:
            raise UserError(
                f"{each.name} is {list(each.shape)}, and rows have features, which are "
                "vectors and numbers; serve without --log"
            )
    return "discrete" if kind == "Discrete" else "continuous"


def names(description: Description) -> list[str]:
    """Return the names of all Discrete actions in the order of their numbers."""
    if description.actions is not None:
        return [*description.actions]
    count, start = description.action_space["n"], description.start
    return [str(start + k) for k in range(count)]


class Rows:
    """Rows of an export's decisions.

    Args:
      description: of the export.

    Attributes:
      mode: kind of actions.
      names: names of Discrete actions.

    Raises:
      UserError: if its decisions are no rows.
    """

    def __init__(self, description: Description):
        self.mode = mode(description)
        self._description = description
        self.names = names(description) if description.is_discrete else []
        self._policy = (
            f"{description.algorithm}, exploration {description.exploration:g}"
        )
        size = sum(each.size for each in description.numbers)
        self._ids = [str(x) for x in description.features or range(size)]

    def __call__(
        self,
        decisions: Sequence[Decision],
        answers: Sequence[Row],
        ds: str,
        microseconds: int,
    ) -> list[Row]:
        """Return the rows of a batch of decisions.

        Args:
          decisions: what was asked.
          answers: what is answered, see ``acting``.
          ds: partition of the rows, the day.
          microseconds: time of the batch, the sequence number where none was given.
        """
        version = self._description.version
        features = self._features(decisions)
        pairs = zip(decisions, features, answers, strict=True)
        found = []
        for (observed, mdp_id, number), state, answer in pairs:
            own = mdp_id is None  # an episode of one decision
            found.append(
                {
                    "ds": ds,
                    "mdp_id": answer["request_id"] if own else mdp_id,
                    "sequence_number": (0 if own else microseconds)
                    if number is None
                    else number,
                    "state_features": state,
                    "reward": 0.0,  # until feedback is joined
                    "request_id": answer["request_id"],
                    "model_version": version,
                    "policy": self._policy,
                    **self._action(observed, answer),
                }
            )
        return found

    def _action(self, observed: Observed, answer: Row) -> Row:
        action = answer["action"]
        if self.mode == "continuous":
            values = np.ravel(action).tolist()
            found: Row = {
                "action": {str(ACTION_ID + k): x for k, x in enumerate(values)}
            }
            if "log_density" in answer:
                found["action_log_density"] = answer["log_density"]
            return found
        found = {
            "action": self.names[action - self._description.start],
            "possible_actions": possible(self._description, self.names, observed),
        }
        if "propensity" in answer:  # float32, which may round to more than 1
            found["action_probability"] = min(answer["propensity"], 1.0)
        return found

    def _features(self, decisions: Sequence[Decision]) -> list[dict[str, float]]:
        """Return numbers by id: those that were given, or all of the observation."""
        if decisions[0].observed.features is not None:
            return [each.observed.features for each in decisions]
        parts = [
            np.reshape(
                [x.observed.arrays[each.name] for x in decisions], (-1, each.size)
            )
            for each in self._description.numbers
        ]
        joined = parts[0] if len(parts) == 1 else np.concatenate(parts, 1)
        return [
            dict(zip(self._ids, each, strict=True))
            for each in joined.astype(float).tolist()
        ]


def possible(
    description: Description, action_names: list[str], observed: Observed
) -> list[str]:
    """Return the names of the actions that can be taken."""
    if description.mask is None:
        return action_names
    mask = observed.arrays[description.mask].tolist()
    return [name for name, valid in zip(action_names, mask, strict=True) if valid]


def final(description: Description, observed: Observed) -> Row:
    """Return the columns of an observation after the last decision of an episode."""
    if observed.features is not None:
        features = observed.features
    else:
        parts = [np.ravel(observed.arrays[x.name]) for x in description.numbers]
        numbers = np.concatenate(parts).astype(float).tolist()
        ids = description.features or range(len(numbers))
        features = {str(k): x for k, x in zip(ids, numbers, strict=True)}
    found: Row = {"final_state_features": features}
    if description.is_discrete:
        known = names(description)
        found["final_possible_actions"] = possible(description, known, observed)
    return found
