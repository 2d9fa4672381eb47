"""What a batch of environments says after a command, and what is said of its faults."""

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
    """What a batch of environments says, in arrays of its own.

    Attributes:
      observation: one ``[B, ...]`` per leaf, in the order of ``spaces.leaves``.
      reward: f32 ``[B]``.
      first, terminated, truncated: bool ``[B]``.
      info: ``{column: [B]}``.
    """

    observation: list[np.ndarray]
    reward: np.ndarray
    first: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    info: dict[str, np.ndarray]

    def flat(self) -> list[np.ndarray]:
        """All arrays, in the order of an environment's outputs."""
        observation, *columns, info = self
        return [*observation, *columns, *info.values()]


def known(
    row: int,
    seed: int | None,
    over: bool,
    arrays: layout.Arrays,
    action_space: gymnasium.Space,
) -> dict[str, Any]:
    """What is known of a row whose worker cannot tell, before a reset nothing.

    Args:
      row: index in the batch; ``over`` if it was about to be reset.
      seed: of the last reset; None before there was one.
      arrays: the shared ones, as the command under way found them.
    """
    if seed is None:
        return {}
    found = {
        "seed": int(arrays.seed[row]),
        "episode": int(arrays.episode[row]),
        "phase": "reset" if over else "step",
        "step": 0 if over else int(arrays.info["episode_length"][row]),
    }
    if not over:
        found["action"] = actions.text(action_space, arrays.action, row)
    return found


def invalid_action(error: actions.InvalidAction, context: dict[str, Any]) -> Failure:
    """The failure that is an invalid action, with what is known of its row."""
    found: dict[str, Any] = {"phase": "step"}
    if error.row is not None:
        found |= context | {"env": error.row, "action": error.action}
    return Failure(failures.ACTION, text=str(error), **found)


def stale(token: int, last: int) -> UserError:
    """A state that was used before."""
    return UserError(
        f"a state of this environment was used twice (call {token}; the last was "
        f"{last}): pass on the state that init or step returned last"
    )


def exception(faults: Sequence[Failure]) -> Exception:
    """Of the first environment in the batch, so worker counts do not matter."""

    def order(fault: Failure) -> float:
        return float("inf") if fault.env is None else fault.env

    return failures.to_exception(min(faults, key=order))
