"""Play an environment with random actions, which seed and space determine."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch.envs.checking.findings import Place, Report
from tfagents_batch.envs.shared import action_masks
from tfagents_batch.errors import UserError
from tfagents_batch.spaces import flatten, leaves, pack

RESET, STEP = "reset()", "step()"  # values of Place.call
_FIELDS = {
    2: ("observation", "info"),
    4: ("observation", "reward", "done", "info"),
    5: ("observation", "reward", "terminated", "truncated", "info"),
}


class Call(NamedTuple):
    """One call of ``reset`` or ``step``.

    Attributes:
      place: place of the call.
      raised: whether it raised, which is a finding.
      result: returned value.
      digest: hashes of the result by field, computed before anything can change it;
        without info, which may contain the time.
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
      space: action space.
      seed: seed of the actions and of the first reset.
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
            read = parts(result)
            observation = read["observation"]
            call = call._replace(
                result=result, digest=digest(read), ended=has_ended(read)
            )
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


def parts(result: Any) -> dict[str, Any]:
    """Split a result of ``reset`` or ``step`` into fields, in any known form.

    A result of another form is returned as the observation, as from ``reset`` in the
    legacy API.
    """
    names = _FIELDS.get(len(result)) if isinstance(result, tuple) else None
    if isinstance(result, list) and len(result) == 5:
        names = _FIELDS[5]
    return dict(zip(names, result, strict=True)) if names else {"observation": result}


def has_ended(read: Mapping[str, Any]) -> bool:
    """Return whether a flag of any type says that the episode is over."""
    for name in ("terminated", "truncated", "done"):
        try:
            if np.any(read.get(name, False)):
                return True
        except (TypeError, ValueError):
            pass
    return False


def digest(read: Mapping[str, Any]) -> dict[str, int]:
    """Return hashes of ``parts`` by field, one for each leaf of nested values."""
    contents = [snapshot(part, name) for name, part in read.items() if name != "info"]
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
    mask = observation.get(action_masks.KEY) if is_dict else None
    sizes = action_masks.sizes(space)
    if mask is None or sizes is None:
        return None
    mask = (np.asarray(mask) != 0).astype(np.int8)
    if mask.shape != (sizes.sum(),):
        return None
    cut = np.split(mask, np.cumsum(sizes)[:-1])
    masks = tuple(part if part.any() else np.ones_like(part) for part in cut)
    return masks[0] if isinstance(space, gs.Discrete) else masks
