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


def is_masked(timeline: Partition) -> bool:
    """Return whether observations say which actions are possible."""
    return timeline.schema.mode != "continuous" and table_reader.masked(timeline)


def observation_space(timeline: Partition, presence: bool = False) -> gym.Space:
    """Return the space of raw observations, with flags of presence or without."""
    schema, count = timeline.schema, len(timeline.schema.features)
    parts: dict[str, gym.Space] = {}
    parts[STATE] = gym.spaces.Box(-np.inf, np.inf, (count,), np.float32)
    if presence:
        parts[PRESENCE] = gym.spaces.Box(0, 1, (count,), np.int8)
    if is_masked(timeline):
        size = _actions(timeline)
        if schema.mode == "parametric":
            shape = size, len(schema.action_features)
            parts[FEATURES] = gym.spaces.Box(-np.inf, np.inf, shape, np.float32)
        parts[MASK] = gym.spaces.Box(0, 1, (size,), np.int8)
    return gym.spaces.Dict(parts) if len(parts) > 1 else parts[STATE]


def action_space(timeline: Partition) -> gym.Space:
    """Return the space of the logged actions; UserError if a part never changes."""
    if timeline.schema.mode != "continuous":
        return gym.spaces.Discrete(_actions(timeline))
    low, high = table_reader.action_bounds(timeline)
    names = zip(timeline.schema.action_features, low, high, strict=True)
    if constant := [f"{name} (always {x})" for name, x, y in names if x == y]:
        raise UserError(
            f"features of actions are constant in the rows of {timeline.folder}: "
            f"{', '.join(constant)}; leave them out of the column action, and make "
            "the timeline again"
        )
    return gym.spaces.Box(low, high, dtype=np.float32)


def fitting(env: EnvSpec, rows: EnvSpec, timeline: Partition) -> EnvSpec:
    """Return the spec of an environment; UserError if rows cannot be its steps."""
    observation, action = env.observation_space, env.action_space
    same = spaces.alike(action, rows.action_space)
    if isinstance(action, gym.spaces.Discrete):
        other = rows.action_space
        same = isinstance(other, gym.spaces.Discrete)
        same = same and (action.n, action.start) == (other.n, other.start)
    if not (same and spaces.alike(observation, rows.observation_space)):
        raise UserError(
            f"the environment has {observation} and {action}, but the rows in "
            f"{timeline.folder} have {rows.observation_space} and {rows.action_space}; "
            "pass the environment that was logged; training from rows alone needs none"
        )
    if isinstance(action, gym.spaces.Box):
        _check_bounds(action, timeline)
    names = timeline.schema.actions
    for i, name in enumerate(names):
        if is_integer(name) and name != str(i):
            raise UserError(
                f"action {i} of the rows in {timeline.folder} is named {name!r}, but "
                f"the environment would take it for its action {i}; expected the names "
                f"0 to {len(names) - 1} in this order, or no numbers. Make the "
                "timeline again with a --schema that has all actions in order"
            )
    return EnvSpec(1, observation, action, {}, env.max_episode_steps)


def _actions(timeline: Partition) -> int:
    if timeline.schema.mode == "parametric":
        return table_reader.most_candidates(timeline)
    return len(timeline.schema.actions)


def _check_bounds(space: gym.spaces.Box, timeline: Partition) -> None:
    logged = table_reader.action_bounds(timeline)
    names = timeline.schema.action_features
    bounds = zip(names, *logged, space.low.flat, space.high.flat, strict=True)
    for name, low, high, least, most in bounds:
        # The environment may have rounded its bounds.
        if low < least - 1e-6 * abs(least) or high > most + 1e-6 * abs(most):
            raise UserError(
                f"feature {name} of the actions in {timeline.folder} is from {low:g} "
                f"to {high:g}, but the environment takes actions from {least:g} to "
                f"{most:g}; pass the environment that was logged, or log the actions "
                "that it took"
            )
