"""Gymnasium spaces as flat leaves and as canonical JSON, without TensorFlow.

Worker processes and graph code both take shapes and dtypes from this module.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch.errors import UserError

SUPPORTED = "Box, Discrete, MultiDiscrete, MultiBinary, Dict and Tuple"
# 64-bit types become 32-bit types, because XLA and networks use 32 bits.
_NARROW = {"float64": "float32", "int64": "int32", "uint64": "uint32"}


class Leaf(NamedTuple):
    """One array of a (possibly nested) space."""

    path: tuple[str | int, ...]  # keys from the root, () for a plain space
    shape: tuple[int, ...]  # shape of one value, without batch axis
    dtype: str  # NumPy dtype name in shared memory and in the graph
    space: gymnasium.Space  # Gymnasium space of this leaf

    @property
    def name(self) -> str:
        return "/".join(str(key) for key in self.path) or "value"


def leaves(space: gymnasium.Space, path: tuple[str | int, ...] = ()) -> list[Leaf]:
    """Return the leaves of a space, depth first, with Dict keys sorted.

    Raises:
      UserError: for a space that is not supported, such as one with values beyond
        int32; it names the space.
    """
    if isinstance(space, gs.Dict):
        children = [(key, space.spaces[key]) for key in sorted(space.spaces)]
        if not path:
            _refuse_entries(space)
    elif isinstance(space, gs.Tuple):
        children = list(enumerate(space.spaces))
    elif isinstance(space, (gs.Box, gs.MultiBinary)):
        dtype = np.dtype(space.dtype).name
        shape = tuple(int(size) for size in space.shape)
        return [Leaf(path, shape, _NARROW.get(dtype, dtype), space)]
    elif isinstance(space, gs.MultiDiscrete):
        _refuse_wide(space, path)
        return [Leaf(path, tuple(int(s) for s in space.shape), "int32", space)]
    elif isinstance(space, gs.Discrete):
        _refuse_wide(space, path)
        return [Leaf(path, (), "int32", space)]
    else:
        raise UserError(
            f"space {type(space).__name__}{_at(path)} is not supported; use "
            f"{SUPPORTED}, or a gymnasium wrapper that converts it"
        )
    return [leaf for key, child in children for leaf in leaves(child, (*path, key))]


def has_box(space: gymnasium.Space) -> bool:
    """Return whether a space is a Box, or a Dict or Tuple with one."""
    return any(isinstance(leaf.space, gs.Box) for leaf in leaves(space))


def _refuse_entries(space: gs.Dict) -> None:
    """Refuse entries that are not supported, and say how to leave them out."""
    faults = {}
    for key in sorted(space.spaces):
        try:
            leaves(space.spaces[key], (key,))
        except UserError as error:
            faults[key] = error
    kept = [key for key in sorted(space.spaces) if key not in faults]
    if faults and kept:
        first = next(iter(faults.values()))
        entry = {"name": "FilterObservation", "filter_keys": kept}
        raise UserError(f"{first}; to leave it out: wrappers={json.dumps([entry])}")


def is_empty(space: gymnasium.Space) -> bool:
    """Return whether the values of a supported space have no numbers at all."""
    return not any(math.prod(leaf.shape) for leaf in leaves(space))


def _refuse_wide(space: gs.Discrete | gs.MultiDiscrete, path: tuple) -> None:
    """Refuse values that int32, the dtype of ``Leaf``, does not have."""
    sizes = space.n if isinstance(space, gs.Discrete) else space.nvec
    low = np.asarray(space.start, object)  # Python's integers do not overflow
    high = low + np.asarray(sizes, object) - 1
    low, high = np.min(low), np.max(high)
    limits = np.iinfo(np.int32)
    if low < limits.min or high > limits.max:
        raise UserError(
            f"space {space}{_at(path)} has values from {low} up to {high}; expected "
            "int32: use fewer values, or observe a Box of floats"
        )


def _at(path: tuple) -> str:
    return f" at {'/'.join(map(str, path))}" if path else ""


def field(path: tuple[str | int, ...], name: str = "observation") -> str:
    """Return the name of a part of a value, such as ``observation['a'][0]``."""
    return name + "".join(f"[{key!r}]" for key in path)


def alike(one: gymnasium.Space, other: gymnasium.Space) -> bool:
    """Return whether two spaces are equal except for the bounds of Boxes."""

    def forms(space):
        parts = leaves(space)
        return [x[:3] if isinstance(x.space, gs.Box) else x for x in parts]

    return forms(one) == forms(other)


def part(space: gymnasium.Space, keys: Sequence[str], what: str) -> gymnasium.Space:
    """Return a Dict with some of its entries and the action mask; no keys: all of it.

    Raises:
      UserError: for a space that lacks a key; ``what`` names the keys.
    """
    if not keys:
        return space
    known = space.spaces if isinstance(space, gs.Dict) else {}
    if missing := [key for key in keys if key not in known]:
        found = f"entries {', '.join(sorted(known))}" if known else f"space {space}"
        raise UserError(
            f"{what} names the entry {missing[0]!r}, but the observation has the "
            f"{found}; expected entries of a Dict, such as the wrapper "
            "SelectEntries makes of a vector"
        )
    kept = {*keys, "action_mask"}
    return gs.Dict({key: x for key, x in known.items() if key in kept})


def flatten(space: gymnasium.Space, value: Any) -> list[Any]:
    """Return the leaves of one value, in the order of ``leaves``.

    Raises:
      KeyError, IndexError, TypeError: if the value lacks the space's structure.
    """
    if isinstance(space, gs.Dict):
        keys = sorted(space.spaces)
        return [x for key in keys for x in flatten(space.spaces[key], value[key])]
    if isinstance(space, gs.Tuple):
        pairs = enumerate(space.spaces)
        return [x for index, child in pairs for x in flatten(child, value[index])]
    return [value]


def pack(space: gymnasium.Space, flat: Sequence[Any]) -> Any:
    """Pack leaves, in the order of ``leaves``, into plain dicts and tuples."""
    queue = list(flat)

    def build(space):
        if isinstance(space, gs.Dict):
            return {key: build(space.spaces[key]) for key in sorted(space.spaces)}
        if isinstance(space, gs.Tuple):
            return tuple(build(child) for child in space.spaces)
        return queue.pop(0)

    return build(space)


def to_json(space: gymnasium.Space) -> dict:
    """Describe a space as canonical JSON: equal spaces give equal JSON.

    Raises:
      UserError: for a space that is not supported; it names the space.
    """
    leaves(space)  # raises for unsupported spaces, with their path
    if isinstance(space, gs.Dict):
        children = {key: to_json(space.spaces[key]) for key in sorted(space.spaces)}
        return {"type": "Dict", "spaces": children}
    if isinstance(space, gs.Tuple):
        return {"type": "Tuple", "spaces": [to_json(child) for child in space.spaces]}
    if isinstance(space, gs.Box):
        return {
            "type": "Box",
            "shape": [int(size) for size in space.shape],
            "dtype": np.dtype(space.dtype).name,
            "low": _bounds_to_json(space.low),
            "high": _bounds_to_json(space.high),
        }
    if isinstance(space, gs.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, gs.MultiDiscrete):
        return {
            "type": "MultiDiscrete",
            "nvec": np.asarray(space.nvec).tolist(),
            "start": np.asarray(space.start).tolist(),
        }
    n = space.n if isinstance(space.n, (int, np.integer)) else list(space.n)
    return {"type": "MultiBinary", "n": np.asarray(n).tolist()}


def from_json(data: dict) -> gymnasium.Space:
    """Return the space that ``to_json`` described."""
    kind = data["type"]
    if kind == "Dict":
        return gs.Dict({key: from_json(child) for key, child in data["spaces"].items()})
    if kind == "Tuple":
        return gs.Tuple([from_json(child) for child in data["spaces"]])
    if kind == "Box":
        shape, dtype = tuple(data["shape"]), np.dtype(data["dtype"])
        low = _bounds_from_json(data["low"], shape, dtype)
        high = _bounds_from_json(data["high"], shape, dtype)
        return gs.Box(low, high, shape, dtype.type)
    if kind == "Discrete":
        return gs.Discrete(data["n"], start=data["start"])
    if kind == "MultiDiscrete":
        return gs.MultiDiscrete(np.array(data["nvec"]), start=np.array(data["start"]))
    return gs.MultiBinary(data["n"])


def _bounds_to_json(bound: np.ndarray) -> Any:
    """Return one number if all bounds are equal, else a list; infinities are text."""
    first = bound.flat[0] if bound.size else 0
    if bound.size and bool(np.all(bound == first)):
        return _number_to_json(first)
    return [_number_to_json(x) for x in bound.ravel()]


def _number_to_json(x: Any) -> Any:
    x = x.item() if hasattr(x, "item") else x
    return x if np.isfinite(x) else str(float(x))  # JSON has no infinities, no NaN


def _bounds_from_json(data: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    values = data if isinstance(data, list) else [data]
    array = np.array([float(x) if isinstance(x, str) else x for x in values], dtype)
    return np.broadcast_to(array[0], shape) if len(array) == 1 else array.reshape(shape)
