"""Reading of an export's folder, which may come from somebody else.

As of a run folder, all that is read are regular files inside the folder, of bounded
sizes. The hashes find damage, but whoever can change the folder can change them too. So
every entry of ``export.json`` is checked, and what it says of arrays is compared with
the arrays of the parity check, which the model takes and returns.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tfagents_batch.errors import UserError
from tfagents_batch.offline.schema import is_integer
from tfagents_batch.serving.description import (
    FILE,
    PARITY_ROWS,
    SCHEMA,
    Array,
    Description,
)
from tfagents_batch.training.run_folder import files

MOST_BYTES = 1 << 31  # of a file; a model of ONNX is not larger
MOST_PARITY_BYTES = 1 << 30  # of the parity rows, whose file can be compressed
MOST_ACTIONS = 100_000  # Discrete; the server has a name for each of them
MOST_FILES = 64
MOST_DEPTH = 16  # of spaces inside of spaces
_INT64 = 2**63
_ROLES = {"observation", "episode_start", "state", "noise"}
_DTYPES = {
    *("float16", "float32", "float64", "bool"),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
}
# Ends of lines and other control characters, and halves of characters.
_UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

Call = Callable[..., Any]
"""Function that calls its first argument with the others."""


def directly(function: Callable, *arguments: Any) -> Any:
    """Call a function in this thread."""
    return function(*arguments)


def read(folder: str | Path, call: Call = directly) -> Description:
    """Return the description of an export, whose files are checked by their hashes.

    UserError if the folder is no complete ONNX export. ``call`` calls what takes long
    and does not need Python's lock, see ``Models``.
    """
    folder = Path(folder)
    data = _read_json(folder)
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        schema = data.get("schema") if isinstance(data, dict) else data
        raise UserError(
            f"{folder / FILE} has schema {schema!r:.80}; this version reads schema "
            f"{SCHEMA}: export again with this version of tfagents_batch"
        )
    if data.get("format") != "onnx":
        raise UserError(
            f"{folder} is an export in the format {data.get('format')!r:.80}; expected "
            "onnx: export the run again with --format=onnx"
        )
    try:
        description = _description(folder, data)
    except KeyError as error:
        raise broken(folder, f"{FILE} lacks {error}") from None
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise broken(folder, f"{FILE} misstates {error}") from None
    for name, expected in data["sha256"].items():
        _check_hash(folder, name, expected, call)
    return description


def parity_rows(description: Description) -> dict[str, np.ndarray]:
    """Return the stored inputs and outputs of the model, checked.

    They are arrays with the same number of rows, at least 1, whose shapes and dtypes
    are those of the description, by ``inputs/<name>`` and ``outputs/<name>``.
    """
    folder = description.folder
    try:
        data = files.read(folder / PARITY_ROWS, MOST_PARITY_BYTES)
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            size = sum(entry.file_size for entry in file.infolist())
        if size > MOST_PARITY_BYTES:
            raise ValueError(f"it has {size:,} bytes")
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            rows = {name: np.asarray(file[name]) for name in file.files}
    except (
        *(OSError, ValueError, KeyError, EOFError, MemoryError, RuntimeError),
        *(NotImplementedError, zipfile.BadZipFile, zlib.error),
    ) as error:
        raise broken(folder, f"{PARITY_ROWS} cannot be read: {error!r:.200}") from None
    expected = {f"inputs/{x.name}": x for x in description.inputs}
    expected |= {f"outputs/{x.name}": x for x in description.outputs}
    if rows.keys() != expected.keys():
        names = ", ".join(sorted(rows.keys() ^ expected.keys()))
        raise broken(
            folder, f"{names!r:.200} is in {PARITY_ROWS} or in {FILE}, but not in both"
        )
    first = next(iter(rows.values()))
    count = len(first) if first.ndim else 0
    for name, array in rows.items():
        check_shape(folder, array, expected[name], count, f"{name} of {PARITY_ROWS}")
    return rows


def check_shape(
    folder: Path, array: np.ndarray, field: Array, count: int, where: str
) -> None:
    """Refuse an array that is no batch of what the description says."""
    shape = (count, *field.shape)
    if not count or array.shape != shape or array.dtype.name != field.dtype:
        raise broken(
            folder,
            f"{where!r:.200} is {array.dtype} of shape {list(array.shape)}; expected "
            f"{field.dtype} of shape {list(shape)}, with at least one row",
        )


def broken(folder: Path, what: str) -> UserError:
    """Return the error of an export that lacks something, or misstates it."""
    return UserError(f"{folder} is no complete export: {what}; export or copy it again")


def _read_json(folder: Path) -> Any:
    try:
        return json.loads(files.read(folder / FILE))
    except FileNotFoundError:
        what = f"has no {FILE}" if folder.is_dir() else "does not exist"
        raise UserError(
            f"{folder} {what}; expected the folder of an export, see "
            "tfagents-batch export"
        ) from None
    except OSError as error:
        raise UserError(f"{folder / FILE} cannot be read: {error.strerror}") from error
    except UserError as error:  # no regular file, or too large
        raise broken(folder, str(error)) from None
    except (ValueError, RecursionError) as error:
        raise broken(folder, f"{FILE} is no JSON ({error})") from None


def _check_hash(folder: Path, name: str, expected: str, call: Call) -> None:
    path = folder / name
    try:
        with files.open_to_read(path) as file:
            size = path.stat().st_size
            if size > MOST_BYTES:
                raise broken(folder, f"{name} has {size:,} bytes")
            digest = call(hashlib.file_digest, file, "sha256").hexdigest()
    except OSError as error:
        raise broken(folder, f"{name} cannot be read: {error.strerror}") from error
    except UserError as error:
        raise broken(folder, str(error)) from None
    if digest != expected:
        raise broken(
            folder,
            f"{name} ({size:,} bytes) is truncated or was changed: its sha256 is "
            f"{digest[:12]}..., and {FILE} says {expected[:12]}...",
        )


# ---- entries of export.json; a ValueError says which one is wrong


def _description(folder: Path, data: dict[str, Any]) -> Description:
    json.dumps(data, ensure_ascii=False).encode()  # rows and answers have its texts
    model, hashes = _text(data, "model"), _hashes(data)
    name, step = _text(data, "name"), _whole(data["step"], "step", 0)
    exploration = data["exploration"]
    if type(exploration) not in (int, float) or not 0 <= exploration <= 1:
        raise ValueError(f"exploration, which is {exploration!r:.80}")
    inputs = _arrays(data, "inputs", _ROLES)
    outputs = _arrays(data, "outputs", None)
    description = Description(
        folder=folder,
        model=folder / model,
        version=f"{name}-{step}-{hashes[model][:8]}",
        name=name,
        algorithm=_text(data, "algorithm"),
        step=step,
        exploration=float(exploration),
        observation_space=data["observation_space"],
        action_space=data["action_space"],
        actions=_unique(data, "actions", str),
        features=_unique(data, "features", int),
        names=_names(data),
        categories=_categories(data),
        mask=data.get("mask"),
        presence=data.get("presence"),
        inputs=inputs,
        outputs=outputs,
    )
    _check_observations(description)
    _check_actions(description)
    _check_state(description)
    return description


def _hashes(data: dict[str, Any]) -> dict[str, str]:
    """Return the hashes, whose names are those of files of the folder itself."""
    hashes = data["sha256"]
    if not isinstance(hashes, dict) or len(hashes) > MOST_FILES:
        raise ValueError(f"sha256, which has no hashes of at most {MOST_FILES} files")
    for name, value in hashes.items():
        if name in ("", ".", "..") or "/" in name or _UNPRINTABLE.search(name):
            raise ValueError(f"sha256 of {name!r:.80}, which is no file of the folder")
        if not isinstance(value, str) or not re.fullmatch("[0-9a-f]{64}", value):
            raise ValueError(f"sha256 of {name}, which is {value!r:.80}")
    for name in (data["model"], PARITY_ROWS):
        if name not in hashes:
            raise ValueError(f"sha256, which has no {name!r:.80}")
    return hashes


def _text(data: dict[str, Any], name: str) -> str:
    value = data[name]
    if not isinstance(value, str) or not value or _UNPRINTABLE.search(value):
        raise ValueError(f"{name}, which is {value!r:.80}, and no line of text")
    return value


def _whole(value: Any, name: str, least: int, most: int = _INT64 - 1) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(
            f"{name}, which is {value!r:.80}; expected a whole number from {least} to "
            f"{most}"
        )
    return value


def _unique(data: dict[str, Any], name: str, kind: type) -> tuple[Any, ...] | None:
    """Return different texts or numbers; None for none."""
    values = data.get(name)
    if values is None:
        return None
    if (
        not isinstance(values, list)
        or not all(type(x) is kind for x in values)
        or len({*values}) < len(values)
    ):
        raise ValueError(f"{name}, which is no list of different names or ids")
    return tuple(values)


def _names(data: dict[str, Any]) -> dict[str, int]:
    """Return the ids of features by name; names are no numbers."""
    names, ids = data.get("names") or {}, data.get("features") or []
    numbers = [_whole(x, f"names of {k!r:.80}", -_INT64) for k, x in names.items()]
    if not {*numbers} <= {*ids} or len({*numbers}) < len(numbers):
        raise ValueError("names, which are not those of features")
    if wrong := [x for x in names if is_integer(x)]:
        raise ValueError(f"names, which has the number {wrong[0]!r:.80}")
    return names


def _categories(data: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the names of values by the name of their feature."""
    names = data.get("categories") or {}
    if not names.keys() <= (data.get("names") or {}).keys():
        raise ValueError("categories, which are not those of names")
    return {name: _unique(names, name, str) or () for name in names}


