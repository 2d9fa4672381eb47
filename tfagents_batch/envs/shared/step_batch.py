"""Results of a batch of environments after a command, and errors for its failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from tfagents_batch.envs.shared import actions, failures, layout
from tfagents_batch.envs.shared.failures import Failure
from tfagents_batch.errors import UserError

SEED_MASK = 2**64 - 1
NO_RESET = "step was called before reset"


class StepBatch(NamedTuple):
    """Results of a batch of environments after a command; it owns its arrays."""

    observation: list[np.ndarray]  # [B, ...] per leaf, in the order of spaces.leaves
    reward: np.ndarray  # f32 [B]
    first: np.ndarray  # bool [B]
    terminated: np.ndarray  # bool [B]
    truncated: np.ndarray  # bool [B]
    info: dict[str, np.ndarray]  # column: [B]

    def flat(self) -> list[np.ndarray]:
        """Return all arrays in the order of an environment's outputs."""
        observation, *columns, info = self
        return [*observation, *columns, *info.values()]


def row_context(
    row: int,
    seed: int | None,
    over: bool,
    arrays: layout.Arrays | None,
    action_space: gymnasium.Space,
) -> dict[str, Any]:
    """Return fields of ``Failure`` for a row with a dead worker; none before a reset.

    Args:
      row: index in the batch.
      seed: of the last reset; None before the first.
      over: whether the row was about to be reset.
      arrays: as they were before the running command; None after the end.
      action_space: action space of one environment.
    """
    if seed is None or arrays is None:
        return {}
    known = {
        "seed": int(arrays.seed[row]),
        "episode": int(arrays.episode[row]),
        "phase": "reset" if over else "step",
        "step": 0 if over else int(arrays.info["episode_length"][row]),
    }
    if not over:
        known["action"] = actions.text(action_space, arrays.action, row)
    return known


def invalid_action(error: actions.InvalidAction, context: dict[str, Any]) -> Exception:
    """Return the exception for an invalid action, with known fields of its row."""
    known: dict[str, Any] = {"phase": "step"}
    if error.row is not None:
        known |= context | {"env": error.row, "action": error.action}
    return exception([Failure(failures.ACTION, text=str(error), **known)])


def stale(token: int, last: int) -> UserError:
    """Return the error for a state that was used before."""
    return UserError(
        f"the state of call {token} was used after call {last}, but each state can be "
        "used once: pass the state that the latest init or step returned"
    )


def exception(faults: Sequence[Failure]) -> Exception:
    """Return the exception of the failure with the lowest environment index.

    The choice does not depend on the number of workers.
    """

    def order(fault: Failure) -> float:
        return float("inf") if fault.env is None else fault.env

    return failures.to_exception(min(faults, key=order))
