"""All that is wrong with what ``reset`` and ``step`` returned.

Worker processes refuse the first broken rule and stop; here all of them are collected,
and earlier observations are kept to see whether they change.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch.envs import observation_rules, validation
from tfagents_batch.envs.checking.findings import DEFECT, Place, Report
from tfagents_batch.envs.failures import Defect

KEPT = 16  # observations that are looked at again


class Outcome(NamedTuple):
    """What could be read of a result.

    Attributes:
      observation: None if there was none.
      reward: None if it is no number.
      ended: whether the episode is over.
    """

    observation: Any
    reward: float | None = None
    ended: bool = False


class Returned:
    """Checks results and adds what is wrong to a report.

    Args:
      space: the observation space; None leaves observations unchecked.
      report: of the findings.
    """

    def __init__(self, space: gymnasium.Space | None, report: Report):
        self._space = space
        self._report = report
        self._kept: collections.deque = collections.deque(maxlen=KEPT)

    def reset(self, result: Any, place: Place) -> Outcome:
        """Check what ``reset`` returned."""
        self._check(place, validation.reset_result, result)
        observation = result  # the legacy API returned it alone
        if isinstance(result, tuple):
            if len(result) == 2:
                observation = result[0]
            elif not isinstance(self._space, gs.Tuple):
                return Outcome(None)
        self._observe(observation, place)
        return Outcome(observation)

    def step(self, result: Any, place: Place) -> Outcome:
        """Check what ``step`` returned."""
        self._check(place, validation.step_result, result)
        flags = {}
        if isinstance(result, tuple) and len(result) == 4:
            observation, reward, terminated, info = result
            truncated = False
        elif isinstance(result, (tuple, list)) and len(result) == 5:
            observation, reward, terminated, truncated, info = result
            flags = {"terminated": terminated, "truncated": truncated}
        else:
            return Outcome(None)
        for name, flag in flags.items():
            self._check(place, validation.flag, name, flag)
        number = self._reward(reward, place)
        self._check(place, validation.info, info)
        self._observe(observation, place)
        return Outcome(observation, number, _true(terminated) or _true(truncated))

    def look_again(self, place: Place) -> None:
        """Find observations that changed since they were returned."""
        for index, (origin, observation, before) in enumerate(self._kept):
            after = snapshot(observation)
            if after == before:
                continue
            self._kept[index] = (origin, observation, after)
            names = [n for n in before | after if before.get(n) != after.get(n)]
            for name in names:
                self._report.add(
                    DEFECT,
                    "reused",
                    name,
                    f"{name} of {origin} changed in a later call: what was returned is "
                    "written to again; expected a new array, and a new dict, each "
                    f"time: return a copy, such as {name}.copy()",
                    place,
                )

    def _observe(self, observation: Any, place: Place) -> None:
        if self._space is not None:
            for defect in observation_rules.observation_defects(
                self._space, observation, observation_rules.leaf_defects
            ):
                self._report.add_defect(defect, place)
        self._kept.append((place, observation, snapshot(observation)))

    def _reward(self, value: Any, place: Place) -> float | None:
        self._check(place, validation.reward, value)
        try:
            number = float(np.asarray(value).item())
        except (TypeError, ValueError):  # not one number
            return None
        self._check(place, validation.finite_reward, number)
        return number

    def _check(self, place: Place, rule: Callable, *args: Any) -> None:
        try:
            rule(*args)
        except Defect as defect:
            self._report.add_defect(defect, place)


def snapshot(value: Any, name: str = "observation") -> dict[str, Any]:
    """The content of a nested value by field, comparable and free of references.

    Objects that are neither numbers nor arrays count by their type.
    """
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, (tuple, list)):
        items = enumerate(value)
    elif isinstance(value, (np.ndarray, np.generic)) and value.dtype != object:
        return {name: (value.dtype.str, value.shape, value.tobytes())}
    elif isinstance(value, (bool, int, float, str)):
        return {name: repr(value)}
    else:
        return {name: type(value).__name__}
    parts: dict[str, Any] = {}
    for key, child in items:
        parts |= snapshot(child, f"{name}[{key!r}]")
    return parts


def _true(flag: Any) -> bool:
    """What a flag of any type means."""
    try:
        return bool(np.any(flag))
    except (TypeError, ValueError):
        return False
