"""Play an environment with random actions, which seed and space determine.

``Returned`` finds all defects of the results, by the rules at the first of which worker
processes stop. It stores earlier observations to find later changes to them.
"""

from __future__ import annotations

import collections
import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch.envs.checking.findings import DEFECT, Place, Report
from tfagents_batch.envs.checking.scale import Scales
from tfagents_batch.envs.shared import observation_rules, validation
from tfagents_batch.errors import UserError
from tfagents_batch.spaces import flatten, leaves, pack

RESET, STEP = "reset()", "step()"  # values of Place.call


NUM_STORED = 16  # observations that are checked again later


class Call(NamedTuple):
    """One call of ``reset`` or ``step``."""

    place: Place
    raised: bool = False  # an exception, which is a finding
    result: Any = None
    # Hashes of the result by field, computed before anything can change it; without
    # info, which may contain the time.
    digest: Mapping[str, int] = {}
    ended: bool = False  # whether it ended the episode


def play(
    env: Any,
    space: gymnasium.Space,
    seed: int,
    steps: int,
    report: Report,
    *,
    seeded: bool = True,
    patience: int = 1,
) -> Iterator[Call]:
    """Play episodes of random actions.

    Args:
      env: the environment.
      space: action space.
      seed: seed of the actions, and if ``seeded`` of the first reset.
      steps: number of steps to try, in all episodes together.
      report: report that exceptions are added to.
      seeded: whether the first reset receives the seed.
      patience: number of exceptions that end the play; two resets in a row that raise
        end it too.
    """
    space = copy.deepcopy(space)
    space.seed(seed)
    episode, length, observation = -1, None, None  # length None: between episodes
    stuck = False
    while steps > 0 and patience > 0:
        if length is None:
            episode += 1
            call = Call(Place(RESET, episode))
            keywords = {"seed": seed} if seeded and episode == 0 else {}
            good, result = report.attempt(call.place, env.reset, **keywords)
        else:
            steps -= 1
            call = Call(Place(STEP, episode, length))
            action = _sample(space, observation)
            good, result = report.attempt(call.place, env.step, action)
        if good:
            values = validation.fields(result)
            observation = values["observation"]
            hashes, ended = digest(values), has_ended(values)
            call = call._replace(result=result, digest=hashes, ended=ended)
            length = 0 if length is None else None if call.ended else length + 1
            stuck = False
        else:
            patience -= 1
            if length is None and stuck:
                patience = 0
            stuck = length is None
            length = None
            call = call._replace(raised=True)
        yield call


def has_ended(values: Mapping[str, Any]) -> bool:
    """Return whether a flag of any type says that the episode is over."""
    for name in ("terminated", "truncated", "done"):
        try:
            if np.any(values.get(name, False)):
                return True
        except (TypeError, ValueError):
            pass
    return False


def digest(values: Mapping[str, Any]) -> dict[str, int]:
    """Return hashes of a result by field, one for each leaf of nested values."""
    contents = [snapshot(part, name) for name, part in values.items() if name != "info"]
    return {name: hash(x) for content in contents for name, x in content.items()}


def snapshot(value: Any, name: str = "observation") -> dict[str, Any]:
    """Return the content of a nested value by field, comparable and without references.

    Objects that are neither numbers nor arrays are represented by their type.
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
    content: dict[str, Any] = {}
    for key, child in items:
        content |= snapshot(child, f"{name}[{key!r}]")
    return content


def _sample(space: gymnasium.Space, observation: Any) -> Any:
    """Draw a random action; ``observation["action_mask"]``, if present, must allow it.

    Workers pass actions in the same form: a Box action is an array, even without axes.
    """
    mask = _mask(space, observation)
    action = space.sample() if mask is None else space.sample(mask)
    try:
        pairs = zip(leaves(space), flatten(space, action), strict=True)
    except UserError:  # an unsupported space
        return action
    flat = [
        x if isinstance(leaf.space, gs.Discrete) else np.asarray(x) for leaf, x in pairs
    ]
    return pack(space, flat)


def _mask(space: gymnasium.Space, observation: Any) -> Any:
    """Return the mask for ``space.sample``; None if all actions are allowed."""
    is_dict = isinstance(observation, dict)
    mask = observation.get(observation_rules.MASK) if is_dict else None
    sizes = observation_rules.mask_sizes(space)
    if mask is None or sizes is None:
        return None
    mask = (np.asarray(mask) != 0).astype(np.int8)
    if mask.shape != (sizes.sum(),):
        return None
    cut = np.split(mask, np.cumsum(sizes)[:-1])
    masks = iter([part if part.any() else np.ones_like(part) for part in cut])

    def of(part: gymnasium.Space) -> Any:
        if isinstance(part, gs.Discrete):
            return next(masks)
        if isinstance(part, gs.MultiDiscrete):
            return tuple(next(masks) for _ in part.nvec.flat)
        return None

    return pack(space, [of(leaf.space) for leaf in leaves(space)])


class Returned:
    """Checker of results that adds defects to a report.

    Without an observation space, observations are not checked.
    """

    def __init__(
        self, space: gymnasium.Space | None, actions: gymnasium.Space, report: Report
    ):
        self._space = space
        rule = observation_rules.mask_rule
        self._no_action = None if space is None else rule(space, actions)
        self._report = report
        self._stored: collections.deque = collections.deque(maxlen=NUM_STORED)
        self._scales = None if space is None else Scales(space)

    def reset(self, result: Any, place: Place) -> None:
        """Check the result of ``reset``."""
        self._report.add_defects(validation.reset_defects(result), place)
        pair = isinstance(result, tuple) and len(result) == 2
        if pair or not isinstance(result, tuple) or isinstance(self._space, gs.Tuple):
            # The legacy API returned the observation alone.
            self._observe(result[0] if pair else result, place)

    def step(self, result: Any, place: Place) -> float | None:
        """Check a result of ``step``; return the reward, None if it is not a number."""
        self._report.add_defects(validation.step_defects(result), place)
        values = validation.fields(result)
        if "reward" not in values:
            return None
        self._observe(values["observation"], place, values.get("terminated", False))
        try:
            number = float(np.asarray(values["reward"]).item())
        except (TypeError, ValueError):  # not one number
            return None
        self._report.add_defects(validation.reward_defects(number), place)
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
            rule = observation_rules.leaf_defects
            defects = list(
                observation_rules.observation_defects(self._space, observation, rule)
            )
            if not defects and self._no_action is not None and not terminated:
                mask = observation[observation_rules.MASK]
                defects = (
                    [observation_rules.mask_defect()] if self._no_action(mask) else []
                )
            self._report.add_defects(defects, place)
            if not defects and self._scales is not None:
                self._scales.add(observation)
        self._stored.append((place, observation, snapshot(observation)))
