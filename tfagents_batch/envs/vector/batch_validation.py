"""The rules for what a vector environment returns, all rows at once.

They are those of ``validation`` and ``observation_rules``, for arrays that have a batch
axis. A Defect says in its attribute ``row`` which environment it is about; None where
that is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.envs import observation_rules, validation
from tfagents_batch.envs.failures import Defect
from tfagents_batch.envs.observations import ObservationWriter


def step_columns(
    result: Any, num_envs: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reward f64, terminated and truncated ``[B]``, arrays of their own.

    Raises:
      Defect: if ``result`` is not what ``VectorEnv.step`` has to return.
    """
    validation.step_result(result)
    _, reward, terminated, truncated, info = result
    validation.info(info)
    reward = _column("reward", reward, num_envs, "fiub", "numbers")
    terminated = _column("terminated", terminated, num_envs, "b", "bools")
    truncated = _column("truncated", truncated, num_envs, "b", "bools")
    return reward.astype(np.float64), terminated.copy(), truncated.copy()


def finite_reward(reward: np.ndarray) -> None:
    """Refuse, by a Defect, rewards that float32 cannot hold."""
    if np.abs(reward).max(initial=0.0) <= validation.FLOAT_MAX:  # false for NaN
        return
    for row, value in enumerate(reward.tolist()):
        validation.finite_reward(value, row)


def info_column(
    name: str, info: dict[str, Any], dtype: np.dtype, num_envs: int
) -> np.ndarray:
    """One column ``[B]`` of a vector environment's infos; NaN or 0 where it is missing.

    Raises:
      Defect: if it holds what ``dtype`` cannot.
    """
    column = np.full(num_envs, np.nan if dtype.kind == "f" else 0, dtype)
    if name not in info:
        return column
    value = np.asarray(info[name])
    if value.shape != (num_envs,) or not np.can_cast(value.dtype, dtype, "same_kind"):
        raise Defect(
            f"info[{name!r}] is {validation.kind_of(value)}; expected [{num_envs}] "
            f"numbers that {dtype} can hold, as declared in info_keys"
        )
    there = np.asarray(info.get(f"_{name}", True))
    np.copyto(column, value, "same_kind", where=there)
    return column


class ObservationReader:
    """Checks batched observations and copies them into the shared arrays.

    Args:
      space: of one environment.
      arrays: one ``[B, ...]`` per leaf.

    Attributes:
      not_finite: as of ``ObservationWriter``.
    """

    def __init__(self, space: gymnasium.Space, arrays: Sequence[np.ndarray]):
        self._leaves = [
            (leaf, observation_rules.field(leaf.path), array)
            for leaf, array in zip(spaces.leaves(space), arrays, strict=True)
        ]
        self.not_finite = ObservationWriter(space, list(arrays)).not_finite

    def read(self, flat: Sequence[Any], rows: np.ndarray | None = None) -> None:
        """Check and copy.

        Args:
          flat: leaves ``[n, ...]``.
          rows: where they belong; all rows if None.

        Raises:
          Defect: for wrong shapes, dtypes, and integers out of range.
        """
        for given, (leaf, name, array) in zip(flat, self._leaves, strict=True):
            value = np.asarray(given)
            batch = (len(array) if rows is None else len(rows),)
            rules = [observation_rules.form_defects, observation_rules.fit_defects]
            if not isinstance(leaf.space, gs.Box):  # integers that index something
                rules.insert(1, observation_rules.bounds_defects)
            for rule in rules:
                for found in rule(leaf, value, name, batch):
                    if found.row is not None and rows is not None:
                        found.row = int(rows[found.row])
                    raise found
            array[slice(None) if rows is None else rows] = value

    def outside(self) -> dict[str, int]:
        """``{leaf's name: rows outside the bounds of its Box}``, which is no defect."""
        found = {}
        for leaf, name, array in self._leaves:
            if isinstance(leaf.space, gs.Box):
                low, high = leaf.space.low, leaf.space.high
                if array.dtype.kind == "f":  # rounded as the observation was
                    low, high = low.astype(array.dtype), high.astype(array.dtype)
                wrong = (array < low) | (array > high)
                count = int(wrong.reshape(len(array), -1).any(axis=1).sum())
                if count:
                    found[name] = count
        return found


def _column(
    name: str, value: Any, num_envs: int, kinds: str, wanted: str
) -> np.ndarray:
    array = np.asarray(value)
    if array.shape != (num_envs,) or array.dtype.kind not in kinds:
        raise Defect(
            f"{name} is {validation.kind_of(array)}; expected {wanted} of shape "
            f"[{num_envs}]"
        )
    return array
