"""The replay of a run, in files of its own that are streamed to and from the disk.

``<run>/replay/step-000000012345/`` holds one raw file per variable and
``manifest.json``, which is written last: dtype, shape, size and CRC-32 of each file.
Values are read from and written to the variables in place, without a second copy in
memory. The newest replay replaces the one before. Nothing here is pickled.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfagents_batch.errors import SaveError, UserError
from tfagents_batch.training.run_folder import files

SCHEMA = 1
_STEP = re.compile(r"step-(\d{12,})")
_CHUNK = 1 << 24  # bytes that are read or written at once


def save(
    run_folder: str | os.PathLike, step: int, variables: Mapping[str, tf.Variable]
) -> None:
    """Write the variables of a replay, then remove older ones.

    Args:
      run_folder: folder of the run.
      step: environment steps so far.
      variables: variables by name.

    Raises:
      SaveError: if they could not be written, such as on a full disk.
    """
    folder = Path(run_folder) / "replay"
    target = folder / f"step-{step:012d}"
    temporary = folder / f"{target.name}.tmp-{os.getpid()}"
    try:
        folder.mkdir(exist_ok=True)
        # What a killed process left unfinished, and this step if it is saved again.
        for path in [*folder.glob("step-*.tmp-*"), target]:
            shutil.rmtree(path, ignore_errors=True)
        temporary.mkdir()
        written = {
            name: _write(temporary / f"{index:03d}.bin", variable)
            for index, (name, variable) in enumerate(sorted(variables.items()))
        }
        manifest = {"schema": SCHEMA, "step": step, "variables": written}
        text = json.dumps(manifest, indent=1) + "\n"
        files.write_durable(temporary / "manifest.json", text.encode())
        files.sync(temporary)
        os.rename(temporary, target)
        files.sync(folder)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise SaveError(
            f"the replay of step {step} could not be saved in {folder}: {error}"
        ) from error
    for other in _steps(folder):
        if other != step:
            shutil.rmtree(folder / f"step-{other:012d}", ignore_errors=True)


def newest(run_folder: str | os.PathLike, step: int) -> int | None:
    """Return the step of the newest replay that is not newer than a step, or None."""
    found = [each for each in _steps(Path(run_folder) / "replay") if each <= step]
    return found[-1] if found else None


def size(variables: Mapping[str, tf.Variable]) -> int:
    """Return the bytes of the variables of a replay."""
    return sum(x.shape.num_elements() * x.dtype.size for x in variables.values())


def load(
    run_folder: str | os.PathLike, step: int, variables: Mapping[str, tf.Variable]
) -> None:
    """Restore a replay: all of the given variables, or none.

    Args:
      run_folder: folder of the run.
      step: step of the replay.
      variables: variables by name, or some of them, as they were saved.

    Raises:
      UserError: if the replay is damaged or does not fit the variables.
    """
    path = Path(run_folder) / "replay" / f"step-{step:012d}"
    try:
        saved = json.loads(files.read(path / "manifest.json"))["variables"]
        for name, variable in variables.items():
            _check(path, name, saved[name], variable)
        for name, variable in variables.items():
            _read(path / saved[name]["file"], variable)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"the replay in {path} cannot be used ({type(error).__name__}: {error}); "
            "remove this folder to continue with an empty replay"
        ) from error


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
) -> None:
    """Raise a ValueError if a file is damaged or belongs to another variable."""
    saved, wanted = (known["dtype"], known["shape"]), _kind(variable)
    if saved != wanted:
        raise ValueError(f"{name} is {saved}; expected {wanted}")
    if not re.fullmatch(r"\d+\.bin", known["file"]):
        raise ValueError(f"{name} has the file {known['file']!r}")
    crc = size = 0
    with os.fdopen(
        files.open_regular(folder / known["file"], os.O_RDONLY), "rb"
    ) as file:
        while part := file.read(_CHUNK):
            crc, size = zlib.crc32(part, crc), size + len(part)
    if (size, crc) != (known["size"], known["crc32"]):
        raise ValueError(f"{known['file']} has changed")


def _kind(variable: tf.Variable) -> tuple[str, list[int]]:
    return variable.dtype.name, variable.shape.as_list()


def _read(path: Path, variable: tf.Variable) -> None:
    """Assign the values of a file to a variable, a part at a time."""
    dtype, shape = variable.dtype.as_numpy_dtype, variable.shape.as_list()
    if not shape:
        variable.assign(np.fromfile(path, dtype)[0])
        return

    @tf.function(jit_compile=True, autograph=False)
    def write(start, rows):  # in place, which the assignment of a slice is not
        places = start + tf.range(rows.shape[0])
        variable.scatter_update(tf.IndexedSlices(rows, places))

    count = int(np.prod(shape[1:], dtype=int))
    each = max(1, _CHUNK // max(count * np.dtype(dtype).itemsize, 1))
    with open(path, "rb") as file:
        for start in range(0, shape[0], each):
            rows = min(each, shape[0] - start)
            part = np.fromfile(file, dtype, rows * count).reshape([rows, *shape[1:]])
            write(tf.constant(start), tf.constant(part))


def _steps(folder: Path) -> list[int]:
    """Return the steps of all replays, ascending."""
    if not folder.is_dir():
        return []
    matches = (_STEP.fullmatch(path.name) for path in folder.iterdir())
    return sorted(int(match[1]) for match in matches if match)
