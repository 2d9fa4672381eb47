"""Construction of environments: their seeds, and spaces that have to be the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfagents_batch import spaces
from tfagents_batch.envs.shared import failures
from tfagents_batch.envs.shared.failures import Defect, Failure
from tfagents_batch.envs.wrappers import layers
from tfagents_batch.envs.wrappers.adapt import create
from tfagents_batch.errors import UserError

Catch = type[BaseException] | tuple[type[BaseException], ...]


def env_seed(seed: int, index: int, restarts: int = 0) -> int:
    """Return the seed of an environment of a batch, in ``[0, 2**31)``.

    It depends on nothing else than the arguments. An environment that was replaced has
    another seed each time, so it does not repeat the episode that failed.
    """
    key = (index, restarts) if restarts else (index,)
    words = np.random.SeedSequence(seed, spawn_key=key).generate_state(1)
    return int(words[0] >> 1)


class Spare(NamedTuple):
    """Data for replacing failed environments."""

    constructors: Sequence[Callable[[], Any]]
    facts: Sequence[dict]  # see ``inspect``; replacements must match
    restarts: Sequence[int]  # number of earlier restarts of each
    seed: Callable[[], int]  # seed of the batch


def construct(
    constructors: Sequence[Callable[[], Any]],
    first_row: int,
    progress: Callable[[int], None] = lambda row: None,
    catch: Catch = BaseException,
) -> tuple[list[Any], list[dict], Failure | None]:
    """Create environments; stop at the first failure.

    ``progress`` is called with the row before each constructor runs, and ``catch`` are
    the exceptions that become failures.

    Returns:
      the environments, the properties of each (see ``inspect``), the failure or None.
    """
    envs, facts = [], []
    for row, constructor in enumerate(constructors, first_row):
        progress(row)
        try:
            env = create(constructor)
            envs.append(env)
            facts.append(inspect(env))
        except catch as error:
            return envs, facts, failures.from_error(error, env=row, phase="construct")
    return envs, facts, None


def inspect(env: Any) -> dict:
    """Return the spaces of one environment as JSON, and its time limit or None."""
    return {
        "observation_space": spaces.to_json(env.observation_space),
        "action_space": spaces.to_json(env.action_space),
        "max_episode_steps": layers.time_limit(env),
    }


def same_spaces(facts: Sequence[dict]) -> None:
    """Raise UserError if environments differ, see ``inspect``."""
    for index, fact in enumerate(facts):
        if text := _first_difference(facts[0], fact):
            raise UserError(
                f"env {index} and env 0 disagree: {text}; all environments "
                "of a batch need equal spaces"
            )


def check_replacement(before: dict, after: dict) -> None:
    """Raise Defect if an environment has other spaces than the one it replaces."""
    if text := _first_difference(before, after):
        raise Defect(f"the replacement environment has other spaces: {text}")


def _first_difference(ours: dict, theirs: dict) -> str | None:
    """Return the first difference between two environments' spaces, as text."""
    kinds = ("observation_space", "action_space")
    texts = (_difference(ours[kind], theirs[kind], kind) for kind in kinds)
    return next(filter(None, texts), None)


def _difference(ours: Any, theirs: Any, path: str) -> str | None:
    """Return the first difference between two JSON values, as text."""
    if ours == theirs:
        return None
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in {**ours, **theirs}:
            if key not in ours or key not in theirs:
                who = "env 0" if key in ours else "the other"
                return f"{path} has {key!r} only in {who}"
            if text := _difference(ours[key], theirs[key], f"{path}.{key}"):
                return text
    return f"{path} is {_short(theirs)}, not {_short(ours)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
