"""Files of a run folder: read safely, and written completely or not at all.

A run folder may come from somebody else. So everything that is read from it is a
regular file of a bounded size: no link, and no pipe or device, which might never end.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from tfagents_batch.errors import UserError, saving

MOST = 1 << 24  # bytes of a small file, such as a config or a manifest
_REPLACE = "expected a regular file; replace or delete it"
# Folders under their temporary names, see ``publish`` and ``remove``.
_UNFINISHED = re.compile(r"step-\d{12,}\.(tmp|old)-\d+")
_STEP = re.compile(r"step-(\d{12,})")


def read(path: Path, most: int = MOST) -> bytes:
    """Read a regular file.

    Raises:
      UserError: if it is not a regular file, or has more than ``most`` bytes.
      OSError: if it cannot be read.
    """
    with open_to_read(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise UserError(
                f"{path} has more than {most:,} bytes; expected a file that training "
                "has written; replace or delete it"
            )
        return file.read(most)


def open_to_read(path: Path) -> BinaryIO:
    """Open a regular file for reading, see ``open_regular``."""
    return os.fdopen(open_regular(path, os.O_RDONLY), "rb")


def open_regular(path: Path, flags: int) -> int:
    """Open a regular file; refuse the links and pipes that a folder might contain.

    Returns:
      A descriptor; ``flags`` are those of ``os.open``.

    Raises:
      UserError: if the path is not a regular file; it is not changed.
      OSError: if the file cannot be opened.
    """
    safe = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags | safe, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UserError(f"{path} is a symbolic link; {_REPLACE}") from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(f"{path} is not a regular file; {_REPLACE}")
    return descriptor


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a small file completely, or not at all.

    Raises:
      SaveError: if it cannot be written.
    """
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    with saving(path):
        try:
            data = content.encode() if isinstance(content, str) else content
            temporary.unlink(missing_ok=True)  # of a killed process with the same id
            write_durable(temporary, data)
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        sync(path.parent)


def write_durable(path: Path, data: bytes) -> None:
    """Write a new file and wait until it is on the disk."""
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of names, is on the disk."""
    if os.name == "nt" and path.is_dir():  # folders cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def step_folder(parent: Path, step: int) -> Path:
    """Return the folder of a step, see ``steps``."""
    return parent / f"step-{step:012d}"


def steps(parent: Path) -> list[int]:
    """Return the steps of all folders with a final name, ascending."""
    if not parent.is_dir():
        return []
    names = os.listdir(parent)
    return sorted(int(match[1]) for name in names if (match := _STEP.fullmatch(name)))


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield a folder that takes its final name at the end; after an error, remove it.

    The parent is created if it is missing.
    """
    temporary = _temporary_name(target)
    if not target.parent.is_dir():
        target.parent.mkdir()
        sync(target.parent.parent)
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        yield temporary
        publish(temporary, target)
    except Exception:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write ``manifest.json`` with its own hash, as the last file of a folder."""
    manifest = manifest | {"sha256": self_hash(manifest)}
    text = json.dumps(manifest, indent=1, sort_keys=True, allow_nan=False) + "\n"
    write_durable(folder / "manifest.json", text.encode())
    sync(folder)


def read_manifest(folder: Path, step: int) -> dict[str, Any]:
    """Return the manifest of a step's folder.

    Raises:
      ValueError: if it cannot be read, has changed or belongs to another step.
    """
    try:
        manifest = json.loads(read(folder / "manifest.json"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"manifest.json cannot be read: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("sha256") != self_hash(manifest):
        raise ValueError("manifest.json has changed")
    if manifest.get("step") != step:
        raise ValueError(f"manifest.json belongs to step {manifest.get('step')}")
    return manifest


def publish(temporary: Path, target: Path) -> None:
    """Give a complete folder its final name; it replaces an older one at once.

    The older folder exists until the new one has its name, see ``sweep``.
    """
    old = target.with_name(f"{target.name}.old-{os.getpid()}")
    replaced = os.path.lexists(target)
    if replaced:
        shutil.rmtree(old, ignore_errors=True)
        os.rename(target, old)
    try:
        os.rename(temporary, target)
    except OSError:
        if replaced:
            os.rename(old, target)
        raise
    sync(target.parent)
    if replaced:
        shutil.rmtree(old, ignore_errors=True)


def remove(folder: Path) -> None:
    """Remove a folder; an interrupted removal must not look like damage."""
    renamed = _temporary_name(folder)
    with contextlib.suppress(OSError):
        os.rename(folder, renamed)
        shutil.rmtree(renamed)


def sweep(parent: Path) -> None:
    """Remove leftovers of killed processes from a folder of published folders.

    A process that died while it replaced a folder may have renamed the old one. Its
    name is restored if the new one is missing.
    """
    for path in sorted(parent.glob("step-*")):
        match = _UNFINISHED.fullmatch(path.name)
        target = path.with_name(path.name.partition(".")[0])
        if match and match[1] == "old" and not target.exists():
            path.rename(target)
        elif match:
            shutil.rmtree(path, ignore_errors=True)


def _temporary_name(target: Path) -> Path:
    return target.with_name(f"{target.name}.tmp-{os.getpid()}")


def self_hash(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a manifest without its entry ``sha256``."""
    content = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
