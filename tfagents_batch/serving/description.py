"""Description of an export: its inputs, outputs and origin, read from its folder."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tfagents_batch.errors import UserError

FILE, PARITY, PARITY_ROWS = "export.json", "parity.json", "parity.npz"
FEATURES = "features.json"  # specification by which the model normalizes features
PRESENCE = "presence"  # key of an observation: 0 where a feature is missing
SCHEMA = 1  # version of the format
ABSOLUTE, RELATIVE = 1e-4, 1e-5  # differences that a check allows; either is enough
TIME_DIGITS = 14  # of a request id: hexadecimal microseconds since 1970


class Array(NamedTuple):
    """Input or output of the model.

    Attributes:
      name: name in the model.
      role: "observation", "episode_start", "state" or "noise"; of outputs, the name
        without a number.
      shape: shape of one value, without the batch axis.
      dtype: name of the NumPy dtype.
      path: keys of the observation that lead to it; () for a plain space.
      distribution: of noise, "uniform" in [0, 1) or standard "normal".
    """

    name: str
    role: str
    shape: tuple[int, ...]
    dtype: str
    path: tuple[str | int, ...] = ()
    distribution: str = ""

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Description:
    """Contents of ``export.json``.

    Attributes:
      folder: folder of the export.
      model: path of the model.
      version: name, step and the beginning of the model's hash; it differs between
        models.
      name, algorithm, step, exploration: of the run and its policy.
      observation_space, action_space: JSON of the spaces.
      actions: names of Discrete actions, or None.
      features: ids of the numbers of the observation, or None.
      mask: name of the input that says which actions are possible, or None.
      presence: name of the input that is 0 where a feature is missing, or None.
      inputs, outputs: arrays of the model, in order.
    """

    folder: Path
    model: Path
    version: str
    name: str
    algorithm: str
    step: int
    exploration: float
    observation_space: dict[str, Any]
    action_space: dict[str, Any]
    actions: tuple[str, ...] | None
    features: tuple[int, ...] | None
    mask: str | None
    presence: str | None
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]

    def with_role(self, role: str) -> tuple[Array, ...]:
        """Return the inputs with a role, in order."""
        return tuple(each for each in self.inputs if each.role == role)

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
        """Whether an observation is numbers by id, besides mask and presence."""
        if self.features is None or len(self.numbers) != 1:
            return False
        return self.numbers[0].shape == (len(self.features),)

    @functools.cached_property
    def numbers(self) -> tuple[Array, ...]:
        """Inputs of the observation without the action mask and the presence."""
        others = self.mask, self.presence
        return tuple(x for x in self.with_role("observation") if x.name not in others)


Call = Callable[..., Any]
"""Function that calls its first argument with the others."""


def directly(function: Callable, *arguments: Any) -> Any:
    """Call a function in this thread."""
    return function(*arguments)


def read(folder: str | Path, call: Call = directly) -> Description:
    """Return the description of an export, whose files are checked by their hashes.

    Args:
      folder: folder of the export.
      call: calls what takes long and does not need Python's lock, see ``Models``.

    Raises:
      UserError: if the folder is no complete ONNX export.
    """
    folder = Path(folder)
    try:
        data = json.loads((folder / FILE).read_text())
    except FileNotFoundError:
        what = f"has no {FILE}" if folder.is_dir() else "does not exist"
        raise UserError(
            f"{folder} {what}; expected the folder of an export, see "
            "tfagents-batch export"
        ) from None
    except OSError as error:
        raise UserError(f"{folder / FILE} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise broken(folder, f"{FILE} is no JSON ({error})") from None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else data
        raise UserError(
            f"{folder / FILE} has schema {found!r:.80}; this version reads schema "
            f"{SCHEMA}: export again with this version of tfagents_batch"
        )
    if data.get("format") != "onnx":
        raise UserError(
            f"{folder} is an export in the format {data.get('format')!r}; expected "
            "onnx: export the run again with --format=onnx"
        )
    try:
        description = _description(folder, data)
        hashes = dict(data["sha256"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise broken(folder, f"{FILE} lacks or misstates {error}") from None
    for name in (data["model"], PARITY_ROWS):
        if name not in hashes:
            raise broken(folder, f"{FILE} has no sha256 of {name}")
    for name, expected in hashes.items():
        _check_hash(folder, name, expected, call)
    return description


def difference(one: Description, other: Description) -> str:
    """Return what callers would notice if another export took over; "" for nothing.

    Bounds of observations, exploration and the weights may differ.
    """
    pairs = {
        "observations": [_unbounded(x.observation_space) for x in (one, other)],
        "actions": [x.action_space for x in (one, other)],
        "names of actions": [x.actions for x in (one, other)],
        "ids of features": [x.features for x in (one, other)],
        "action mask": [x.mask for x in (one, other)],
        "state": [x.with_role("state") for x in (one, other)],
    }
    return "; ".join(
        f"{name}: {ours!r:.200} became {theirs!r:.200}"
        for name, (ours, theirs) in pairs.items()
        if ours != theirs
    )


def _description(folder: Path, data: dict[str, Any]) -> Description:
    model, inputs = str(data["model"]), tuple(map(_array, data["inputs"]))
    if Path(model).name != model:
        raise ValueError(f"model {model!r}, which is no file of the folder")
    json.dumps(data, ensure_ascii=False).encode()  # rows and answers have its texts
    paths = {each.path for each in inputs if each.role == "observation"}
    if _paths(data["observation_space"]) != paths:
        raise ValueError("inputs, which are not those of observation_space")
    space, names = data["action_space"], data.get("actions")
    if _paths(space) != {()}:
        raise ValueError(f"action_space {space['type']!r}")
    if names is not None and len(names) != space.get("n"):
        raise ValueError(f"actions, which has {len(names)} names")
    optional = {name: data.get(name) for name in ("actions", "features")}
    return Description(
        folder=folder,
        model=folder / model,
        version=f"{data['name']}-{data['step']}-{data['sha256'][model][:8]}",
        name=str(data["name"]),
        algorithm=str(data["algorithm"]),
        step=int(data["step"]),
        exploration=float(data["exploration"]),
        observation_space=dict(data["observation_space"]),
        action_space=dict(data["action_space"]),
        mask=data.get("mask"),
        presence=data.get("presence"),
        inputs=inputs,
        outputs=tuple(map(_array, data["outputs"])),
        **{name: None if x is None else tuple(x) for name, x in optional.items()},
    )


# Required keys of a space in JSON, by its type, see ``spaces.to_json``.
_ENTRIES = {
    "Box": {"shape", "dtype"},
    "Discrete": {"n", "start"},
    "MultiDiscrete": {"nvec", "start"},
    "MultiBinary": {"n"},
}


def _paths(space: dict[str, Any]) -> set[tuple[str | int, ...]]:
    """Return the paths to the parts of a space; refuse parts that are incomplete."""
    kind = space["type"]
    if kind in ("Dict", "Tuple"):
        inner = space["spaces"]
        pairs = inner.items() if kind == "Dict" else enumerate(inner)
        return {(key, *path) for key, part in pairs for path in _paths(part)}
    if kind not in _ENTRIES:
        raise ValueError(f"a space of the type {kind!r:.50}")
    if missing := _ENTRIES[kind] - space.keys():
        raise ValueError(f"{', '.join(sorted(missing))} of a {kind}")
    return {()}


def _array(data: dict[str, Any]) -> Array:
    return Array(
        str(data["name"]),
        str(data["role"]),
        tuple(int(size) for size in data["shape"]),
        str(data["dtype"]),
        tuple(data.get("path", ())),
        data.get("distribution", ""),
    )


def _check_hash(folder: Path, name: str, expected: str, call: Call) -> None:
    path = folder / name
    try:
        with path.open("rb") as file:
            found = call(hashlib.file_digest, file, "sha256").hexdigest()
        size = path.stat().st_size
    except OSError as error:
        raise broken(folder, f"{name} cannot be read: {error.strerror}") from error
    if found != expected:
        raise broken(
            folder,
            f"{name} ({size:,} bytes) is truncated or was changed: its sha256 is "
            f"{found[:12]}..., and {FILE} says {expected[:12]}...",
        )


def broken(folder: Path, what: str) -> UserError:
    """Return the error of an export that lacks something, or misstates it."""
    return UserError(f"{folder} is no complete export: {what}; export or copy it again")


def _unbounded(space: Any) -> Any:
    """Return the JSON of a space without the bounds of its Boxes."""
    if isinstance(space, dict):
        skip = ("low", "high") if space.get("type") == "Box" else ()
        return {k: _unbounded(x) for k, x in space.items() if k not in skip}
    return [_unbounded(x) for x in space] if isinstance(space, list) else space
