"""Checks of what a vector environment returns, all rows at once.

The rules are those of ``validation``, for arrays that have a batch axis. A Defect says
in its attribute ``row`` which environment it is about; None where that is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.envs import validation
from tfagents_batch.envs.failures import Defect


def defect(text: str, row: int | None = None) -> Defect:
    """A Defect of one row, or of the whole batch."""
    error = Defect(text)
    error.row = row
    return error


def flatten(space: gymnasium.Space, value: Any, name: str) -> list[Any]:
    """The leaves of a batched observation, in the order of ``spaces.leaves``.

    Raises:
      Defect: if it is not nested as ``space``, the one of a single environment, is.
    """
    try:
        return spaces.flatten(space, value)
    except (KeyError, IndexError, TypeError) as error:
        keys = list(value) if isinstance(value, dict) else type(value).__name__
        raise defect(
            f"{name} is not nested as its space ({type(error).__name__}: {error}); got "
            f"{keys}, expected arrays nested as {space} is"
        ) from None


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
    row = int(np.flatnonzero(~(np.abs(reward) <= validation.FLOAT_MAX))[0])
    raise defect(f"reward is {reward[row]}; expected a finite float32", row)


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
        raise defect(
            f"info[{name!r}] is {_text(value)}; expected [{num_envs}] numbers that "
            f"{dtype} can hold, as declared in info_keys"
        )
    there = np.asarray(info.get(f"_{name}", True))
    np.copyto(column, value, "same_kind", where=there)
    return column


class ObservationReader:
    """Checks batched observations and copies them into the shared arrays.

    Args:
      space: of one environment.
      arrays: one ``[B, ...]`` per leaf.
    """

    def __init__(self, space: gymnasium.Space, arrays: Sequence[np.ndarray]):
        self._leaves = [
            (leaf, _field(leaf), array, _range(leaf.space))
            for leaf, array in zip(spaces.leaves(space), arrays, strict=True)
        ]

    def read(self, flat: Sequence[Any], rows: np.ndarray | None = None) -> None:
        """Check and copy.

        Args:
          flat: leaves ``[n, ...]``.
          rows: where they belong; all rows if None.

        Raises:
          Defect: for wrong shapes, dtypes, and integers out of range.
        """
        for value, (leaf, name, array, range_) in zip(flat, self._leaves, strict=True):
            count = len(array) if rows is None else len(rows)
            value = np.asarray(value)
            _check_array(value, leaf, (count, *leaf.shape), name)
            if range_ is not None:
                _check_range(value, leaf, range_, name, rows)
            target = array if rows is None else array[rows]
            np.copyto(target, value, "same_kind")
            if target.dtype.kind in "iu" and value.dtype != target.dtype:
                lost = target != value
                if lost.any():
                    text = f"{name} has values that do not fit {target.dtype}"
                    raise defect(f"{text}, which holds it", _first(lost, rows))
            if rows is not None:
                array[rows] = target

    def not_finite(self) -> dict[int, str]:
        """``{row: leaf's name}`` of the rows that hold NaN or infinity."""
        found: dict[int, str] = {}
        for _, name, array, _ in self._leaves:
            if array.dtype.kind != "f":
                continue
            finite = np.isfinite(array)
            if not finite.all():
                wrong = ~finite.reshape(len(array), -1).all(axis=1)
                for row in np.flatnonzero(wrong):
                    found.setdefault(int(row), name)
        return found

    def outside(self) -> dict[str, int]:
        """``{leaf's name: rows outside the bounds of its Box}``, which is no defect."""
        found = {}
        for leaf, name, array, _ in self._leaves:
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
        raise defect(
            f"{name} is {_text(array)}; expected {wanted} of shape [{num_envs}]"
        )
    return array


def _check_array(
    value: np.ndarray, leaf: spaces.Leaf, shape: tuple[int, ...], name: str
) -> None:
    wide = np.dtype(leaf.space.dtype)
    if value.shape != shape:
        raise defect(
            f"{name} has shape {list(value.shape)}; its space says {list(shape)}, with "
            "one row per environment: correct the environment or its "
            "single_observation_space"
        )
    integers = isinstance(leaf.space, gs.Discrete) and value.dtype.kind in "iu"
    if not integers and value.dtype not in (wide, np.dtype(leaf.dtype)):
        raise defect(
            f"{name} has dtype {value.dtype}; its space says {wide}: correct the "
            "environment or its single_observation_space"
        )


def _check_range(
    value: np.ndarray, leaf: spaces.Leaf, range_: tuple, name: str, rows: Any
) -> None:
    low, high = range_
    wrong = (value < low) | (value > high)
    if wrong.any():
        index = _first(wrong)
        raise defect(
            f"{name} is {value[index].tolist()}; not in {leaf.space}",
            index if rows is None else int(rows[index]),
        )


def _range(space: gymnasium.Space) -> tuple[Any, Any] | None:
    """Inclusive bounds of integers that index something; None for others."""
    if isinstance(space, gs.MultiBinary):
        return 0, 1
    if isinstance(space, gs.Discrete):
        return int(space.start), int(space.start) + int(space.n) - 1
    if isinstance(space, gs.MultiDiscrete):
        low = np.asarray(space.start)
        return low, low + np.asarray(space.nvec) - 1
    return None


def _first(wrong: np.ndarray, rows: np.ndarray | None = None) -> int:
    index = int(np.flatnonzero(wrong.reshape(len(wrong), -1).any(axis=1))[0])
    return index if rows is None else int(rows[index])


def _field(leaf: spaces.Leaf) -> str:
    return "observation" + "".join(f"[{key!r}]" for key in leaf.path)


def _text(array: np.ndarray) -> str:
    return f"an array, {array.dtype} {list(array.shape)}"
