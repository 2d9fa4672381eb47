"""Run folders: made exclusively, opened with clear errors, locked while in use.

A run is ``<logdir>/<time>-<name>-s<seed>[-k]``. It holds ``config.json`` (what was
asked for), ``run.json`` (what it ran on, and from which code), ``run.lock``,
``metrics.jsonl``, TensorBoard events and ``checkpoints/``. Paths inside a run are
relative: a moved run still opens.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import os
import platform
import re
import shutil
import socket
import stat
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import tfagents_batch
from tfagents_batch.errors import SaveError, UserError

try:
    import fcntl
except ImportError:  # Windows has no flock: runs are not locked there
    fcntl = None

PACKAGES = ("tensorflow", "keras", "gymnasium", "numpy")
# Key of ``run.json``, and event: whose agent a run began with, see ``inherit``.
STARTED_FROM = "started_from"
_REPLACE = "expected the file itself; put it there, or delete what is there"
_MAX_NAME = 100  # characters; file systems allow 255 bytes a folder name


class Run(NamedTuple):
    """An existing run.

    Attributes:
      folder: absolute path.
      config_text: the JSON text of ``config.json``.
    """

    folder: Path
    config_text: str


def create(
    logdir: str | os.PathLike,
    name: str,
    seed: int,
    config_text: str,
    now: datetime.datetime | None = None,
    facts: dict | None = None,
) -> Path:
    """Make a new run folder with its ``config.json`` and ``run.json``.

    Args:
      logdir: root of the runs; made if missing, ``~`` is expanded.
      name: of the preset, algorithm or environment; what a folder name should not
        hold (the slash of ``ALE/Pong-v5``) becomes ``-``.
      seed: of the run.
      config_text: JSON text of the resolved config.
      now: local time in the folder's name; the present if None.
      facts: JSON-able, more to remember in ``run.json``.

    Returns:
      Absolute path of the folder, which did not exist before.

    Raises:
      UserError: if ``logdir`` cannot hold folders.
      SaveError: if the files cannot be written; no folder is left then.
    """
    now = now or datetime.datetime.now().astimezone()
    root = Path(logdir).expanduser().absolute()
    clean = re.sub(r"[^\w.+-]+", "-", name)[:_MAX_NAME].strip("-.") or "run"
    stem = f"{now:%Y%m%dT%H%M%S}-{clean}-s{seed}"
    folder = _make_unique(root, stem)
    known = {"started": now.isoformat(timespec="seconds"), **platform_facts()}
    known |= facts or {}
    try:
        write_atomic(folder / "run.json", json.dumps(known, indent=2) + "\n")
        write_atomic(folder / "config.json", config_text)
        with _saving(folder):
            sync(root)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def open_run(path: str | os.PathLike) -> Run:
    """Find a run on disk, wherever it was moved to.

    Args:
      path: of the run folder, absolute or relative; ``~`` is expanded.

    Raises:
      UserError: if this is no run folder, saying what it is and what to pass.
    """
    folder = Path(path).expanduser().absolute()
    config = folder / "config.json"
    if config.is_file():
        return Run(folder, _read_config(config))
    if not folder.exists():
        beside = list_runs(folder.parent)
        hint = f"; the newest run beside it is {beside[-1]}" if beside else ""
        raise UserError(f"run folder {path} does not exist{hint}")
    for owner in folder.parents[:2]:  # a file of a run, or a checkpoint
        if (owner / "run.json").is_file() and (owner / "config.json").is_file():
            raise UserError(f"{path} lies inside a run; pass the run folder {owner}")
    if not folder.is_dir():
        raise UserError(f"{path} is a file; pass the run folder")
    if (folder / "run.json").is_file():
        raise UserError(
            f"run folder {path} has lost its config.json, or making it was "
            "interrupted; copy the file back or train anew"
        )
    runs = list_runs(folder)
    if runs:
        names = ", ".join(run.name for run in runs[-5:])
        more = f" and {len(runs) - 5} older" if len(runs) > 5 else ""
        raise UserError(
            f"{path} holds runs but is none itself; pass one of them, for example the "
            f"newest, {runs[-1]} (found {names}{more})"
        )
    raise UserError(
        f"{path} is no run folder: it has no config.json; pass the folder that "
        "training printed at its end"
    )


def facts(folder: str | os.PathLike) -> dict:
    """What ``run.json`` of a run remembers; nothing if it was lost."""
    try:
        told = json.loads((Path(folder) / "run.json").read_text())
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def list_runs(logdir: Path) -> list[Path]:
    """Run folders directly in ``logdir``, oldest first."""

    def age(folder: Path) -> tuple[str, int]:
        stamp = folder.name.partition("-")[0]  # runs of one second: by file time
        return stamp, (folder / "config.json").stat().st_mtime_ns

    try:
        found = [p for p in logdir.iterdir() if (p / "config.json").is_file()]
        return sorted(found, key=age)
    except OSError:
        return []


@contextlib.contextmanager
def lock(run: Run | str | os.PathLike) -> Iterator[None]:
    """Hold a run for writing; nobody else can while the context is open.

    The lock is the kernel's (``flock`` on ``run.lock``), so that of a process that
    died is free. The file's content only says who holds it.

    Raises:
      UserError: if another process holds it, naming it, or if the folder is not
        writable.
    """
    folder = run.folder if isinstance(run, Run) else Path(run)
    try:
        descriptor = open_regular(folder / "run.lock", os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise UserError(
            f"run folder {folder} cannot be locked for writing: {error.strerror}; "
            "check that it exists and its permissions"
        ) from error
    try:
        _flock(descriptor, folder)
        _sign(descriptor, json.dumps(_holder()))
        try:
            yield
        finally:
            _sign(descriptor, "")
    finally:
        os.close(descriptor)


def platform_facts() -> dict:
    """What a run should remember of where it ran; no paths, names or environment."""
    return {
        "versions": versions(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
    }


def versions() -> dict[str, str | None]:
    """Versions of this package, Python and what results depend on; None if absent."""
    found: dict[str, str | None] = {
        "tfagents_batch": tfagents_batch.__version__,
        "python": platform.python_version(),
    }
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def open_regular(path: Path, flags: int) -> int:
    """Open a file, but neither a link nor a pipe, which a foreign run folder may hold.

    Returns:
      A descriptor; ``flags`` are those of ``os.open``.

    Raises:
      UserError: if something else has the file's name; it is left alone.
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


