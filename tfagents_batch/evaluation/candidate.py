"""A trained policy on logged rows, deciding as its export would."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import gymnasium as gym
import numpy as np
import tensorflow as tf

from tfagents_batch.errors import UserError
from tfagents_batch.logged.table import MASK, PRESENCE, STATE
from tfagents_batch.offline.table_reader import Columns, Partition
from tfagents_batch.serving.signature import Signature
from tfagents_batch.types import EnvSpec

_ROWS = 8192  # of a call


class Served:
    """Probabilities of the actions of an exported policy, an ``evaluate.Candidate``.

    Args:
      signature: the function of the export.
      spec: spaces of the policy's environments.
      found: the rows.
      actions: names of the policy's actions, in order; empty for their numbers.
      features: ids of its features, in order; empty for 0, 1, and so on.
      name: name for reports.
      step: step of the checkpoint, for reports.

    Raises:
      UserError: if the policy cannot decide on these rows.
    """

    def __init__(
        self,
        signature: Signature,
        spec: EnvSpec,
        found: Partition,
        actions: Sequence[str],
        features: Sequence[int],
        name: str,
        step: int,
    ):
        self.name, self.step = name, step
        self._places, self._own = _places(spec, found, actions)
        self._columns = _columns(spec, found, features)
        if any(x.role == "state" for x in signature.inputs):
            raise UserError(
                "the policy has a memory of earlier decisions; a policy that decides "
                "by the state alone can be evaluated from logged rows"
            )
        self._inputs = signature.inputs
        self._decide = tf.function(signature.decide, autograph=False)

    def probabilities(self, columns: Columns, part: str) -> np.ndarray:
        """Return the probabilities of the log's actions, f32 ``[N, A]``."""
        size = len(columns["reward"])
        found = [
            self._block({k: x[i : i + _ROWS] for k, x in columns.items()}, part)
            for i in range(0, size, _ROWS)
        ]
        return np.concatenate(found) if found else np.zeros([0, len(self._places)])

    def _block(self, columns: Columns, part: str) -> np.ndarray:
        size = len(columns["reward"])
        raw = columns[f"{part}state"][:, self._columns]
        parts = {
            STATE: np.nan_to_num(raw),
            PRESENCE: ~np.isnan(raw),
            MASK: columns[f"{part}mask"][:, self._own],
        }
        given = {}
        for field in self._inputs:
            # Probabilities do not depend on the noise that would draw an action.
            x = np.zeros([size, *field.shape])
            if field.role == "observation":
                x = parts[field.path[0] if field.path else STATE]
            padded = np.concatenate([x, x[:1].repeat(_ROWS - size, 0)])  # one shape
            given[field.name] = tf.constant(padded.astype(field.dtype))
        found = self._decide(given)["probabilities"].numpy()[:size]
        return np.append(found, np.zeros([size, 1], found.dtype), 1)[:, self._places]


class Function:
    """Probabilities that a function returns, an ``evaluate.Candidate``.

    Args:
      function: from states f32 ``[N, F]``, NaN where a feature is missing, and flags
        bool ``[N, A]`` of possible actions to probabilities ``[N, A]``, in the order of
        the ids and names in the table's manifest.
    """

    def __init__(self, function: Callable[[np.ndarray, np.ndarray], np.ndarray]):
        self.name = getattr(function, "__name__", "function")
        self._function = function

    def probabilities(self, columns: Columns, part: str) -> np.ndarray:
        """Return the probabilities of the log's actions, f64 ``[N, A]``."""
        mask = columns[f"{part}mask"]
        mask = mask | ~mask.any(1, keepdims=True)  # after the end nothing is possible
        # Nothing follows terminal rows, so no decision is asked for there.
        used = ~columns["terminated"] if part else np.ones(len(mask), bool)
        found = mask / mask.sum(1, keepdims=True)
        if used.any():
            found[used] = self._asked(columns[f"{part}state"][used], mask[used])
        return found

    def _asked(self, state: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Return what the function says, checked."""
        found = np.asarray(self._function(state, mask), np.float64)
        if found.shape != mask.shape:
            raise UserError(
                f"{self.name} returned the shape {list(found.shape)}; expected a "
                f"probability of every action, {list(mask.shape)}"
            )
        if not ((found >= 0).all() and np.allclose(found.sum(1), 1, atol=1e-4)):
            raise UserError(
                f"{self.name} returned numbers that are no probabilities; expected "
                "numbers that are at least 0 and whose sum is 1 in every row, also "
                "where features are missing (NaN)"
            )
        if (found * ~mask).any():
            raise UserError(
                f"{self.name} returned a probability above 0 for an action that was "
                "not possible; expected 0 there"
            )
        return found


def _places(
    spec: EnvSpec, found: Partition, actions: Sequence[str]
) -> tuple[list[int], list[int]]:
    """Return the policy's number of each action of the log, -1 if it has none, and the
    log's number of each action of the policy."""
    space = spec.action_space
    if not isinstance(space, gym.spaces.Discrete):
        raise UserError(
            f"the policy's action space is {space}; expected Discrete actions"
        )
    names = list(actions) or [str(space.start + i) for i in range(int(space.n))]
    logged = list(found.schema.actions)
    if unknown := [x for x in names if x not in logged]:
        raise UserError(
            f"the policy can take {', '.join(unknown)}, which no row of {found.folder} "
            f"has; the actions there are {', '.join(logged)}. Nothing is known of what "
            "follows other actions; log decisions with all of them"
        )
    places = [names.index(x) if x in names else -1 for x in logged]
    return places, [logged.index(x) for x in names]


def _columns(spec: EnvSpec, found: Partition, features: Sequence[int]) -> list[int]:
    """Return the column of each of the policy's features."""
    space = spec.observation_space
    parts = space.spaces if isinstance(space, gym.spaces.Dict) else {STATE: space}
    known = {STATE, PRESENCE, MASK}
    shape = getattr(parts.get(STATE), "shape", None) or ()
    if set(parts) - known or len(shape) != 1:
        raise UserError(
            f"the policy's observations are {space}; expected numbers of one row of "
            "features, with or without a mask of actions"
        )
    ids = list(features) or list(range(shape[0]))
    logged = list(found.schema.features)
    if unknown := [str(x) for x in ids if x not in logged]:
        raise UserError(
            f"the policy uses the features {', '.join(unknown)}, which no row of "
            f"{found.folder} has; evaluate it on rows with the features of its training"
        )
    return [logged.index(x) for x in ids]
