"""Checks of what environments return, before a row is believed.

Shape and dtype are checked at every step; ranges, keys and bounds at the first steps
of an environment and now and then after. Nothing is cast in silence: only the
narrowing of ``spaces.leaves`` (float64 to float32, int64 to int32) is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.envs.adapters.adapt import is_tensor_env
from tfagents_batch.envs.failures import Defect

FLOAT_MAX = float(np.finfo(np.float32).max)
FULL_CHECKS = 100  # steps, from the start
FULL_CHECK_EVERY = 1000  # steps, after those
MEND_SPACE = "correct the environment or its observation_space"
MEND_FINITE = "look for a division by 0, a logarithm of 0 or a number that only grows"


class ObservationWriter:
    """Checks observations and copies them into rows of the shared arrays.

    Attributes:
      write: function of row and observation that checks shapes and dtypes and copies;
        raises Defect.
    """

    def __init__(self, space: gymnasium.Space, arrays: list[np.ndarray]):
        self._space = space
        self._leaves = spaces.leaves(space)
        self._names = [field(leaf.path) for leaf in self._leaves]
        self._nested = isinstance(space, (gs.Dict, gs.Tuple))
        triples = list(zip(self._leaves, self._names, arrays, strict=True))
        self._write = [_writer(*triple) for triple in triples]
        self.write = self._write_nested if self._nested else self._write[0]
        self._check = [_full_check(leaf, name) for leaf, name, _ in triples]
        self._float = [
            (name, array)
            for leaf, name, array in triples
            if np.dtype(leaf.dtype).kind == "f" and array.size
        ]
        # A product with zeros is NaN exactly where a number is not finite, which is
        # the cheapest way to ask; of NumPy's products vdot is the one without warnings.
        flats = [array.reshape(-1) for _, array in self._float]
        self._flat = [(flat, np.zeros_like(flat)) for flat in flats]

    def inspect(self, value: Any) -> list[str]:
        """The rarer checks, of keys, ranges and bounds, of one observation.

        Returns:
          names of the leaves outside their Box, which is no defect.

        Raises:
          Defect: if it is not a value of the space.
        """
        flat = [value]
        if self._nested:
            _check_keys(self._space, value, "observation")
            flat = spaces.flatten(self._space, value)
        names = zip(self._names, self._check, flat, strict=True)
        return [name for name, check, leaf in names if not check(leaf)]

    def not_finite(self) -> dict[int, str]:
        """``{row: leaf's name}`` of the rows that hold NaN or infinity."""
        found: dict[int, str] = {}
        if not any(np.vdot(flat, zeros) for flat, zeros in self._flat):
            return found
        for name, array in self._float:
            finite = np.isfinite(array)
            if not finite.all():
                rows = ~finite.reshape(len(array), -1).all(axis=1)
                for row in np.flatnonzero(rows):
                    found.setdefault(int(row), name)
        return found

    def where_not_finite(self, row: int) -> str:
        """The places of a row's numbers that are not finite, as text."""
        for _, array in self._float:
            places = np.argwhere(~np.isfinite(array[row])).tolist()
            if places:
                more = f" and {len(places) - 3} more places" if len(places) > 3 else ""
                shown = ", ".join(str(place) for place in places[:3])
                return f" at {shown}{more}" if places[0] else ""
        return ""

    def _write_nested(self, row: int, value: Any) -> None:
        for write, leaf in zip(self._write, self._flatten(value), strict=True):
            write(row, leaf)

    def _flatten(self, value: Any) -> list[Any]:
        try:
            return spaces.flatten(self._space, value)
        except (KeyError, IndexError, TypeError) as error:
            keys = list(value) if isinstance(value, dict) else type(value).__name__
            raise Defect(
                f"observation is not nested as its space ({type(error).__name__}: "
                f"{error}); got {keys}, expected {self._space}: {MEND_SPACE}"
            ) from None


def reward(value: Any) -> float:
    """The reward as a Python float.

    Raises:
      Defect: if it is not a number.
    """
    if isinstance(value, (float, int, np.floating, np.integer, np.bool_)):
        return float(value)
    got, mend = type(value).__name__, "float(reward)"
    if isinstance(value, np.ndarray):
        got = f"an array of shape {value.shape}"
        mend = "reward.item()" if value.size == 1 else "one number, such as its sum"
    raise Defect(f"reward is {got}; expected a number: return {mend}")


def finite_reward(value: float) -> float:
    """Refuse, by a Defect, a reward that float32 cannot hold."""
    if -FLOAT_MAX <= value <= FLOAT_MAX:  # false for NaN
        return value
    raise Defect(f"reward is {value}; expected a finite float32: {MEND_FINITE}")


def flag(name: str, value: Any) -> bool:
    """``terminated`` or ``truncated`` as a Python bool.

    Raises:
      Defect: if it is neither bool nor numpy.bool_.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise Defect(
        f"{name} is {value!r} of type {type(value).__name__}; expected a bool: "
        f"return bool({name})"
    )


def step_result(result: Any) -> None:
    """Raise Defect unless ``result`` is a 5-tuple."""
    if isinstance(result, tuple) and len(result) == 5:
        return
    if isinstance(result, tuple) and len(result) == 4:
        raise Defect(
            "step() returned 4 values, the legacy gym API; expected observation, "
            "reward, terminated, truncated, info: split done into terminated (the task "
            "ended) and truncated (a time limit cut it off)"
        )
    raise Defect(
        f"step() returned {shape_of(result)}; expected a tuple of five: return "
        "observation, reward, terminated, truncated, info"
    )


def reset_result(result: Any) -> None:
    """Raise Defect unless ``result`` is a pair that ends in a dict."""
    if isinstance(result, tuple) and len(result) == 2:
        return info(result[1])
    raise Defect(
        f"reset() returned {shape_of(result)}; expected a tuple of observation, info "
        "(the legacy gym API returned the observation alone: return observation, {})"
    )


def info(value: Any) -> None:
    """Raise Defect unless ``value`` is a dict."""
    if not isinstance(value, dict):
        raise Defect(
            f"info is {type(value).__name__}; expected a dict: return {{}} where there "
            "is nothing to say"
        )


def environment(env: Any) -> None:
    """Raise Defect unless ``env`` looks like one Gymnasium environment."""
    missing = [
        name
        for name in ("reset", "step", "observation_space", "action_space")
        if not hasattr(env, name)
    ]
    if missing:
        raise Defect(
            f"the constructor returned {type(env).__name__}, without "
            f"{', '.join(missing)}; expected a gymnasium.Env"
        )
    if is_tensor_env(env):
        raise Defect(
            f"the constructor returned {type(env).__name__}, which is written in "
            "TensorFlow; pass its class, an object or its name, not a function that "
            "makes one"
        )
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise Defect(
            f"the constructor returned {type(env).__name__}, a batch of environments; "
            "expected a single gymnasium.Env"
        )


def _writer(
    leaf: spaces.Leaf, name: str, array: np.ndarray
) -> Callable[[int, Any], None]:
    if isinstance(leaf.space, gs.Discrete):
        return _discrete_writer(leaf, name, array)
    shape = leaf.shape
    wide, narrow = np.dtype(leaf.space.dtype), np.dtype(leaf.dtype)
    narrows_integers = wide != narrow and wide.kind in "iu"
    ndarray = np.ndarray
    rows = [array[row, ...] for row in range(len(array))]  # cheaper to write to

    def write(row, value):
        if type(value) is not ndarray or value.dtype != wide or value.shape != shape:
            _check_array(value, shape, (wide, narrow), name)
        rows[row][...] = value
        if narrows_integers and (rows[row] != value).any():
            raise Defect(_does_not_fit(name, narrow))

    return write


def _discrete_writer(
    leaf: spaces.Leaf, name: str, array: np.ndarray
) -> Callable[[int, Any], None]:
    low = int(leaf.space.start)
    high = low + int(leaf.space.n)

    def write(row, value):
        if not isinstance(value, (int, np.integer)):
            scalar = isinstance(value, np.ndarray) and value.shape == ()
            if not scalar or value.dtype.kind not in "iu":
                raise Defect(_not_an_int(name, value))
        if not low <= value < high:
            raise Defect(_not_in(name, value, leaf.space))
        array[row] = value

    return write


def _check_array(
    value: Any, shape: tuple[int, ...], dtypes: tuple[np.dtype, np.dtype], name: str
) -> None:
    """Raise Defect, or return if ``value`` is an unusual but right array."""
    for _, text in _array_defects(value, shape, dtypes, name):
        raise Defect(text)


def _array_defects(
    value: Any, shape: tuple[int, ...], dtypes: tuple[np.dtype, np.dtype], name: str
) -> Iterator[tuple[str, str]]:
    """Kind and description of what is wrong with an array, values aside."""
    if not isinstance(value, (np.ndarray, np.generic)):
        yield (
            "type",
            f"{name} is {shape_of(value)}; expected an array, {dtypes[0]} "
            f"{list(shape)}: return np.asarray(observation, np.{dtypes[0]})",
        )
        return
    if value.shape != shape:
        yield (
            "shape",
            f"{name} has shape {list(value.shape)}; the space says {list(shape)}: "
            f"{MEND_SPACE}",
        )
    if value.dtype not in dtypes:
        yield (
            "dtype",
            f"{name} has dtype {value.dtype}; the space says {dtypes[0]}: correct the "
            "environment, or wrap it in gymnasium.wrappers.DtypeObservation(env, "
            f"np.{dtypes[0]})",
        )


def leaf_defects(leaf: spaces.Leaf, value: Any) -> Iterator[tuple[str, str]]:
    """Everything that is wrong with one leaf of an observation.

    For reports; ``ObservationWriter`` is faster and stops at the first.

    Args:
      leaf: of the observation space.
      value: what stands in its place.

    Yields:
      kind ("type", "shape", "dtype", "finite", "fit" or "bounds") and description.
    """
    space, name = leaf.space, field(leaf.path)
    if isinstance(space, gs.Discrete):
        yield from _discrete_defects(space, name, value)
        return
    wide, narrow = np.dtype(space.dtype), np.dtype(leaf.dtype)
    found = dict(_array_defects(value, leaf.shape, (wide, narrow), name))
    yield from found.items()
    if "type" in found or value.dtype.kind not in "fiub":
        return
    with np.errstate(over="ignore"):
        held = value.astype(narrow) if narrow.kind == "f" else value
    finite = np.isfinite(held)
    if not finite.all():
        yield (
            "finite",
            f"{name} has NaN or infinite values; expected finite {narrow}: "
            f"{MEND_FINITE}",
        )
    if "shape" in found:
        return
    narrows = wide != narrow and narrow.kind in "iu" and value.dtype.kind in "iu"
    if narrows and (value.astype(narrow) != value).any():
        yield "fit", _does_not_fit(name, narrow)
    if isinstance(space, gs.Box):
        outside = ((value < space.low) | (value > space.high)) & finite
        if outside.any():
            yield "bounds", _outside(name, np.asarray(value), outside, space)
    elif finite.all() and not space.contains(np.asarray(value, space.dtype)):
        yield "bounds", _not_in(name, np.asarray(value).tolist(), space)


def _discrete_defects(
    space: gs.Discrete, name: str, value: Any
) -> Iterator[tuple[str, str]]:
    scalar = isinstance(value, np.ndarray) and value.shape == ()
    whole = scalar and value.dtype.kind in "iu"
    if not whole and not isinstance(value, (int, np.integer)):
        yield "type", _not_an_int(name, value)
    elif not space.start <= value < space.start + space.n:
        yield "bounds", _not_in(name, value, space)


def _outside(name: str, value: np.ndarray, outside: np.ndarray, space: gs.Box) -> str:
    place = tuple(int(i) for i in np.argwhere(outside)[0])
    where = f" at {list(place)}" if place else ""
    low, high = space.low[place], space.high[place]
    return (
        f"{name} is {value[place]}{where}, outside its Box; expected {low} to {high}: "
        f"{MEND_SPACE}"
    )


def _not_an_int(name: str, value: Any) -> str:
    return f"{name} is {shape_of(value)}; expected an int: return int(observation)"


def _not_in(name: str, value: Any, space: gymnasium.Space) -> str:
    """Words for a value that a discrete space does not have."""
    if isinstance(space, gs.Discrete):
        low, high = int(space.start), int(space.start + space.n) - 1
        return f"{name} is {value}; {space} has {low} to {high}: {MEND_SPACE}"
    text = str(value)
    text = text if len(text) <= 500 else f"{text[:500]}..."
    return f"{name} is {text}; not in {space}: {MEND_SPACE}"


def _does_not_fit(name: str, dtype: np.dtype) -> str:
    return (
        f"{name} has values that do not fit {dtype}, which holds it: scale them, or "
        "observe them as float32"
    )


def _full_check(leaf: spaces.Leaf, name: str) -> Callable[[Any], bool]:
    """A function that is false for a value outside its Box."""
    space = leaf.space
    if isinstance(space, (gs.MultiDiscrete, gs.MultiBinary)):

        def check(value):
            if not space.contains(np.asarray(value, space.dtype)):
                raise Defect(_not_in(name, np.asarray(value).tolist(), space))
            return True

        return check
    if isinstance(space, gs.Box) and (
        np.isfinite(space.low).any() or np.isfinite(space.high).any()
    ):
        low, high = space.low, space.high
        # NaN is not outside: it has its own check.
        return lambda value: not ((value < low) | (value > high)).any()
    return lambda value: True


def _check_keys(space: gymnasium.Space, value: Any, name: str) -> None:
    """Refuse keys and entries that the space does not have; they would be lost."""
    if isinstance(space, gs.Dict):
        extra = sorted(str(key) for key in set(value) - set(space.spaces))
        if extra:
            raise Defect(extra_keys(name, extra))
        for key, child in space.spaces.items():
            _check_keys(child, value[key], f"{name}[{key!r}]")
    elif isinstance(space, gs.Tuple):
        if len(value) != len(space.spaces):
            raise Defect(other_length(name, value, space))
        for index, child in enumerate(space.spaces):
            _check_keys(child, value[index], f"{name}[{index}]")


def extra_keys(name: str, keys: list[str]) -> str:
    """Words for keys that would be lost."""
    return (
        f"{name} has keys {keys}, which its space does not have: leave them out, or "
        "add them to observation_space"
    )


def other_length(name: str, value: Any, space: gs.Tuple) -> str:
    """Words for a tuple that is longer or shorter than its space."""
    count = len(space.spaces)
    return f"{name} has {len(value)} entries; its space has {count}: {MEND_SPACE}"


def field(path: tuple[str | int, ...]) -> str:
    """How a part of an observation is called, such as ``observation['a'][0]``."""
    return "observation" + "".join(f"[{key!r}]" for key in path)


def shape_of(value: Any) -> str:
    """What a value is, in a few words."""
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    if isinstance(value, np.ndarray):
        return f"an array, {value.dtype} {list(value.shape)}"
    return "None" if value is None else f"a {type(value).__name__}"
