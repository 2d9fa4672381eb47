"""Convert vector environments of every autoreset mode to NEXT_STEP.

The row after an episode's last row restarts: it ignores its action, contains the next
episode's first observation and has reward 0. A vector environment steps all of its rows
or none, so the modes have different costs.

* NEXT_STEP does exactly this. Nothing is lost.
* SAME_STEP restarts within the step that ends an episode. The next step should only
  restart, but it is already a step of the new episode. The restart row contains the
  observation after that step, so the first transition is in no row and no statistic.
* DISABLED never restarts by itself, so this module resets finished rows twice: before
  the step, because a finished environment must not be stepped, and after it, because
  that step belongs to the new episode. Episodes are complete, at the cost of one unused
  step and a second reset each.

The unused steps are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from tfagents_batch.envs.shared import validation
from tfagents_batch.envs.shared.failures import Defect
from tfagents_batch.envs.shared.observation_rules import flat as flatten
from tfagents_batch.errors import UserError

_NO_ROWS = np.zeros(0, np.intp)


class Stepped(NamedTuple):
    """One step in NEXT_STEP form.

    Attributes:
      observation: leaves ``[B, ...]``, the environment's own arrays: do not store them
        or write to them.
      reward, terminated, truncated: f64, bool and bool ``[B]``; 0 and false where a
        row restarts.
      info: info of the vector environment.
      rows: int ``[n]``, rows that use the next two fields as observation and info.
      rows_observation: leaves ``[n, ...]`` for ``rows``.
      rows_info: infos ``[B]``, valid at ``rows``.
      unused: number of environment steps that are in no row.
      raw_reward: f64 ``[B]`` before clipping, for the statistics; None if equal to
        ``reward``.
    """

    observation: list[Any]
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    info: dict[str, Any]
    rows: np.ndarray = _NO_ROWS
    rows_observation: tuple[Any, ...] | list[Any] = ()
    rows_info: dict[str, Any] | None = None
    unused: int = 0
    raw_reward: np.ndarray | None = None


def mode_of(env: VectorEnv, given: AutoresetMode | str | None) -> AutoresetMode:
    """Return the autoreset mode: ``given``, or that of the metadata if None.

    Raises:
      UserError: if the mode is unknown.
    """
    found = (env.metadata or {}).get("autoreset_mode") if given is None else given
    try:
        return AutoresetMode(found)
    except ValueError:
        names = ", ".join(repr(mode.value) for mode in AutoresetMode)
        raise UserError(
            f"{type(env.unwrapped).__name__} has the autoreset mode {found!r}; "
            f"expected one of {names}; pass the right one as autoreset_mode="
        ) from None


def next_step(env: VectorEnv, action: Any, over: np.ndarray) -> Stepped:
    """Step an environment that restarts a row on the step after its last one.

    Args:
      env: the vector environment.
      action: batched action, with the structure of the action space.
      over: bool ``[B]``, rows that must restart.

    Raises:
      Defect: for a wrong result, or for a row that ends while it restarts.
    """
    stepped = _step(env, action, len(over))
    if over.any():
        both = over & (stepped.terminated | stepped.truncated)
        if both.any():
            raise Defect(
                "a row ended in the step in which it had to restart: its autoreset "
                "mode may not be NEXT_STEP, as its metadata says; pass autoreset_mode=",
                row=int(np.flatnonzero(both)[0]),
            )
        stepped.reward[over] = 0.0
    return stepped


def same_step(env: VectorEnv, action: Any, over: np.ndarray) -> Stepped:
    """Step an environment that restarts within the step that ends an episode.

    Arguments and errors as in ``next_step``; final observations are taken from
    ``info["final_obs"]``, an object array of observations or batched arrays.
    """
    stepped = _step(env, action, len(over))
    ended = (stepped.terminated | stepped.truncated) & ~over
    _clear(stepped, over)
    unused = int(np.count_nonzero(over))
    if not ended.any():
        return stepped._replace(unused=unused)
    info = stepped.info
    final = info.get("final_obs")
    present = np.asarray(info.get("_final_obs", final is not None))
    lost = ended & ~present
    if lost.any():
        raise Defect(
            "an episode ended without info['final_obs'], which a SAME_STEP environment "
            "must return: its last observation is lost",
            row=int(np.flatnonzero(lost)[0]),
        )
    rows = np.flatnonzero(ended)
    flat = _final_rows(env.single_observation_space, final, rows)
    final_info = info.get("final_info", {})
    return stepped._replace(
        rows=rows, rows_observation=flat, rows_info=final_info, unused=unused
    )


def disabled(env: VectorEnv, action: Any, over: np.ndarray) -> Stepped:
    """Step an environment that does not restart by itself.

    Arguments and errors as in ``next_step``; rows are restarted by
    ``reset(options={"reset_mask": over})``.
    """
    if not over.any():
        return _step(env, action, len(over))
    _reset(env, over)
    stepped = _step(env, action, len(over))
    _clear(stepped, over)
    # Copies, because the reset may write to the environment's own arrays.
    copies = [np.array(leaf) for leaf in stepped.observation]
    flat, info = _reset(env, over)
    rows = np.flatnonzero(over)
    return stepped._replace(
        observation=copies,
        rows=rows,
        rows_observation=[np.asarray(leaf)[rows] for leaf in flat],
        rows_info=info,
        unused=len(rows),
    )


STEPS: dict[AutoresetMode, Callable[[VectorEnv, Any, np.ndarray], Stepped]] = {
    AutoresetMode.NEXT_STEP: next_step,
    AutoresetMode.SAME_STEP: same_step,
    AutoresetMode.DISABLED: disabled,
}


def _step(env: VectorEnv, action: Any, num_envs: int) -> Stepped:
    result = env.step(action)
    validation.step_result(result)
    observation, reward, terminated, truncated, info = result
    validation.info(info)
    reward = _column("reward", reward, num_envs, "fiub", "numbers")
    terminated = _column("terminated", terminated, num_envs, "b", "bools")
    truncated = _column("truncated", truncated, num_envs, "b", "bools")
    flat = flatten(env.single_observation_space, observation)
    copies = reward.astype(np.float64), terminated.copy(), truncated.copy()
    return Stepped(flat, *copies, info)


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


def _reset(env: VectorEnv, over: np.ndarray) -> tuple[list[Any], dict[str, Any]]:
    result = env.reset(options={"reset_mask": over.copy()})
    validation.reset_result(result)
    return flatten(env.single_observation_space, result[0]), result[1]


def _clear(stepped: Stepped, over: np.ndarray) -> None:
    """Clear rewards and flags of an unused step."""
    stepped.reward[over] = 0.0
    stepped.terminated[over] = stepped.truncated[over] = False


def _final_rows(space: gymnasium.Space, final: Any, rows: np.ndarray) -> list[Any]:
    """Return leaves ``[n, ...]`` of the final observations of some rows."""
    name = "info['final_obs']"
    if not (isinstance(final, np.ndarray) and final.dtype == object):
        flat = flatten(space, final, name)
        return [np.asarray(leaf)[rows] for leaf in flat]
    each = [flatten(space, final[row], name) for row in rows]
    try:
        return [np.stack(column) for column in zip(*each, strict=True)]
    except ValueError as error:
        raise Defect(f"{name} has rows of different shapes: {error}") from None