def _arrays(
    data: dict[str, Any], where: str, roles: set[str] | None
) -> tuple[Array, ...]:
    arrays = []
    for entry in data[where]:
        name, role, dtype = (_text(entry, x) for x in ("name", "role", "dtype"))
        shape = tuple(_whole(x, f"shape of {name}", 0) for x in entry["shape"])
        distribution = entry.get("distribution", "")
        path = tuple(entry.get("path", ()))
        if roles is not None and role not in roles:
            raise ValueError(f"role of {name}, which is {role!r:.80}")
        if dtype not in _DTYPES:
            raise ValueError(f"dtype of {name}, which is {dtype!r:.80}")
        if distribution not in (
            ("uniform", "normal") if role == "noise" and roles else ("",)
        ):
            raise ValueError(f"distribution of {name}, which is {distribution!r:.80}")
        if role == "noise" and roles and dtype != "float32":
            raise ValueError(f"dtype of {name}, which is {dtype}; noise is float32")
        if not all(isinstance(x, (str, int)) for x in path):
            raise ValueError(f"path of {name}, which is {path!r:.80}")
        arrays.append(Array(name, role, shape, dtype, path, distribution))
    if sum(x.role == "noise" for x in arrays) > 1 and roles:
        raise ValueError(f"{where}, which has noise twice")
    if len({x.name for x in arrays}) < len(arrays):
        raise ValueError(f"{where}, which has a name twice")
    return tuple(arrays)


