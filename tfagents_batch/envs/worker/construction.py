"""Construction of environments: their seeds, and what they declare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfagents_batch import spaces
from tfagents_batch.envs.adapters.adapt import create
from tfagents_batch.envs.shared import failures
from tfagents_batch.envs.shared.failures import Failure
from tfagents_batch.envs.wrappers import layers

Catch = type[BaseException] | tuple[type[BaseException], ...]


def env_seed(seed: int, index: int, restarts: int = 0) -> int:
    """Return the seed of an environment, in ``[0, 2**31)``; it depends on nothing else.

    Args:
      seed: seed of the batch.
      index: index of the environment in the batch.
      restarts: number of times the environment was replaced. A replacement has another
        seed, so it does not repeat the episode that failed.
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

    Args:
      constructors: functions without arguments.
      first_row: index of the first one in the batch.
      progress: called with the row before each constructor runs.
      catch: exceptions that become failures.

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
