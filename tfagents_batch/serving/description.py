"""Description of an export: its inputs, outputs and origin."""

from __future__ import annotations

import dataclasses
import functools
import math
from pathlib import Path
from typing import Any, NamedTuple

FILE, PARITY, PARITY_ROWS = "export.json", "parity.json", "parity.npz"
FEATURES = "features.json"  # specification by which the model normalizes features
PRESENCE = "presence"  # key of an observation: 0 where a feature is missing
SCHEMA = 1  # version of the format
ABSOLUTE, RELATIVE = 1e-4, 1e-5  # differences that a check allows; either is enough
TIME_DIGITS = 14  # of a request id: hexadecimal microseconds since 1970


class Array(NamedTuple):
    """Input or output of the model."""

    name: str  # name in the model
    # "observation", "episode_start", "state" or "noise"; of outputs, the name without a
    # number
    role: str
    shape: tuple[int, ...]  # shape of one value, without the batch axis
    dtype: str  # name of the NumPy dtype
    # Keys of the observation or the action that lead to it; () for a plain space
    path: tuple[str | int, ...] = ()
    distribution: str = ""  # of noise, "uniform" in [0, 1) or standard "normal"

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Description:
    """Contents of ``export.json``."""

    folder: Path  # folder of the export
    model: Path  # path of the model
    # Name, step and the beginning of the model's hash; it differs between models
    version: str
    # name, algorithm, step, exploration: of the run and its policy
    name: str
    algorithm: str
    step: int
    exploration: float
    # observation_space, action_space: JSON of the spaces
    observation_space: dict[str, Any]
    action_space: dict[str, Any]
    actions: tuple[str, ...] | None  # names of Discrete actions, or None
    features: tuple[int, ...] | None  # ids of the numbers of the observation, or None
    names: dict[str, int]  # ids of features by the names that callers may use instead
    # Names of the values 0, 1, ... of features, by the name of the feature.
    categories: dict[str, tuple[str, ...]]
    mask: str | None  # name of the input that says which actions are possible, or None
    # Name of the input that is 0 where a feature is missing, or None
    presence: str | None
    # inputs, outputs: arrays of the model, in order
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]

    @functools.cached_property
    def action_parts(self) -> tuple[Array, ...]:
        """Outputs that are the parts of a Dict or Tuple action; () for other spaces."""
        return tuple(x for x in self.outputs if x.role == "action" and x.path)

    def packed(self, outputs: dict[str, Any]) -> dict[str, Any]:
        """Return outputs with one "action" instead of its parts, a dict or tuple."""
        if not self.action_parts:
            return outputs
        parts = {x.path: outputs[x.name] for x in self.action_parts}
        names = {x.name for x in self.action_parts}
        others = {name: x for name, x in outputs.items() if name not in names}
        return {"action": _pack(self.action_space, parts, ()), **others}

    def with_role(self, role: str) -> tuple[Array, ...]:
        """Return the inputs with a role, in order."""
        return tuple(x for x in self.inputs if x.role == role)

    @functools.cached_property
    def is_recurrent(self) -> bool:
        return bool(self.with_role("state"))

    @functools.cached_property
    def is_discrete(self) -> bool:
        return self.action_space["type"] == "Discrete"

    @functools.cached_property
    def start(self) -> int:
        """Number of the first Discrete action."""
        return self.action_space["start"] if self.is_discrete else 0

    @functools.cached_property
    def action_names(self) -> tuple[str, ...]:
        """Names of all Discrete actions in the order of their numbers."""
        if self.actions is not None or not self.is_discrete:
            return self.actions or ()
        return tuple(str(self.start + k) for k in range(self.action_space["n"]))

    @functools.cached_property
    def is_by_id(self) -> bool:
        """True if an observation is numbers by id, besides mask and presence."""
        if self.features is None or len(self.numbers) != 1:
            return False
        return self.numbers[0].shape == (len(self.features),)

    @functools.cached_property
    def numbers(self) -> tuple[Array, ...]:
        """Inputs of the observation without the action mask and the presence."""
        others = self.mask, self.presence
        return tuple(x for x in self.with_role("observation") if x.name not in others)


def _pack(space: dict[str, Any], parts: dict[tuple, Any], path: tuple) -> Any:
    """Return the value of a space's JSON, from its parts by path."""
    if space["type"] == "Dict":
        items = space["spaces"].items()
        return {key: _pack(inner, parts, (*path, key)) for key, inner in items}
    if space["type"] == "Tuple":
        items = enumerate(space["spaces"])
        return tuple(_pack(inner, parts, (*path, key)) for key, inner in items)
    return parts[path]


def difference(one: Description, other: Description) -> str:
    """Return what callers would notice if another export took over; "" for nothing.

    Bounds of observations, names of categories, exploration and the weights may differ:
    they come from newer rows.
    """
    pairs = {
        "observations": [_unbounded(x.observation_space) for x in (one, other)],
        "actions": [x.action_space for x in (one, other)],
        "names of actions": [x.actions for x in (one, other)],
        "ids of features": [x.features for x in (one, other)],
        "names of features": [x.names for x in (one, other)],
        "action mask": [x.mask for x in (one, other)],
        "state": [x.with_role("state") for x in (one, other)],
    }
    return "; ".join(
        f"{name}: {ours!r:.200} became {theirs!r:.200}"
        for name, (ours, theirs) in pairs.items()
        if ours != theirs
    )


def _unbounded(space: Any) -> Any:
    """Return the JSON of a space without the bounds of its Boxes."""
    if isinstance(space, dict):
        skip = ("low", "high") if space.get("type") == "Box" else ()
        return {k: _unbounded(x) for k, x in space.items() if k not in skip}
    return [_unbounded(x) for x in space] if isinstance(space, list) else space
