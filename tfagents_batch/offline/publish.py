"""Replacing a folder of a table as a whole, so that no reader sees half of it."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from tfagents_batch.errors import SaveError, UserError, first_line

_HERE, _SWAP = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
_OLD = "-old"


def partition(output: Path, ds: str) -> Path:
    """Return the folder of a partition: ``<output>/ds=2026-01-01``."""
    return output / f"ds={quote(ds, safe=' :+,;@')}"


@contextlib.contextmanager
def staging(target: Path) -> Iterator[Path]:
    """Yield an empty folder beside ``target`` that replaces it at the end.

    If the block raises, or the process is killed in it, ``target`` is unchanged. What
    killed processes left behind is removed at the next start.

    Raises:
      UserError: if another process is writing to the same table.
      SaveError: if a file cannot be written.
    """
    output = target.parent
    try:
        output.mkdir(parents=True, exist_ok=True)
        with _only_writer(output):
            _tidy(output)
            staged = output / f".{target.name}-{os.getpid()}"
            staged.mkdir()
            try:
                yield staged
                _sync(staged)
                replace(staged, target)
                _sync_folder(output)
            finally:
                shutil.rmtree(staged, ignore_errors=True)
    except SaveError:
        raise
    except OSError as error:
        raise SaveError(f"{output} cannot be written: {error}") from error


@contextlib.contextmanager
def folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces ``target`` at the end; if the block raises,
    ``target`` is unchanged.

    Raises:
      SaveError: if a file cannot be written.
    """
    staged = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
    try:
        staged.mkdir(parents=True)
        yield staged
        replace(staged, target)
    except SaveError:
        raise
    except OSError as error:
        raise SaveError(f"{target} cannot be written: {first_line(error)}") from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def replace(staged: Path, target: Path) -> None:
    """Put a folder in the place of another, whose files are removed."""
    if not target.exists():
        staged.rename(target)
    elif _swap(staged, target):
        shutil.rmtree(staged)  # the old files
    else:  # ``_tidy`` completes this if the process is killed between the two
        old = target.with_name(f".{target.name}{_OLD}")
        target.rename(old)
        staged.rename(target)
        shutil.rmtree(old)


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


@contextlib.contextmanager
def _only_writer(output: Path) -> Iterator[None]:
    """Hold the lock of a table; the system releases it if the process is killed."""
    with (output / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"another process is writing to {output}; wait for it, or pass another "
                "--output"
            ) from None
        yield


def _tidy(output: Path) -> None:
    """Remove what killed processes left, and finish what they were replacing."""
    for left in output.glob(".ds=*"):
        target = output / left.name[1:].removesuffix(_OLD)
        if left.name.endswith(_OLD) and not target.exists():
            left.rename(target)
        else:
            shutil.rmtree(left)


def _sync(folder: Path) -> None:
    """Write the files of a folder, and its list of files, to the disk."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
