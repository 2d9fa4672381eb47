"""Files with logged rows."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tfagents_batch.errors import UserError

JSON = (".jsonl", ".ndjson", ".json")
PARQUET = (".parquet", ".pq")
COMPRESSED = (".gz", ".zst")


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
    """Check that files are as they were when they were opened.

    Raises:
      UserError: if a file has another size or time of modification, or is gone.
    """
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
    """Check that a folder that is written to, and what is read, are apart.

    Hidden files and folders, which are not read as rows, may lie in the other one.

    Args:
      folder: folder that is written to.
      paths: files and folders that are read.

    Raises:
      UserError: if the folder holds one of the paths, or lies in one.
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
    left out: they are being written. Links to folders are followed.

    Raises:
      UserError: if there is none, or if one is of an unknown kind or cannot be read.
    """
    if (paths := _paths(data)) is None:
        return None
    return list(dict.fromkeys(file for each in paths for file in _files(each)))


def notices(data: Any) -> list[str]:
    """Return a line on the files of folders that are left out, if there are some."""
    folders = [x for each in _paths(data) or () for x in _matches(each) if x.is_dir()]
    found = [x for folder in folders for x in below(folder) if not kind(x)]
    if not found:
        return []
    return [f"no files of rows, which are left out: {len(found):,}, such as {found[0]}"]


def below(folder: Path) -> list[Path]:
    """Return all files below a folder that are not hidden, sorted.

    Each folder is read once, by its own name rather than by that of a link.

    Raises:
      UserError: if a link leads nowhere, a folder cannot be read, or a file of rows is
        no regular file.
    """
    found: list[Path] = []
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
                found += [Path(here, x) for x in names if not _is_hidden(Path(x))]
        waiting = links
    for path in found:
        _check_link(path)
        if kind(path) and not path.is_file():
            raise UserError(
                f"{path} is no regular file; remove it, or begin its name with an "
                "underscore to leave it out"
            )
    return sorted(found)


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
    if not is_list or not all(isinstance(each, (str, Path)) for each in data):
        return None
    return [Path(each).expanduser() for each in data]


def _matches(path: Path) -> list[Path]:
    """Return a path, or what it matches as a glob, without hidden folders."""
    if os.path.lexists(path):
        return [path]
    found = sorted(Path(x) for x in glob.glob(str(path), recursive=True))
    return [x for x in found if not (x.is_dir() and _is_hidden(Path(x.name)))]


def _files(path: Path) -> list[Path]:
    """Return the files of a path, a glob or a folder."""
    found = []
    for each in _matches(path):
        _check_link(each)
        if each.is_dir():
            found += [x for x in below(each) if kind(x)]
        else:
            found.append(each)
    if not found:
        what = "has no files of rows" if path.is_dir() else "does not exist"
        raise UserError(
            f"{path} {what}; expected a file, a folder or a glob of "
            f"{', '.join(JSON + PARQUET)} files"
        )
    for file in found:
        if not kind(file):
            raise UserError(
                f"{file} is no file of rows; expected one of {', '.join(JSON)} (also "
                f"with {' or '.join(COMPRESSED)}) or {', '.join(PARQUET)}; of another "
                "table, such as a CSV file, make rows by tfagents-batch convert"
            )
    return found


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
