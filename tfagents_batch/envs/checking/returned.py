"""Check the results of ``reset`` and ``step`` for every defect.

Worker processes stop at the first broken rule; here all of them are collected. Earlier
observations are stored to find later changes to them.
"""

from __future__ import annotations

import collections
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch.envs.checking.findings import DEFECT, Place, Report
from tfagents_batch.envs.checking.play import parts, snapshot
from tfagents_batch.envs.checking.scale import Scales
from tfagents_batch.envs.shared import action_masks, observation_rules, validation

NUM_STORED = 16  # observations that are checked again later


class Returned:
    """Checker of results that adds defects to a report.

    Args:
      space: the observation space; None leaves observations unchecked.
      actions: the action space.
      report: report that defects are added to.
    """

    def __init__(
        self,
        space: gymnasium.Space | None,
        actions: gymnasium.Space,
        report: Report,
    ):
        self._space = space
        self._no_action = None if space is None else action_masks.rule(space, actions)
        self._report = report
        self._stored: collections.deque = collections.deque(maxlen=NUM_STORED)
        self._scales = None if space is None else Scales(space)

    def reset(self, result: Any, place: Place) -> None:
        """Check the result of ``reset``."""
        self._report.check(place, validation.reset_result, result)
        pair = isinstance(result, tuple) and len(result) == 2
        if pair or not isinstance(result, tuple) or isinstance(self._space, gs.Tuple):
            # The legacy API returned the observation alone.
            self._observe(result[0] if pair else result, place)

    def step(self, result: Any, place: Place) -> float | None:
        """Check a result of ``step``; return the reward, None if it is not a number."""
        self._report.check(place, validation.step_result, result)
        read = parts(result)
        if "reward" not in read:
            return None
        for name in ("terminated", "truncated"):
            if name in read:
                self._report.check(place, validation.flag, name, read[name])
        number = self._reward(read["reward"], place)
        self._report.check(place, validation.info, read["info"])
        self._observe(read["observation"], place, read.get("terminated", False))
        return number

    def find_changes(self, place: Place) -> None:
        """Add a defect for each observation that changed after it was returned."""
        for index, (origin, observation, before) in enumerate(self._stored):
            after = snapshot(observation)
            if after == before:
                continue
            self._stored[index] = (origin, observation, after)
            names = [n for n in before | after if before.get(n) != after.get(n)]
            for name in names:
                self._report.add(
                    DEFECT,
                    "reused",
                    name,
                    f"{name} of {origin} changed in a later call: the returned object "
                    "is written to again; expected a new array, and a new dict, each "
                    f"time: return a copy, such as {name}.copy()",
                    place,
                )

    def judge_scales(self) -> None:
        """Add what the values of all observations mean for learning."""
        if self._scales is not None:
            self._scales.judge(self._report)

    def _observe(
        self, observation: Any, place: Place, terminated: bool = False
    ) -> None:
        if self._space is not None:
            defects = list(
                observation_rules.observation_defects(
                    self._space, observation, observation_rules.leaf_defects
                )
            )
            if self._no_action is not None and not defects and not terminated:
                mask = observation[action_masks.KEY]
                defects = [action_masks.defect()] if self._no_action(mask) else []
            for defect in defects:
                self._report.add_defect(defect, place)
            if not defects and self._scales is not None:
                self._scales.add(observation)
        self._stored.append((place, observation, snapshot(observation)))

    def _reward(self, value: Any, place: Place) -> float | None:
        self._report.check(place, validation.reward, value)
        try:
            number = float(np.asarray(value).item())
        except (TypeError, ValueError):  # not one number
            return None
        self._report.check(place, validation.finite_reward, number)
        return number
