"""The replay of a run, in files of its own that are streamed to and from the disk.

``<run>/replay/step-000000012345/`` holds one raw file per variable and
``manifest.json``, which is written last: dtype, shape, size and CRC-32 of each file.
The manifest also has a hash of itself. Values are read from and written to the
variables in place, without a second copy in memory. A replay is complete before the one
before is removed. Nothing here is pickled.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfagents_batch.errors import SaveError, UserError
from tfagents_batch.training.run_folder import files

SCHEMA = 1
_CHUNK = 1 << 24  # bytes that are read or written at once
# Integers that become int64 on a GPU; uint8 does not.
_INTEGERS = "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"


def save(
    run_folder: str | os.PathLike, step: int, variables: Mapping[str, tf.Variable]
) -> None:
    """Write the variables of a replay, then remove older ones."""
    folder = Path(run_folder) / "replay"
    try:
        files.sweep(folder)  # room for the new one
        with files.replacing(files.step_folder(folder, step)) as temporary:
            written = {
                name: _write(temporary / f"{index:03d}.bin", variable)
                for index, (name, variable) in enumerate(sorted(variables.items()))
            }
            manifest = {"schema": SCHEMA, "step": step, "variables": written}
            files.write_manifest(temporary, manifest)
    except OSError as error:
        raise SaveError(
            f"the replay of step {step} could not be saved in {folder}: {error}"
        ) from error
    for other in steps(run_folder):
        if other != step:
            files.remove(files.step_folder(folder, other))


def newest(run_folder: str | os.PathLike, step: int) -> int | None:
    """Return the step of the replay for weights of a step; None if there is none.

    It is the newest that is not newer than the weights, otherwise the newest.
    """
    saved = steps(run_folder)
    return max([x for x in saved if x <= step] or saved, default=None)


def steps(run_folder: str | os.PathLike) -> list[int]:
    """Return the steps of all replays, ascending."""
    return files.steps(Path(run_folder) / "replay")


def size(variables: Mapping[str, tf.Variable]) -> int:
    """Return the bytes of the variables of a replay."""
    return sum(x.shape.num_elements() * x.dtype.size for x in variables.values())


def load(
    run_folder: str | os.PathLike,
    step: int,
    variables: Mapping[str, tf.Variable],
    check: Callable[[Mapping[str, Any]], None] = lambda numbers: None,
) -> None:
    """Restore a replay: all of the given variables, or none.

    Args:
      run_folder, step: folder of the run, and step of the replay.
      variables: variables by name, or some of them, as they were saved. Integers may
        have another width.
      check: called with the saved numbers, ``{name: value}`` of the variables without
        axes, before anything is assigned; raises ValueError if they make no sense.

    Raises:
      UserError: if the replay is damaged, or the variables cannot hold it.
    """
    path = files.step_folder(Path(run_folder) / "replay", step)
    try:
        saved = _manifest(path, step)
        parts = [_check(path, name, saved[name], x) for name, x in variables.items()]
        numbers = {x.name: _number(x) for x in parts if not x.variable.shape.rank}
        check(numbers)
        for part in parts:
            if part.variable.shape.rank:
                _read(part)
            else:
                part.variable.assign(numbers[part.name])
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise UserError(
            f"the replay in {path} cannot be used ({type(error).__name__}: {error}); "
            "remove this folder to continue with an empty replay"
        ) from error


class _Saved(NamedTuple):
    """A file that was checked."""

    path: Path  # the file
    dtype: tf.DType  # dtype of its values
    name: str  # name of the variable
    variable: tf.Variable  # the variable, which may hold integers of another width


def _manifest(folder: Path, step: int) -> dict[str, Any]:
    """Return the variables in a manifest, after checking the rest of it."""
    manifest = files.read_manifest(folder, step)
    if manifest["schema"] != SCHEMA:
        raise ValueError(
            "another version of tfagents_batch wrote it, in format "
            f"{manifest['schema']}; this version reads {SCHEMA}"
        )
    return manifest["variables"]


def _write(path: Path, variable: tf.Variable) -> dict[str, Any]:
    """Write the values of a variable; return its line of the manifest."""
    value = variable.read_value()
    data = memoryview(value).cast("B") if value.shape.num_elements() else b""
    crc = 0
    with open(path, "xb") as file:
        for start in range(0, len(data), _CHUNK):
            part = data[start : start + _CHUNK]
            crc = zlib.crc32(part, crc)
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
    return {
        "file": path.name,
        "dtype": variable.dtype.name,
        "shape": variable.shape.as_list(),
        "size": len(data),
        "crc32": crc,
    }


def _check(
    folder: Path, name: str, known: Mapping[str, Any], variable: tf.Variable
) -> _Saved:
    """Raise a ValueError if a file is damaged, or its variable cannot hold it."""
    dtype, shape = variable.dtype.name, variable.shape.as_list()
    if known["shape"] != shape or not fits(known["dtype"], dtype):
        raise ValueError(
            f"{name} is {known['dtype']} {known['shape']}; expected {dtype} {shape}"
        )
    if not re.fullmatch(r"\d+\.bin", known["file"]):
        raise ValueError(f"{name} has the file {known['file']!r}")
    saved = _Saved(folder / known["file"], tf.as_dtype(known["dtype"]), name, variable)
    crc, size = 0, variable.shape.num_elements() * saved.dtype.size
    with files.open_to_read(saved.path) as file:
        same = known["size"] == os.fstat(file.fileno()).st_size == size
        while same and (part := file.read(_CHUNK)):
            crc = zlib.crc32(part, crc)
    if not same or crc != known["crc32"]:
        raise ValueError(f"{known['file']} has changed")
    if variable.shape.rank and saved.dtype != variable.dtype:
        for _ in _parts(saved):  # before anything is assigned
            pass
    return saved


def _number(saved: _Saved) -> Any:
    """Return the value of a file of a variable without axes."""
    data = np.frombuffer(files.read(saved.path), saved.dtype.as_numpy_dtype)
    return cast(data, saved.variable.dtype.as_numpy_dtype, saved.name)[0]


def _read(saved: _Saved) -> None:
    """Assign the values of a file to its variable, a part at a time."""
    for start, part in _parts(saved):
        # In place, which the assignment of a slice is not.
        places = tf.range(start, start + len(part))
        saved.variable.scatter_update(tf.IndexedSlices(part, places))


def _parts(saved: _Saved) -> Iterator[tuple[int, np.ndarray]]:
    """Yield rows of a file as its variable holds them, and the index of the first."""
    dtype, shape = saved.dtype.as_numpy_dtype, saved.variable.shape.as_list()
    size, count = shape[0], int(np.prod(shape[1:], dtype=int))
    assert size is not None
    most = max(1, _CHUNK // max(count * saved.dtype.size, 1))
    with files.open_to_read(saved.path) as file:
        for start in range(0, size, most):
            rows = min(most, size - start)
            part = np.fromfile(file, dtype, rows * count).reshape([rows, *shape[1:]])
            wanted = saved.variable.dtype.as_numpy_dtype
            yield start, cast(part, wanted, saved.name)


def fits(saved: str, wanted: str) -> bool:
    """Return whether values of a saved dtype, by its name, can be read into a variable.

    Variables of a GPU hold integers as int64, see ``graph.state``, those of the host as
    they are. A run may be saved on one and continue on the other.
    """
    return saved == wanted or (saved in _INTEGERS and wanted in _INTEGERS)


def cast(values: np.ndarray, dtype: type[np.generic], name: str) -> np.ndarray:
    """Return saved values, of a dtype that fits, with the dtype of a variable.

    Raises:
      ValueError: if the variable, which it names, cannot hold one of the values.
    """
    values = np.asarray(values)
    if values.dtype == dtype:
        return values
    converted = values.astype(dtype)
    # Compared as a GPU holds them, which is exact for uint64 too.
    lost = converted.astype(np.int64) != values.astype(np.int64)
    if lost.any():
        wanted = np.dtype(dtype).name
        raise ValueError(f"{name} has the value {values[lost][0]}; expected {wanted}")
    return converted
