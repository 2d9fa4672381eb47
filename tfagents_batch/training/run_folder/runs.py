"""Run folders: create, open and lock them.

A run is ``<logdir>/<time>-<name>-s<seed>[-k]``. It holds ``config.json`` (all
settings), ``run.json`` (the machine, versions and git commit), ``run.lock``,
``metrics.jsonl``, TensorBoard events and ``checkpoints/``. Paths inside a run are
relative, so a run folder can be moved.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import itertools
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tfagents_batch import locks
from tfagents_batch.errors import UserError, no_folder, saving
from tfagents_batch.training.run_folder import files

# Key of ``run.json`` and event name: the run that this one started from.
STARTED_FROM = "started_from"
# Key of ``run.json``: the logged episodes that each training of the agent has seen, see
# ``logged.seen``; None for one of which this is not known.
TRAINING_ROWS = "training_rows"
_MAX_NAME = 100  # characters; file systems allow names of 255 bytes
GIT_SECONDS = 2.0  # time limit per folder
# Git writes nothing, and does not run a file monitor that the repository configures.
_GIT = (
    *("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "status"),
    *("--porcelain=v2", "--branch"),
    *("--untracked-files=no", "--ignore-submodules=dirty"),
)


class RunFolder(NamedTuple):
    """An existing run."""

    folder: Path  # absolute path
    config_text: str  # the JSON text of ``config.json``


def create(
    logdir: str | os.PathLike,
    name: str,
    seed: int,
    config_text: str,
    now: datetime.datetime | None = None,
    facts: dict | None = None,
) -> Path:
    """Create a run folder with its ``config.json`` and ``run.json``.

    Args:
      logdir: root of the runs; created if missing, ``~`` is expanded.
      name: name of the preset, algorithm or environment; unsuitable characters (the
        slash of ``ALE/Pong-v5``) become ``-``.
      seed: seed of the run.
      config_text: JSON text of the resolved config.
      now: local time in the folder's name; the current time if None.
      facts: more JSON-able entries for ``run.json``.

    Raises:
      UserError: if ``logdir`` is a file.
      SaveError: if the folder or its files cannot be written; it is removed then.
    """
    now = now or datetime.datetime.now().astimezone()
    root = Path(logdir).expanduser().absolute()
    clean = re.sub(r"[^\w.+-]+", "-", name)[:_MAX_NAME].strip("-.") or "run"
    stem = f"{now:%Y%m%dT%H%M%S}-{clean}-s{seed}"
    folder = _make_unique(root, stem)
    known = {  # nothing private: no paths, user names or environment variables
        "started": now.isoformat(timespec="seconds"),
        "versions": versions(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        **(facts or {}),
    }
    try:
        files.write_atomic(folder / "run.json", json.dumps(known, indent=2) + "\n")
        files.write_atomic(folder / "config.json", config_text)
        with saving(folder):
            files.sync(root)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def open_run(
    path: str | os.PathLike,
    wanted: str = "the run folder that training printed at its end",
) -> RunFolder:
    """Open a run folder, which may have been moved; ``~`` is expanded.

    ``wanted`` is what the error for another folder asks for.
    """
    path = os.fspath(path)
    folder = Path(path).expanduser().absolute()
    config = folder / "config.json"
    if config.is_file():
        return RunFolder(folder, _read_config(config))
    for owner in folder.parents[:2]:  # a file of a run, or a checkpoint
        if (owner / "config.json").is_file():
            raise UserError(f"{path} is inside a run; pass the run folder {owner}")
    wrong = "is not a run folder: it has no config.json"
    if not folder.exists():
        wrong = "does not exist"
    elif not folder.is_dir():
        wrong = "is a file"
    runs = list_runs(folder) or list_runs(folder.parent)
    newest = f", such as the newest one there, {runs[-1]}" if runs else ""
    raise UserError(f"{path} {wrong}; pass {wanted}{newest}")


def open_runs(paths: Sequence[str | os.PathLike]) -> list[RunFolder]:
    """Open run folders, and those directly in other folders."""
    folders: list[Path] = []
    for path in map(Path, paths):
        inside = [] if (path / "config.json").is_file() else list_runs(path)
        folders += inside or [path]
    wanted = "a run folder or a folder of runs, such as logs"
    return [open_run(path, wanted) for path in folders]


def checkpoint(folder: Path, which: str | int) -> str | int:
    """Return which checkpoint of a run is meant: newest, best or a step as a number."""
    steps = files.steps(folder / "checkpoints")[::-1]
    if not steps:
        raise UserError(
            f"{folder} holds no checkpoint; train longer, or pass another run"
        )
    which = int(which) if isinstance(which, str) and which.isdecimal() else which
    if which not in ("newest", "best", *steps):
        known = ", ".join(map(str, steps))
        raise UserError(
            f"no checkpoint {which} in {folder}; use newest, best or a step of {known}"
        )
    return which


def facts(folder: str | os.PathLike) -> dict:
    """Return the content of ``run.json`` of a run; empty if it cannot be read."""
    try:
        content = json.loads(files.read(Path(folder) / "run.json"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def training_rows(folder: str | os.PathLike) -> list:
    """Return ``TRAINING_ROWS`` of a run; ``[None]`` if it has no such list."""
    rows = facts(folder).get(TRAINING_ROWS)
    return rows if isinstance(rows, list) else [None]


def list_runs(logdir: Path) -> list[Path]:
    """Return the run folders directly in ``logdir``, oldest first."""

    def age(folder: Path) -> tuple[str, int]:
        stamp = folder.name.partition("-")[0]  # seconds; then the file time decides
        return stamp, (folder / "config.json").stat().st_mtime_ns

    try:
        folders = [p for p in logdir.iterdir() if (p / "config.json").is_file()]
        return sorted(folders, key=age)
    except OSError:
        return []


@contextlib.contextmanager
def lock(folder: str | os.PathLike, what: str = "run folder") -> Iterator[None]:
    """Lock a folder for writing while the context is open.

    The kernel holds the lock (``flock`` on ``run.lock``), so the lock of a process that
    died is released. The file's content only identifies the process.

    Raises:
      UserError: if another process, which the message names, holds the lock, or if the
        folder is not writable.
    """
    try:
        descriptor = files.open_regular(
            Path(folder) / "run.lock", os.O_RDWR | os.O_CREAT
        )
    except OSError as error:
        raise UserError(
            f"{what} {folder} cannot be locked for writing: {error.strerror}; "
            "check that it exists and its permissions"
        ) from error
    try:
        _flock(descriptor, folder, what)
        started = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "started": started}
        _write_holder(descriptor, json.dumps(holder))
        try:
            yield
        finally:
            _write_holder(descriptor, "")
    finally:
        os.close(descriptor)


def sweep(folder: str | os.PathLike) -> None:
    """Remove leftovers of killed processes from a run folder, which must be locked."""
    for name in ("checkpoints", "replay"):
        files.sweep(Path(folder) / name)


def versions() -> dict[str, str]:
    """Return the versions of this package, Python and the main dependencies."""
    names = ("tfagents_batch", "tensorflow", "keras", "gymnasium", "numpy")
    packages = {name: importlib.import_module(name).__version__ for name in names}
    return packages | {"python": platform.python_version()}


def checkout(seconds: float = GIT_SECONDS) -> dict[str, Any] | None:
    """Return the git state of the working folder, or else of the main script.

    It is ``commit``, its hash, and ``changed``, whether a tracked file differs from it;
    None outside of a checkout, without git, or if git takes longer than ``seconds``.
    """
    main = getattr(sys.modules.get("__main__"), "__file__", None) or ""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    for folder in dict.fromkeys((".", os.path.dirname(main) or ".")):
        try:
            options = {"cwd": folder, "env": inherited, "timeout": seconds}
            text = subprocess.check_output(
                _GIT, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options
            ).decode(errors="replace")
        except (OSError, subprocess.SubprocessError):
            continue
        if match := re.match(r"# branch\.oid ([0-9a-f]+)$", text, re.MULTILINE):
            changed = any(line[0] != "#" for line in text.splitlines())
            return {"commit": match[1], "changed": changed}
    return None


def _make_unique(root: Path, stem: str) -> Path:
    try:
        root.mkdir(parents=True, exist_ok=True)
        for attempt in itertools.count(1):
            folder = root / (stem if attempt == 1 else f"{stem}-{attempt}")
            with contextlib.suppress(FileExistsError):  # another process was faster
                folder.mkdir()
                return folder
    except OSError as error:
        raise no_folder(root, error, "--logdir") from error


def _read_config(path: Path) -> str:
    try:
        text = files.read(path).decode()
        good = isinstance(json.loads(text), dict)
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    if not good:
        raise UserError(f"{path} is damaged: expected one JSON object")
    return text


def _flock(descriptor: int, folder: str | os.PathLike, what: str) -> None:
    try:
        locks.lock(descriptor)
    except BlockingIOError as error:
        holder = "another process"
        with contextlib.suppress(ValueError, KeyError, TypeError):  # not written yet
            data = json.loads(os.read(descriptor, 4096))
            holder = f"process {data['pid']} on {data['host']}, since {data['started']}"
        raise UserError(
            f"{what} {folder} is in use by {holder}; wait for it to end or stop "
            "it, then try again"
        ) from error
    except OSError as error:  # some network file systems
        warnings.warn(
            f"{folder} is on a file system without locks ({error.strerror}): make "
            "sure that only one process at a time writes to it",
            RuntimeWarning,
            stacklevel=4,
        )


def _write_holder(descriptor: int, text: str) -> None:
    with contextlib.suppress(OSError):  # on a full disk, the lock works without a name
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)