def write_atomic(path: Path, text: str) -> None:
    """Write a small file so that it is there whole, or not at all.

    Raises:
      SaveError: if it cannot be written.
    """
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    with _saving(path):
        try:
            write_durable(temporary, text.encode())
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        sync(path.parent)


def write_durable(path: Path, data: bytes) -> None:
    """Write a new file and wait until the disk has it."""
    with open(path, "xb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Wait until the disk has a file, or a folder's list of names."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        if path.is_dir() and os.name == "nt":  # folders cannot be opened there
            return
        raise
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _saving(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SaveError(
            f"{path} cannot be written: {error.strerror}; make room on the disk, or "
            "choose a folder on another one"
        ) from error


def _make_unique(root: Path, stem: str) -> Path:
    try:
        root.mkdir(parents=True, exist_ok=True)
        attempt = 1
        while True:
            folder = root / (stem if attempt == 1 else f"{stem}-{attempt}")
            try:
                folder.mkdir()
                return folder
            except FileExistsError:  # also when another process was faster
                attempt += 1
    except OSError as error:
        raise UserError(
            f"cannot make a run folder in {root}: {error.strerror}; pass a --logdir "
            "that is a writable folder"
        ) from error


def _read_config(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
        good = isinstance(json.loads(text), dict)
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    if not good:
        raise UserError(f"{path} is damaged: it should hold one JSON object")
    return text


def _flock(descriptor: int, folder: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = _describe(os.read(descriptor, 4096))
        raise UserError(
            f"run folder {folder} is in use by {holder}; wait for it to end or stop "
            "it, then try again"
        ) from error
    except OSError as error:  # some network file systems
        warnings.warn(
            f"{folder} is on a file system without locks ({error.strerror}): make "
            "sure that one process at a time writes to it",
            RuntimeWarning,
            stacklevel=4,
        )


def _holder() -> dict:
    started = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "started": started}


def _describe(text: bytes) -> str:
    try:
        holder = json.loads(text)
        return f"process {holder['pid']} on {holder['host']}, since {holder['started']}"
    except (ValueError, KeyError, TypeError):
        return "another process"


def _sign(descriptor: int, text: str) -> None:
    with contextlib.suppress(OSError):  # a full disk: the lock holds without a name
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)
