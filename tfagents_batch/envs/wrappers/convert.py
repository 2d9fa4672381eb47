"""Narrow 64-bit numbers, and let none pass that is not finite."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs
from gymnasium.utils import RecordConstructorArgs

from tfagents_batch import spaces
from tfagents_batch.envs import arguments

RAISE, OFF = "raise", "off"  # finite_check
_FLOAT_MAX = float(np.finfo(np.float32).max)


class ConvertTo32Bit(gymnasium.Wrapper, RecordConstructorArgs):
    """float64 becomes float32, int64 int32 and uint64 uint32; the rest stays as it is.

    That holds for observations, for the reward (a ``numpy.float32``) and for the
    declared spaces, nested or not. Actions come in the narrow dtypes and reach ``env``
    in its own; a declared bound is that of ``env`` exactly. ``Discrete`` spaces stay:
    their values are int32.

    Args:
      env: to be converted.
      finite_check: "raise" looks for NaN and infinity in actions, observations and
        rewards, "off" does not. A batch looks too, for all its environments at once.

    Raises:
      UserError: for a space that is not supported.
      ValueError: from ``reset`` and ``step``, naming the quantity, the step of the
        episode and the values, for what is not finite or does not fit 32 bits.
    """

    def __init__(self, env: gymnasium.Env, finite_check: str = RAISE):
        RecordConstructorArgs.__init__(self, finite_check=finite_check)
        gymnasium.Wrapper.__init__(self, env)
        arguments.one_of("ConvertTo32Bit: finite_check", finite_check, (RAISE, OFF))
        self._check = finite_check == RAISE
        self._step = 0
        observation_space, action_space = env.observation_space, env.action_space
        self._observe = _tree(
            observation_space,
            [self._narrow(leaf) for leaf in spaces.leaves(observation_space)],
        )
        self._act = _tree(
            action_space, [self._widen(leaf) for leaf in spaces.leaves(action_space)]
        )
        self.observation_space = _narrow_space(observation_space)
        self.action_space = _narrow_space(action_space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        self._step = 0
        observation, info = self.env.reset(seed=seed, options=options)
        return self._observe(observation), info

    def step(self, action: Any):
        self._step += 1
        action = self._act(action)
        observation, reward, terminated, truncated, info = self.env.step(action)
        observation = self._observe(observation)
        return observation, self._reward(reward), terminated, truncated, info

    def _reward(self, reward: Any) -> np.float32:
        if isinstance(reward, float) and -_FLOAT_MAX <= reward <= _FLOAT_MAX:
            return np.float32(reward)  # as nearly always, and ten times cheaper
        given = np.asarray(reward)
        if given.shape or given.dtype.kind not in "fiub":
            raise ValueError(f"reward is {reward!r}; expected a number")
        with np.errstate(over="ignore"):
            narrow = given.astype(np.float32)
        if self._check:
            self._check_finite("reward", given, narrow)
        return narrow[()]

    def _narrow(self, leaf: spaces.Leaf) -> Callable[[Any], Any]:
        """The function that converts a leaf of an observation."""
        name = _field("observation", leaf)
        target = np.dtype(leaf.dtype)
        scalar = isinstance(leaf.space, gs.Discrete)

        def narrow(value):
            given = np.asarray(value)
            array = given
            wide = given.dtype.itemsize == 8 and target.itemsize == 4
            if wide and given.dtype.kind == target.kind:
                with np.errstate(over="ignore"):
                    array = given.astype(target)
                if target.kind != "f" and (array != given).any():
                    raise ValueError(f"{name} is {_text(given)}; expected {target}")
            if self._check and array.dtype.kind == "f":
                self._check_finite(name, given, array)
            return array[()] if scalar else array

        return narrow

    def _widen(self, leaf: spaces.Leaf) -> Callable[[Any], Any]:
        """The function that converts a leaf of an action."""
        name = _field("action", leaf)
        space = leaf.space
        if isinstance(space, gs.Discrete):
            return lambda value: space.dtype.type(operator.index(value))
        dtype = np.dtype(space.dtype)
        is_float = dtype.kind == "f"
        exact = is_float and dtype.itemsize == 8
        if exact:  # a bound that was rounded is the bound
            low, high = (_rounded(b, np.float32) for b in (space.low, space.high))

        def widen(value):
            array = np.asarray(value)
            if self._check and is_float:
                self._check_finite(name, array, array)
            if not np.can_cast(array.dtype, dtype, "same_kind"):
                return array  # for the environment to judge
            wide = array.astype(dtype, copy=False)
            if exact and array.dtype != dtype:
                wide = np.where(array == low, space.low, wide)
                wide = np.where(array == high, space.high, wide)
            return wide

        return widen

    def _check_finite(self, name: str, given: np.ndarray, array: np.ndarray) -> None:
        finite = np.isfinite(array)
        if not finite.all():
            where = np.argwhere(~finite)[0].tolist()
            value = float(given[tuple(where)])
            name = f"{name}{where}" if where else name
            fit = " that float32 can hold" if np.isfinite(value) else ""
            raise ValueError(
                f"{name} is {value} in step {self._step} of the episode; expected "
                f"finite numbers{fit}; the whole is {_text(given)}"
            )


def _tree(space: gymnasium.Space, functions: list[Callable]) -> Callable[[Any], Any]:
    """A function of a value of ``space`` that applies one function to each leaf."""
    if not isinstance(space, (gs.Dict, gs.Tuple)):
        return functions[0]

    def apply(value):
        pairs = zip(functions, spaces.flatten(space, value), strict=True)
        return spaces.pack(space, [function(leaf) for function, leaf in pairs])

    return apply


def _narrow_space(space: gymnasium.Space) -> gymnasium.Space:
    if isinstance(space, gs.Dict):
        return gs.Dict({key: _narrow_space(x) for key, x in space.spaces.items()})
    if isinstance(space, gs.Tuple):
        return gs.Tuple([_narrow_space(child) for child in space.spaces])
    wide = np.dtype(space.dtype).itemsize == 8
    if isinstance(space, gs.MultiDiscrete) and wide:
        nvec, start = (np.asarray(x, np.int32) for x in (space.nvec, space.start))
        return gs.MultiDiscrete(nvec, dtype=np.int32, start=start)
    if isinstance(space, gs.Box) and wide:
        dtype = np.dtype(spaces.leaves(space)[0].dtype)
        low, high = (_rounded(bound, dtype) for bound in (space.low, space.high))
        return gs.Box(low, high, dtype=dtype.type)
    return space


def _rounded(bound: np.ndarray, dtype: Any) -> np.ndarray:
    """A bound in fewer bits, as values are rounded too; never outside the dtype."""
    dtype = np.dtype(dtype)
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        bound = np.asarray(np.clip(bound, limits.min, limits.max))
    with np.errstate(over="ignore"):
        return bound.astype(dtype)


def _field(name: str, leaf: spaces.Leaf) -> str:
    return name + "".join(f"[{key!r}]" for key in leaf.path)


def _text(value: np.ndarray) -> str:
    result = str(value.tolist())
    return result if len(result) <= 500 else f"{result[:500]}..."
