"""Files with logged rows, and columns that some of them lack.

A row of JSON may leave a value out. A whole Parquet file without a column is more
likely of another program, or of another version of one.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tfagents_batch.errors import UserError
from tfagents_batch.offline.schema import ALIAS, NEEDED, PRESENCE, Mode, types

JSON = (".jsonl", ".ndjson", ".json")
PARQUET = (".parquet", ".pq")
COMPRESSED = (".gz", ".zst")
_FLAGS = ("terminated", "truncated")


class File(NamedTuple):
    """File as it was when its rows were opened."""

    path: Path
    size: int
    mtime_ns: int


def state(path: Path) -> File:
    """Return a file as it is now."""
    status = path.stat()
    return File(path, status.st_size, status.st_mtime_ns)


def check_unchanged(files: Iterable[File]) -> None:
    """Refuse files with another size or time of modification than when opened."""
    for file in files:
        try:
            now = state(file.path)
        except OSError:
            raise UserError(
                f"{file.path} was removed while it was read; read the rows again"
            ) from None
        if now != file:
            raise UserError(
                f"{file.path} changed while it was read: {file.size:,} bytes "
                f"became {now.size:,}; wait until it is complete, and read again"
            )


def check_outside(folder: Path, paths: Iterable[Path]) -> None:
    """Refuse a folder to write to that holds a path that is read, or lies in one.

    Hidden files and folders, which are not read as rows, may lie in the other one.
    """
    written = folder.expanduser().resolve()
    for path in paths:
        read = path.expanduser().resolve()
        if read.is_relative_to(written) and not _is_hidden(read.relative_to(written)):
            raise UserError(
                f"--output={folder} holds {path}, which is read: rows could be lost, "
                "and others would lie among them; pass a folder without rows"
            )
        if written.is_relative_to(read) and not _is_hidden(written.relative_to(read)):
            raise UserError(
                f"--output={folder} lies in {path}, which is read: what is "
                "written would be read as well the next time; pass a folder beside it"
            )


def find(data: Any) -> list[Path] | None:
    """Return the files of a path, a glob, a folder or a list of them; None for others.

    In a folder, files and folders whose names begin with a dot or an underscore are
    left out: they are being written. Links to folders are followed. UserError if there
    is no file, or if one is of an unknown kind or cannot be read.
    """
    if (paths := _paths(data)) is None:
        return None
    return list(dict.fromkeys(file for path in paths for file in _files(path)))


def notices(data: Any) -> list[str]:
    """Return a line on the files of folders that are left out, if there are some."""
    folders = [x for path in _paths(data) or () for x in matches(path) if x.is_dir()]
    others = [x for folder in folders for x in below(folder) if not kind(x)]
    if not others:
        return []
    text = "no files of rows, which are left out"
    return [f"{text}: {len(others):,}, such as {others[0]}"]


def below(folder: Path) -> list[Path]:
    """Return all files below a folder that are not hidden, sorted.

    Each folder is read once, by its own name rather than by that of a link. UserError
    if a link leads nowhere, a folder cannot be read, or rows are in no regular file.
    """
    paths: list[Path] = []
    seen, waiting = set(), [str(folder)]
    while waiting:
        links = []
        for top in waiting:
            for here, folders, names in os.walk(top, onerror=_refuse):
                folders[:] = [x for x in folders if not _is_hidden(Path(x))]
                if (real := os.path.realpath(here)) in seen:
                    folders.clear()
                    continue
                seen.add(real)
                links += [
                    x for name in folders if os.path.islink(x := f"{here}/{name}")
                ]
                paths += [Path(here, x) for x in names if not _is_hidden(Path(x))]
        waiting = links
    for path in paths:
        _check_link(path)
        if kind(path) and not path.is_file():
            raise UserError(
                f"{path} is no regular file; remove it, or begin its name with an "
                "underscore to leave it out"
            )
    return sorted(paths)


def kind(path: Path) -> str:
    """Return the suffix that says how a file is read, such as ``.jsonl``."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        return suffixes[-2] if suffixes[-2:-1] and suffixes[-2] in JSON else ""
    return suffixes[-1] if suffixes and suffixes[-1] in JSON + PARQUET else ""


def _paths(data: Any) -> list[Path] | None:
    """Return the paths and globs that were given; None if something else was."""
    if isinstance(data, (str, Path)):
        data = [data]
    is_list = isinstance(data, (list, tuple)) and data
    if not is_list or not all(isinstance(path, (str, Path)) for path in data):
        return None
    return [Path(path).expanduser() for path in data]


