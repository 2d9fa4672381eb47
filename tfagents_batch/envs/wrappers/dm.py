"""Adapter of ``dm_env.Environment`` to ``gymnasium.Env``.

Specs become spaces; the step types FIRST, MID and LAST become ``reset`` and flags:

    LAST with discount 0           terminated
    LAST with a positive discount  truncated
    MID                            the episode continues, for any discount

The environment's discount is not multiplied into the algorithm's discount factor. It is
in ``info["discount"]``, and ``info_keys={"discount": "float32"}`` makes it a column of
the batch. dm_env has no seeds; if the constructor takes one, use ``adapt.Reseeded``.
dm_env itself is not imported.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch.envs.shared.failures import Defect
from tfagents_batch.envs.shared.observations import coerce
from tfagents_batch.errors import UserError

_FIRST, _LAST = 0, 2  # values of dm_env.StepType


class DmEnv(gymnasium.Env):
    """Adapter of one ``dm_env.Environment`` to Gymnasium's interface.

    Array specs become Box, bools MultiBinary, dicts Dict, and lists and tuples Tuple.
    DiscreteArray and single bounded integer actions become Discrete; arrays of bounded
    integer actions become MultiDiscrete. Another spec is a UserError.
    """

    def __init__(self, env: Any):
        name = type(env).__name__
        self.env = env
        observation, action = env.observation_spec(), env.action_spec()
        self.observation_space = to_space(observation, f"observation of {name}")
        self.action_space = to_space(action, f"action of {name}", is_action=True)
        self._action_spec = action

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        timestep = self.env.reset()
        if int(timestep.step_type) != _FIRST:
            raise Defect(
                f"reset() returned a time step of type {timestep.step_type!r}; "
                "expected FIRST"
            )
        observation = coerce(self.observation_space, timestep.observation)
        return observation, {"discount": 1.0}

    def step(self, action):
        timestep = self.env.step(_cast(self._action_spec, action))
        kind = int(timestep.step_type)
        if kind == _FIRST:
            raise Defect(
                "step() returned a time step of type FIRST within an episode; expected "
                "MID or LAST"
            )
        discount = _number("discount", timestep.discount)
        last = kind == _LAST
        ended = last and discount == 0
        return (
            coerce(self.observation_space, timestep.observation),
            _number("reward", timestep.reward),
            ended,
            last and not ended,
            {"discount": discount},
        )

    def close(self):
        getattr(self.env, "close", lambda: None)()


def to_space(spec: Any, where: str, is_action: bool = False) -> gymnasium.Space:
    """Convert a spec, or a nest of specs, to a space.

    For actions, bounded integers become discrete, so that a policy selects among them.
    A spec without a matching space is a UserError with ``where``.
    """
    if isinstance(spec, dict):
        children = spec.items()
        return gs.Dict(
            {key: to_space(x, f"{where}[{key!r}]", is_action) for key, x in children}
        )
    if isinstance(spec, (list, tuple)):
        children = enumerate(spec)
        return gs.Tuple([to_space(x, f"{where}[{i}]", is_action) for i, x in children])
    kind = np.dtype(getattr(spec, "dtype", object)).kind
    if kind not in "fiub" or not hasattr(spec, "shape"):
        raise UserError(
            f"{where} has the spec {spec!r}, which is not supported; use Array, "
            "BoundedArray or DiscreteArray of numbers"
        )
    if kind == "b":
        return gs.MultiBinary(spec.shape) if spec.shape else gs.Discrete(2)
    if hasattr(spec, "num_values"):
        return gs.Discrete(int(spec.num_values))
    low, high = _bounds(spec)
    if kind == "f" or not is_action:
        return gs.Box(low, high, spec.shape, spec.dtype.type)
    if not hasattr(spec, "minimum"):
        raise UserError(
            f"{where} has the spec {spec!r}, integers without bounds; use BoundedArray "
            "or DiscreteArray"
        )
    count = high.astype(np.int64) - low + 1
    if not spec.shape:
        return gs.Discrete(int(count), start=int(low))
    return gs.MultiDiscrete(count, start=low.astype(np.int64))


def _bounds(spec: Any) -> tuple[np.ndarray, np.ndarray]:
    dtype = np.dtype(spec.dtype)
    if hasattr(spec, "minimum"):
        low, high = spec.minimum, spec.maximum
    elif dtype.kind == "f":
        low, high = -np.inf, np.inf
    else:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    low, high = (np.asarray(x, dtype) for x in (low, high))
    return np.broadcast_to(low, spec.shape), np.broadcast_to(high, spec.shape)


def _cast(spec: Any, action: Any) -> Any:
    """Convert an action to the structure and dtypes of its spec."""
    if isinstance(spec, dict):
        return {key: _cast(child, action[key]) for key, child in spec.items()}
    if isinstance(spec, (list, tuple)):
        kind = list if isinstance(spec, list) else tuple
        return kind(map(_cast, spec, action))
    return np.asarray(action).astype(spec.dtype)


def _number(name: str, value: Any) -> float:
    """Convert a scalar of any numeric type to a float."""
    if np.ndim(value) == 0 and np.asarray(value).dtype.kind in "fiub":
        return float(value)
    raise Defect(f"{name} of a time step is {value!r}; expected a number")
