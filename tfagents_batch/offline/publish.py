"""Replacing files and folders as a whole, so that no reader sees half of them.

What is being written is beside its target, under a hidden name that readers leave out.
If the process is killed, the next one that replaces the same target removes it. So does
the next process with a ``Scratch`` folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gzip
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tfagents_batch import locks
from tfagents_batch.errors import UserError, saving

_HERE, _SWAP = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
_NEW, _OLD = ".tmp", ".old"
_PREFIX = "tfagents_rows_"
_LOCK = ".lock"  # the system releases it if the process is killed

Check = Callable[[Path], None]  # of a folder that is replaced


def partition(output: Path, ds: str) -> Path:
    """Return the folder of a partition: ``<output>/ds=2026-01-01``."""
    return output / f"ds={quote(ds, safe=' :+,;@')}"


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Wait until no other process is in such a context with the same lock file."""
    with path.open("a") as opened:
        locks.lock(opened, wait=True)
        yield


@contextlib.contextmanager
def staging(target: Path, check: Check) -> Iterator[Path]:
    """Yield an empty folder that replaces a partition at the end, see ``folder``.

    What killed processes left in the table is removed. UserError if another process is
    writing to the same table.
    """
    output = target.parent
    with saving(output):
        output.mkdir(parents=True, exist_ok=True)
        with (output / _LOCK).open("a") as opened:
            try:
                locks.lock(opened)
            except BlockingIOError:
                raise UserError(
                    f"another process is writing to {output}; wait for it, or pass "
                    "another --output"
                ) from None
            _tidy(output, "ds=.+")
            with folder(target, check) as staged:
                yield staged


@contextlib.contextmanager
def folder(target: Path, check: Check) -> Iterator[Path]:
    """Yield an empty folder that replaces ``target`` at the end.

    If the block raises, or the process is killed in it, ``target`` is unchanged. It
    raises a SaveError if a file cannot be written. ``check`` is called with ``target``
    directly before it is replaced, as others may have written there in the meantime; it
    raises a UserError if the folder has what would be lost.
    """
    target = target.absolute()  # "." has no name
    with saving(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary(target.parent, target.name) as staged:
            yield staged
            _sync_files(staged)
            check(target)
            replace(staged, target)
            sync(target.parent)


@contextlib.contextmanager
def temporary(parent: Path, name: str) -> Iterator[Path]:
    """Yield an empty folder ``.<name>-<random>.tmp``, which is removed at the end.

    Those of the same name that killed processes left behind are removed first. A folder
    is locked while its process lives.
    """
    _tidy(parent, re.escape(name))
    while True:
        staged = _hidden(parent / name, _NEW)
        staged.mkdir()
        lock = _lock(staged, wait=True)
        if staged.exists():  # else another process has taken it for an abandoned one
            break
        _unlock(lock)
    try:
        yield staged
    finally:
        shutil.rmtree(staged, ignore_errors=True)
        _unlock(lock)


def file(path: Path, data: bytes) -> None:
    """Write a file as a whole; a device or a pipe is written to.

    SaveError if it cannot be written; an earlier file is unchanged then.
    """
    with saving(path):
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        path = Path(os.path.realpath(path))  # a link stays, and its file is replaced
        with temporary(path.parent, path.name) as staged:
            (staged / path.name).write_bytes(data)
            _sync_files(staged)
            (staged / path.name).replace(path)
            sync(path.parent)


def check_only(target: Path, names: Collection[str], writer: str, sign: str) -> None:
    """Refuse to replace a folder with other files than those of a writer.

    Args:
      target: the folder; it may be missing.
      names: of the writer's files; of links and folders none is.
      writer: what writes them, for the error.
      sign: file without which no other one is the writer's.
    """
    if target.is_symlink():
        raise UserError(f"{target} is a link; pass the folder that it leads to")
    if not target.exists():
        return
    others = {"a file"}
    if target.is_dir():
        entries = {x.name: x.is_file() and not x.is_symlink() for x in target.iterdir()}
        ours = names if sign in entries else ()
        others = {x for x, is_file in entries.items() if x not in ours or not is_file}
    if others:
        raise UserError(
            f"{target} has {', '.join(sorted(others)[:3])}, which no {writer} wrote; "
            "pass another folder as --output"
        )


def replace(staged: Path, target: Path) -> None:
    """Put a folder in the place of another, which gets its name if it exists."""
    if not target.exists():
        staged.rename(target)
    elif not _swap(staged, target):
        # ``_tidy`` completes this if the process is killed between the two.
        old, lock = _hidden(target, _OLD), _lock(target, wait=True)
        target.rename(old)
        staged.rename(target)
        old.rename(staged)
        _unlock(lock)


def _hidden(target: Path, suffix: str) -> Path:
    return target.with_name(f".{target.name}-{secrets.token_hex(4)}{suffix}")


def _swap(one: Path, other: Path) -> bool:
    """Exchange two folders at once; return False where the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if not rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _SWAP):
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))


def _tidy(parent: Path, name: str) -> None:
    """Remove what killed processes left in a folder, and finish what they replaced.

    ``name`` is the pattern of the names of what was replaced.
    """
    ours = re.compile(rf"\.({name})-[0-9a-f]{{8}}(\{_NEW}|\{_OLD})")
    for left in sorted(parent.iterdir()):
        match = ours.fullmatch(left.name)
        if match is None or left.is_symlink() or not left.is_dir():
            continue
        lock = _lock(left)
        if lock is None or not left.exists():  # its process lives, or has just ended
            _unlock(lock)
            continue
        target = parent / match[1]
        if match[2] == _OLD and not target.exists():
            left.rename(target)
        else:
            shutil.rmtree(left)
        _unlock(lock)


def _lock(folder: Path, wait: bool = False) -> int | None:
    """Lock a folder; return its descriptor, or None if that is not possible."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except (FileNotFoundError, PermissionError):  # Windows opens no folders
        return None
    try:
        locks.lock(descriptor, wait)
    except OSError:  # locked, or a file system that does not lock folders
        os.close(descriptor)
        return None
    return descriptor


def _unlock(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)


def _sync_files(folder: Path) -> None:
    """Write the files of a folder, and its list of files, to the disk."""
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: str | Path) -> dict[str, Any]:
    """Return the object of a JSON file, compressed if its name ends in ``.gz``."""
    path = Path(path)
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(f"{path} cannot be read: {why}") from None
    try:
        content = json.loads(text)
    except ValueError as error:
        raise UserError(f"{path} is no JSON: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} is {content!r:.80}; expected an object with keys")
    return content


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_text(text: str, path: str | Path) -> None:
    """Write a text as ``file`` does, compressed if the name ends in ``.gz``."""
    path, data = Path(path), text.encode()
    file(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


class Scratch:
    """Temporary folder with the path ``name``, locked by this process."""

    def __init__(self):
        remove_abandoned()
        self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX)
        self.name = self._folder.name
        new = Path(self.name, f"{_LOCK}-new")
        self._lock = new.open("w")
        locks.lock(self._lock)
        new.rename(new.with_name(_LOCK))  # others find it only when it is locked

    def close(self) -> None:
        """Remove the folder; may be called again."""
        self._folder.cleanup()
        self._lock.close()


def remove_abandoned() -> None:
    """Remove the folders that killed processes left behind."""
    if not locks.AVAILABLE:  # those in use would be removed
        return
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        # It is locked, of another user, or removed meanwhile.
        with contextlib.suppress(OSError), lock.open("r+") as file:
            locks.lock(file)
            shutil.rmtree(lock.parent)
