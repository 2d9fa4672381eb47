"""All that is wrong with what ``reset`` and ``step`` returned.

Worker processes refuse the first defect and stop (``validation``); here everything is
collected, and earlier observations are kept to see whether they change.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.envs import validation
from tfagents_batch.envs.checking.findings import DEFECT, Collector, Place
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
    """Checks results and adds what is wrong to a collector.

    Args:
      space: the observation space; None leaves observations unchecked.
      collector: of the findings.
    """

    def __init__(self, space: gymnasium.Space | None, collector: Collector):
        self._space = space
        self._collector = collector
        self._kept: collections.deque = collections.deque(maxlen=KEPT)

    def reset(self, result: Any, place: Place) -> Outcome:
        """Check what ``reset`` returned."""
        observation = result  # the legacy API returned it alone
        if isinstance(result, tuple) and len(result) == 2:
            observation = result[0]
            self._try("type", "info", place, validation.info, result[1])
        else:
            self._try("type", "reset()", place, validation.reset_result, result)
            if isinstance(result, tuple) and not isinstance(self._space, gs.Tuple):
                return Outcome(None)
        self._observe(observation, place)
        return Outcome(observation)

    def step(self, result: Any, place: Place) -> Outcome:
        """Check what ``step`` returned."""
        legacy = isinstance(result, tuple) and len(result) == 4
        kind = "legacy" if legacy else "type"
        self._try(kind, "step()", place, validation.step_result, result)
        if legacy:
            observation, given, terminated, info = result
            truncated = False
        elif isinstance(result, (tuple, list)) and len(result) == 5:
            observation, given, terminated, truncated, info = result
            for name, flag in (("terminated", terminated), ("truncated", truncated)):
                self._try("type", name, place, validation.flag, name, flag)
        else:
            return Outcome(None)
        reward = self._reward(given, place)
        self._try("type", "info", place, validation.info, info)
        self._observe(observation, place)
        return Outcome(observation, reward, _true(terminated) or _true(truncated))

    def look_again(self, place: Place) -> None:
        """Find observations that changed since they were returned."""
        for index, (origin, observation, before) in enumerate(self._kept):
            after = snapshot(observation)
            if after == before:
                continue
            self._kept[index] = (origin, observation, after)
            names = [n for n in before | after if before.get(n) != after.get(n)]
            for name in names:
                self._collector.add(
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
            for kind, name, text in observation_defects(self._space, observation):
                self._collector.add(DEFECT, kind, name, text, place)
        self._kept.append((place, observation, snapshot(observation)))

    def _reward(self, value: Any, place: Place) -> float | None:
        self._try("type", "reward", place, validation.reward, value)
        try:
            number = float(np.asarray(value).item())
        except (TypeError, ValueError):  # not one number
            return None
        self._try("finite", "reward", place, validation.finite_reward, number)
        return number

    def _try(
        self, kind: str, field: str, place: Place, check: Callable, *args: Any
    ) -> None:
        try:
            check(*args)
        except Defect as defect:
            self._collector.add(DEFECT, kind, field, str(defect), place)


def observation_defects(
    space: gymnasium.Space, value: Any, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[str, str, str]]:
    """Kind, field and description of everything that is wrong with an observation.

    Args:
      space: what it should be a value of; supported by ``spaces.leaves``.
      value: what was returned.
      path: of this part.
    """
    name = validation.field(path)
    got = validation.shape_of(value)
    if isinstance(space, gs.Dict):
        expected = sorted(map(str, space.spaces))
        if not isinstance(value, Mapping):
            text = f"{name} is {got}; expected a dict of {expected}: return one"
            yield "type", name, text
            return
        missing = sorted(str(key) for key in space.spaces if key not in value)
        if missing:
            yield (
                "missing keys",
                name,
                f"{name} lacks keys {missing}; its space has {expected}: return all "
                "of them in every reset() and step()",
            )
        extra = sorted(str(key) for key in value if key not in space.spaces)
        if extra:
            yield "extra keys", name, validation.extra_keys(name, extra)
        for key, child in space.spaces.items():
            if key in value:
                yield from observation_defects(child, value[key], (*path, key))
    elif isinstance(space, gs.Tuple):
        if not isinstance(value, (tuple, list)):
            count = len(space.spaces)
            text = f"{name} is {got}; expected a tuple of {count}: return one"
            yield "type", name, text
            return
        if len(value) != len(space.spaces):
            yield "length", name, validation.other_length(name, value, space)
        for index, (child, part) in enumerate(zip(space.spaces, value, strict=False)):
            yield from observation_defects(child, part, (*path, index))
    else:
        (leaf,) = spaces.leaves(space, path)
        for kind, text in validation.leaf_defects(leaf, value):
            yield kind, name, text


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
