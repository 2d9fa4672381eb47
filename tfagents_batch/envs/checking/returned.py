"""All that is wrong with what ``reset`` and ``step`` returned.

Worker processes refuse the first broken rule and stop; here all of them are collected,
and earlier observations are kept to see whether they change.
"""

from __future__ import annotations

import collections
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch.envs.checking.findings import DEFECT, Place, Report
from tfagents_batch.envs.checking.play import parts, snapshot
from tfagents_batch.envs.shared import observation_rules, validation

KEPT = 16  # observations that are looked at again


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

    def reset(self, result: Any, place: Place) -> None:
        """Check what ``reset`` returned."""
        self._report.check(place, validation.reset_result, result)
        pair = isinstance(result, tuple) and len(result) == 2
        if pair or not isinstance(result, tuple) or isinstance(self._space, gs.Tuple):
            # The legacy API returned the observation alone.
            self._observe(result[0] if pair else result, place)

    def step(self, result: Any, place: Place) -> float | None:
        """Check what ``step`` returned; the reward, if it is a number."""
        self._report.check(place, validation.step_result, result)
        read = parts(result)
        if "reward" not in read:
            return None
        for name in ("terminated", "truncated"):
            if name in read:
                self._report.check(place, validation.flag, name, read[name])
        number = self._reward(read["reward"], place)
        self._report.check(place, validation.info, read["info"])
        self._observe(read["observation"], place)
        return number

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
        self._report.check(place, validation.reward, value)
        try:
            number = float(np.asarray(value).item())
        except (TypeError, ValueError):  # not one number
            return None
        self._report.check(place, validation.finite_reward, number)
        return number
