"""Parts of a partition: what its manifest says of each file, and whether it is true."""

from __future__ import annotations

import concurrent.futures
import functools
import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfagents_batch.errors import UserError, first_line

_NAME = re.compile(r"part-[\w-]+\.parquet")  # no name leads out of the folder
_AGAIN = "restore it from a copy, or make the timeline again"


def described(path: Path) -> dict[str, Any]:
    """Return what a manifest says of a file: its name, size, rows and SHA-256."""
    size = path.stat().st_size
    return {
        "name": path.name,
        "bytes": size,
        "rows": _rows(path),
        "sha256": _hash(path),
    }


def check(folder: Path, known: Mapping[str, Any]) -> None:
    """Check the files of a partition against its manifest, once in a process.

    Manifests of earlier versions have no SHA-256. Then only the sizes of the files and
    the number of all rows are checked.

    Raises:
      UserError: if a file is missing or was changed.
    """
    found = []
    for part in known["parts"]:
        path = folder / part["name"]
        try:
            status = path.stat()
        except OSError as error:
            raise UserError(f"{path} is missing ({error.strerror}); {_AGAIN}") from None
        if not path.is_file() or status.st_size != part["bytes"]:
            raise UserError(
                f"{path} has {status.st_size:,} bytes; expected a file of "
                f"{part['bytes']:,}, which the timeline wrote; {_AGAIN}"
            )
        found.append((str(path), status.st_mtime_ns, status.st_ino))
    _check(folder, tuple(found), json.dumps(known["parts"]), known["rows"])


@functools.lru_cache(maxsize=64)
def _check(
    folder: Path, files: tuple[tuple[str, int, int], ...], parts: str, rows: int
):
    """Check the contents of files; a file that has changed is another one here."""
    paths = [Path(path) for path, *_ in files]
    hashes = [part.get("sha256") for part in json.loads(parts)]
    given = [x for x in zip(paths, hashes, strict=True) if x[1] is not None]
    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
    try:
        for path, same in pool.map(lambda x: (x[0], _hash(x[0]) == x[1]), given):
            if not same:
                raise UserError(f"{path} has changed: its SHA-256 differs; {_AGAIN}")
    finally:
        pool.shutdown(cancel_futures=True)
    if (found := sum(map(_rows, paths))) != rows:
        raise UserError(
            f"{folder} has {found:,} rows; expected {rows:,}, which the timeline "
            f"wrote; {_AGAIN}"
        )


def are_valid(parts: Any) -> bool:
    """Return whether a manifest's list of parts has the form that we write."""
    return isinstance(parts, list) and all(
        isinstance(part, dict)
        and isinstance(part.get("bytes"), int)
        and isinstance(part.get("name"), str)
        and _NAME.fullmatch(part["name"])
        for part in parts
    )


def _rows(path: Path) -> int:
    import pyarrow
    from pyarrow import parquet

    try:
        return parquet.read_metadata(path).num_rows
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise UserError(f"{path} is damaged ({first_line(error)}); {_AGAIN}") from None


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
