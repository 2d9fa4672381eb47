"""Random play of an environment, call by call; the same for the same seed and space."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch.envs.checking.findings import Place, Report
from tfagents_batch.errors import UserError
from tfagents_batch.spaces import flatten, leaves, pack

RESET, STEP = "reset()", "step()"  # calls of a place
_FIELDS = {
    2: ("observation", "info"),
    4: ("observation", "reward", "done", "info"),
    5: ("observation", "reward", "terminated", "truncated", "info"),
}


class Call(NamedTuple):
    """One call of ``reset`` or ``step``.

    Attributes:
      place: of the call.
      raised: whether it raised, which is a finding.
      result: what it returned.
      digest: hashes of what it returned by field, taken before anything can change it;
        without info, which may hold the time.
      ended: whether it ended the episode.
    """

    place: Place
    raised: bool = False
    result: Any = None
    digest: Mapping[str, int] = {}
    ended: bool = False


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
      space: of the actions.
      seed: of the actions, and of the first reset.
      steps: that are tried, in all episodes.
      report: gets what raises.
      seeded: whether the first reset gets the seed.
      patience: exceptions, or two of them in resets in a row, that end the play.
    """
    space = copy.deepcopy(space)
    space.seed(seed)
    episode, length, observation = -1, None, None  # no length: no episode is on
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
            read = parts(result)
            observation = read["observation"]
            call = call._replace(
                result=result, digest=digest(read), ended=has_ended(read)
            )
            started = call.place.call == RESET
            length = 0 if started else None if call.ended else length + 1
            stuck = False
        else:
            patience -= 1
            if length is None and stuck:
                patience = 0
            stuck = length is None
            length = None
            call = call._replace(raised=True)
        yield call


def parts(result: Any) -> dict[str, Any]:
    """What ``reset`` or ``step`` returned, by field, in whatever form it did.

    The whole is the observation where nothing else can be read, as of ``reset`` in the
    legacy API.
    """
    names = _FIELDS.get(len(result)) if isinstance(result, tuple) else None
    if isinstance(result, list) and len(result) == 5:
        names = _FIELDS[5]
    return dict(zip(names, result, strict=True)) if names else {"observation": result}


def has_ended(read: Mapping[str, Any]) -> bool:
    """Whether a flag of any type says that the episode is over."""
    for name in ("terminated", "truncated", "done"):
        try:
            if np.any(read.get(name, False)):
                return True
        except (TypeError, ValueError):
            pass
    return False


def digest(read: Mapping[str, Any]) -> dict[str, int]:
    """Hashes of ``parts`` by field, nested ones apart."""
    flat = [snapshot(part, name) for name, part in read.items() if name != "info"]
    return {name: hash(content) for each in flat for name, content in each.items()}


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
    found: dict[str, Any] = {}
    for key, child in items:
        found |= snapshot(child, f"{name}[{key!r}]")
    return found


def _sample(space: gymnasium.Space, observation: Any) -> Any:
    """A random action, of those that ``observation["action_mask"]`` allows if any.

    As workers hand it on: arrays, those of a Box without axes too.
    """
    mask = _mask(space, observation)
    action = space.sample() if mask is None else space.sample(mask)
    try:
        pairs = zip(leaves(space), flatten(space, action), strict=True)
    except UserError:  # a space that is not supported
        return action
    flat = [
        x if isinstance(leaf.space, gs.Discrete) else np.asarray(x) for leaf, x in pairs
    ]
    return pack(space, flat)


def _mask(space: gymnasium.Space, observation: Any) -> Any:
    """What ``space.sample`` takes; None if all actions are allowed."""
    mask = observation.get("action_mask") if isinstance(observation, dict) else None
    if mask is None or not isinstance(space, (gs.Discrete, gs.MultiDiscrete)):
        return None
    sizes = np.atleast_1d(space.n if isinstance(space, gs.Discrete) else space.nvec)
    mask = (np.asarray(mask) != 0).astype(np.int8)
    if mask.shape != (sizes.sum(),):
        return None
    cut = np.split(mask, np.cumsum(sizes)[:-1])
    masks = tuple(part if part.any() else np.ones_like(part) for part in cut)
    return masks[0] if isinstance(space, gs.Discrete) else masks