def _check_observations(description: Description) -> None:
    """Compare the space of observations with the inputs."""
    parts = dict(_parts(description.observation_space, ()))
    inputs = description.with_role("observation")
    if not inputs or sorted(map(repr, parts)) != sorted(repr(x.path) for x in inputs):
        raise ValueError("inputs, which are not those of observation_space")
    for field in inputs:
        if field.shape != parts[field.path]:
            raise ValueError(
                f"shape of {field.name}, which is {list(field.shape)}, and "
                f"{list(parts[field.path])} in observation_space"
            )
    names = {x.name for x in inputs}
    for what in ("mask", "presence"):
        name = getattr(description, what)
        if name is not None and name not in names:
            raise ValueError(f"{what}, which is {name!r:.80}, and no input")
    if description.presence is not None and description.is_by_id:
        (presence,) = (x for x in inputs if x.name == description.presence)
        if presence.shape != (len(description.features),):
            raise ValueError(f"features, which are not those of {presence.name}")


def _check_actions(description: Description) -> None:
    """Compare the space of actions with the outputs and the names."""
    space, outputs = description.action_space, {x.name: x for x in description.outputs}
    parts = dict(_parts(space, ()))
    actions = [x for x in description.outputs if x.role == "action"]
    if sorted(map(repr, parts)) != sorted(repr(x.path) for x in actions):
        raise ValueError("outputs, which are not those of action_space")
    for field in actions:
        if field.shape != parts[field.path]:
            raise ValueError(
                f"shape of {field.name}, which is {list(field.shape)}, and "
                f"{list(parts[field.path])} in action_space"
            )
    if not description.is_discrete:
        if description.actions is not None:
            raise ValueError("actions, which has names, but they are not Discrete")
        return
    count = _whole(space["n"], "n of action_space", 1, MOST_ACTIONS)
    if description.actions is not None and len(description.actions) != count:
        raise ValueError(f"actions, which has {len(description.actions)} names")
    masks = [x for x in description.inputs if x.name == description.mask]
    for field in (*masks, *(outputs[x] for x in ("probabilities",) if x in outputs)):
        if field.shape != (count,):
            raise ValueError(
                f"shape of {field.name}, which is {list(field.shape)}, for {count} "
                "actions"
            )
    if not outputs["action"].dtype.startswith(("int", "uint")):
        raise ValueError(f"dtype of action, which is {outputs['action'].dtype}")