def matches(path: Path) -> list[Path]:
    """Return a path, or what it matches as a glob, without hidden folders."""
    if os.path.lexists(path):
        return [path]
    paths = sorted(Path(x) for x in glob.glob(str(path), recursive=True))
    return [x for x in paths if not (x.is_dir() and _is_hidden(Path(x.name)))]


def _files(path: Path) -> list[Path]:
    """Return the files of a path, a glob or a folder."""
    files = []
    for match in matches(path):
        _check_link(match)
        if match.is_dir():
            files += [x for x in below(match) if kind(x)]
        else:
            files.append(match)
    if not files:
        what = "has no files of rows" if path.is_dir() else "does not exist"
        raise UserError(
            f"{path} {what}; expected a file, a folder or a glob of "
            f"{', '.join(JSON + PARQUET)} files"
        )
    for file in files:
        if not kind(file):
            raise UserError(
                f"{file} is no file of rows; expected one of {', '.join(JSON)} (also "
                f"with {' or '.join(COMPRESSED)}) or {', '.join(PARQUET)}; of another "
                "table, such as a CSV file, make rows by tfagents-batch convert"
            )
    return files


def _check_link(path: Path) -> None:
    """Refuse a link that leads nowhere, whose rows would be missing."""
    if path.is_symlink() and not path.exists():
        raise UserError(
            f"{path} is a link to {os.readlink(path)}, which does not exist; bring it "
            "back, or remove the link"
        )


def _refuse(error: OSError) -> None:
    raise UserError(f"{error.filename} cannot be read: {error.strerror}") from error


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def absent_columns(
    paths: Sequence[Path],
    mode: Mode,
    extra: Sequence[str],
    has: Callable[[str], bool],
) -> list[str]:
    """Return a line on each column that some of the Parquet files lack.

    Columns that every row needs are left to the check of the rows. UserError if some
    lack a flag of ends that others have, or rows of JSON: their episodes would end in
    another way. Also if some have lists of numbers without the flags of presence that
    others have. ``has`` says whether any row has a value in a column.
    """
    tables = [path for path in paths if kind(path) in PARQUET]
    columns = {path: _columns(path) for path in tables}
    _check_presence(columns)
    lines = []
    for name in [*(types(mode).keys() - {*NEEDED}), *extra]:
        lack = [path for path in tables if name not in columns[path]]
        if not lack:
            continue
        some = f"{len(lack):,} of {len(tables):,} Parquet files, such as {lack[0]}"
        in_rows = ""
        if len(lack) == len(tables):
            if name not in _FLAGS or len(tables) == len(paths) or not has(name):
                continue
            in_rows = ", which rows of JSON have"
        if name in _FLAGS:
            raise UserError(
                f"{some}, has no column {name}{in_rows}, so its episodes would end in "
                "another way; add the column, with NULL where it is not known, or read "
                "the files apart"
            )
        lines.append(f"column {name} is missing in {some}; it is NULL there")
    return sorted(lines)


def _check_presence(columns: Mapping[Path, set[str]]) -> None:
    """Refuse lists of numbers that have flags of presence in some files only."""
    for name in {x for names in columns.values() for x in names}:
        if not name.endswith(PRESENCE):
            continue
        of = name.removesuffix(PRESENCE)
        lack = [x for x, names in columns.items() if of in names and name not in names]
        lack = [path for path in lack if _is_list(_schema(path), of)]
        if lack:
            raise UserError(
                f"{len(lack):,} of {len(columns):,} Parquet files, such as {lack[0]}, "
                f"has no column {name}, so what fills the gaps of {of} would count as "
                "values; add the column, or read the files apart"
            )


def _is_list(schema: Any, name: str) -> bool:
    from pyarrow import types as kinds

    if name not in schema.names:  # it has the old name
        return False
    kind = schema.field(name).type
    is_list = kinds.is_list(kind) or kinds.is_large_list(kind)
    is_list |= kinds.is_fixed_size_list(kind)
    return is_list and not kinds.is_struct(kind.value_type)  # pairs of a map


def _columns(path: Path) -> set[str]:
    names = {*_schema(path).names}
    return names | {"action_probability"} if ALIAS in names else names


def _schema(path: Path) -> Any:
    from pyarrow import parquet  # needs an extra

    return parquet.read_schema(path)
