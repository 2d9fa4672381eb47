"""Step a vector environment in the autoreset mode NEXT_STEP.

The row after an episode's last row restarts: it ignores its action, contains the next
episode's first observation and has reward 0. This is Gymnasium's default. The other
modes are refused: a vector environment steps all of its rows or none, so SAME_STEP
would lose the first transition of each episode, and DISABLED would waste a step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from tfagents_batch.envs.shared import validation
from tfagents_batch.envs.shared.failures import Defect
from tfagents_batch.envs.shared.observation_rules import flat as flatten
from tfagents_batch.errors import UserError


class Stepped(NamedTuple):
    """One step of a batch.

    Attributes:
      observation: leaves ``[B, ...]``, the environment's own arrays: do not store them
        or write to them.
      reward, terminated, truncated: f64, bool and bool ``[B]``; 0 and false where a
        row restarts.
      info: info of the vector environment.
      raw_reward: f64 ``[B]`` before clipping, for the statistics; None if equal to
        ``reward``.
    """

    observation: list[Any]
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    info: dict[str, Any]
    raw_reward: np.ndarray | None = None


def check_mode(env: VectorEnv) -> None:
    """Raise UserError unless the metadata has the autoreset mode NEXT_STEP."""
    mode = (env.metadata or {}).get("autoreset_mode")
    if mode in (AutoresetMode.NEXT_STEP, AutoresetMode.NEXT_STEP.value):
        return
    name = type(env.unwrapped).__name__
    if mode is None:
        raise UserError(
            f"{name} has no autoreset mode; expected NEXT_STEP. If an ended row "
            "restarts on its next step, say so: env.metadata = {**env.metadata, "
            "'autoreset_mode': gymnasium.vector.AutoresetMode.NEXT_STEP}"
        )
    raise UserError(
        f"{name} has the autoreset mode {mode}; expected NEXT_STEP, Gymnasium's "
        "default, which loses no step: create it with autoreset_mode="
        "gymnasium.vector.AutoresetMode.NEXT_STEP (in gymnasium.make_vec, as an entry "
        "of vector_kwargs)"
    )


def next_step(env: VectorEnv, action: Any, over: np.ndarray) -> Stepped:
    """Step an environment that restarts a row on the step after its last one.

    Args:
      env: the vector environment.
      action: batched action, with the structure of the action space.
      over: bool ``[B]``, rows that must restart.

    Raises:
      Defect: for a wrong result, or for a row that ends while it restarts.
    """
    result = env.step(action)
    validation.step_result(result)
    observation, reward, terminated, truncated, info = result
    validation.info(info)
    reward = _column("reward", reward, len(over), "fiub", "numbers")
    reward = reward.astype(np.float64)
    terminated = _column("terminated", terminated, len(over), "b", "bools")
    truncated = _column("truncated", truncated, len(over), "b", "bools")
    both = over & (terminated | truncated)
    if both.any():
        raise Defect(
            "a row ended in the step in which it had to restart: its autoreset mode "
            "may not be NEXT_STEP, as its metadata says",
            row=int(np.flatnonzero(both)[0]),
        )
    reward[over] = 0.0
    flat = flatten(env.single_observation_space, observation)
    return Stepped(flat, reward, terminated, truncated, info)


def _column(
    name: str, value: Any, num_envs: int, kinds: str, expected: str
) -> np.ndarray:
    array = np.asarray(value)
    if array.shape != (num_envs,) or array.dtype.kind not in kinds:
        raise Defect(
            f"{name} is {validation.kind_of(array)}; expected {expected} of shape "
            f"[{num_envs}]"
        )
    return array