def _check_state(description: Description) -> None:
    """Compare the inputs of a recurrent policy's state with its outputs."""
    outputs = {x.name: x for x in description.outputs}
    for field in description.with_role("state"):
        after = outputs[f"next_{field.name}"]
        if (after.shape, after.dtype) != (field.shape, field.dtype):
            raise ValueError(f"shape and dtype of {after.name}")
    starts = [x.shape for x in description.with_role("episode_start")]
    if starts != ([()] if description.is_recurrent else []):
        raise ValueError("episode_start, which a state needs, and nothing else")


def _parts(space: Any, path: tuple, depth: int = 0) -> list[tuple[tuple, tuple]]:
    """Return the paths and shapes of the parts of a space, see ``spaces.to_json``."""
    if depth > MOST_DEPTH:
        raise ValueError(f"a space that is nested more than {MOST_DEPTH} deep")
    kind = space["type"]
    if kind in ("Dict", "Tuple"):
        inner = space["spaces"]
        pairs = inner.items() if kind == "Dict" else enumerate(inner)
        return [
            leaf
            for key, part in pairs
            for leaf in _parts(part, (*path, key), depth + 1)
        ]
    if kind not in _SHAPES:
        raise ValueError(f"a space of the type {kind!r:.50}")
    try:
        return [(path, _SHAPES[kind](space))]
    except KeyError as error:
        raise ValueError(f"a {kind}, which lacks {error}") from None


def _box(space: dict[str, Any]) -> tuple[int, ...]:
    if space["dtype"] not in _DTYPES:
        raise ValueError(f"dtype of a Box, which is {space['dtype']!r:.80}")
    return tuple(_whole(x, "shape of a Box", 0) for x in space["shape"])


def _discrete(space: dict[str, Any]) -> tuple[int, ...]:
    start = _whole(space["start"], "start of a Discrete", -_INT64)
    _whole(space["n"], "n of a Discrete", 1, _INT64 - max(start, 0) - 1)
    return ()


def _multi_discrete(space: dict[str, Any]) -> tuple[int, ...]:
    sizes, starts = np.asarray(space["nvec"]), np.asarray(space["start"])
    if (
        {sizes.dtype.kind, starts.dtype.kind} != {"i"}
        or starts.shape != sizes.shape
        or (sizes < 1).any()
    ):
        raise ValueError("nvec or start of a MultiDiscrete")
    return sizes.shape


def _multi_binary(space: dict[str, Any]) -> tuple[int, ...]:
    sizes = space["n"] if isinstance(space["n"], list) else [space["n"]]
    return tuple(_whole(x, "n of a MultiBinary", 0) for x in sizes)


_SHAPES: dict[str, Callable[[dict[str, Any]], tuple[int, ...]]] = {
    "Box": _box,
    "Discrete": _discrete,
    "MultiDiscrete": _multi_discrete,
    "MultiBinary": _multi_binary,
}
