"""Spaces of logged rows, and whether an environment can have taken them."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

from tfagents_batch import spaces
from tfagents_batch.errors import UserError
from tfagents_batch.logged.table import FEATURES, MASK, PRESENCE, STATE
from tfagents_batch.offline import table_reader
from tfagents_batch.offline.schema import is_integer
from tfagents_batch.offline.table_reader import Partition
from tfagents_batch.types import EnvSpec


def is_masked(found: Partition) -> bool:
    """Return whether observations say which actions are possible."""
    return found.schema.mode != "continuous" and table_reader.masked(found)


def observation_space(found: Partition, presence: bool = False) -> gym.Space:
    """Return the space of raw observations, with flags of presence or without."""
    schema, count = found.schema, len(found.schema.features)
    numbers = gym.spaces.Box(-np.inf, np.inf, (count,), np.float32)
    parts: dict[str, gym.Space] = {STATE: numbers}
    if presence:
        parts[PRESENCE] = gym.spaces.Box(0, 1, (count,), np.int8)
    if not is_masked(found):
        return gym.spaces.Dict(parts) if presence else numbers
    size = len(schema.actions)
    if schema.mode == "parametric":
        size = table_reader.most_candidates(found)
        shape = size, len(schema.action_features)
        parts[FEATURES] = gym.spaces.Box(-np.inf, np.inf, shape, np.float32)
    parts[MASK] = gym.spaces.Box(0, 1, (size,), np.int8)
    return gym.spaces.Dict(parts)


def action_space(found: Partition) -> gym.Space:
    """Return the space of the actions that were logged.

    Raises:
      UserError: if a part of the actions has always the same value.
    """
    schema = found.schema
    if schema.mode == "continuous":
        low, high = table_reader.action_bounds(found)
        if constant := np.flatnonzero(low == high).tolist():
            names = [f"{schema.action_features[i]} (always {low[i]})" for i in constant]
            raise UserError(
                f"features of actions are constant in the rows of {found.folder}: "
                f"{', '.join(names)}; leave them out of the column action, and make "
                "the timeline again"
            )
        return gym.spaces.Box(low, high, dtype=np.float32)
    if schema.mode == "parametric":
        return gym.spaces.Discrete(table_reader.most_candidates(found))
    return gym.spaces.Discrete(len(schema.actions))


def fitting(env: EnvSpec, rows: EnvSpec, found: Partition) -> EnvSpec:
    """Return the spec of an environment, if rows can be those of its steps.

    Args:
      env: spec of the environment.
      rows: spec of the rows, with raw observations.
      found: the rows.

    Raises:
      UserError: if they cannot.
    """
    observation, action = env.observation_space, env.action_space
    same = spaces.alike(observation, rows.observation_space)
    if isinstance(action, gym.spaces.Discrete):
        same &= isinstance(rows.action_space, gym.spaces.Discrete)
        same = same and action.n == rows.action_space.n and not action.start
    else:
        same = same and spaces.alike(action, rows.action_space)
    if not same:
        raise UserError(
            f"the environment has {observation} and {action}, but the rows in "
            f"{found.folder} have {rows.observation_space} and {rows.action_space}; "
            "pass the environment that was logged, or none"
        )
    if isinstance(action, gym.spaces.Box):
        _check_bounds(action, found)
    _check_numbers(found)
    return EnvSpec(1, observation, action, {}, env.max_episode_steps)


def _check_bounds(space: gym.spaces.Box, found: Partition) -> None:
    """Check that logged actions are those that an environment can take."""
    for name, low, high, least, most in zip(
        found.schema.action_features,
        *table_reader.action_bounds(found),
        space.low.reshape(-1),
        space.high.reshape(-1),
        strict=True,
    ):
        # The environment may have rounded its bounds.
        too_low = low < least - 1e-6 * abs(least)
        if too_low or high > most + 1e-6 * abs(most):
            raise UserError(
                f"feature {name} of the actions in {found.folder} is from {low:g} to "
                f"{high:g}, but the environment takes actions from {least:g} to "
                f"{most:g}; pass the environment that was logged, or log the actions "
                "that it took"
            )


def _check_numbers(found: Partition) -> None:
    """Check that names of actions that are numbers are those of an environment."""
    names = found.schema.actions
    for i, name in enumerate(names):
        if is_integer(name) and name != str(i):
            raise UserError(
                f"action {i} of the rows in {found.folder} is named {name!r}, but the "
                f"environment would take it for its action {i}; expected the names 0 "
                f"to {len(names) - 1} in this order, or no numbers. Make the timeline "
                "again with a --schema that has all actions in order"
            )
