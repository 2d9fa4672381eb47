"""Compiled programs stored on disk, so that the next start does not compile them.

TensorFlow can store compiled programs in a folder, but it does not verify them: a
damaged file aborts the process that reads it, and a user who can write to the folder
can execute code. So each process has its own folder, with links to the intact entries
of the store: a file's name ends in the hash of its content. Programs that the process
compiles are moved to the store.

The store is in the user's cache folder, and is used only if other users cannot write to
it. The name of a folder in it covers everything else that programs depend on, see
``key``.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import logging
import os
import pathlib
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping

import tensorflow as tf

import tfagents_batch
from tfagents_batch import locks
from tfagents_batch.envs.native import build
from tfagents_batch.envs.shared import cpus
from tfagents_batch.tracing import has_run

_LOG = logging.getLogger("tfagents_batch")
VARIABLE = "TFAGENTS_BATCH_COMPILE_CACHE"  # environment variable; "off": no cache
MAX_BYTES = 128 << 20  # of all entries; a preset's program takes about 2.5 MB
FREE_BYTES = 1 << 30  # nothing is stored if less is free on the disk
_FLAG = "--tf_xla_persistent_cache_directory"
_LIVE = "live-"
_DIGITS = 32  # of a hash
_ENTRY = ".pb"
_WRITTEN = ".entry"  # entries of ``write``, which TensorFlow does not read


class _Off(Exception):
    """The cache is off; the message is the reason."""


class Cache:
    """The entries of one key, and a folder of this process with links to them.

    The store in ``root`` is created if it is missing; an OSError says that it cannot be
    written. TensorFlow uses ``folder``, that of the links.
    """

    def __init__(self, root: pathlib.Path, key: str):
        build.make_private(root / key)
        root = root.resolve()
        try:
            build.check_private(root / key, root)
        except build.NotPrivate as error:
            raise _Off(str(error)) from None
        if any(character.isspace() or character in "'\"" for character in str(root)):
            raise _Off(f"TensorFlow cannot use a folder with such a name: {root}")
        if shutil.disk_usage(root).free < FREE_BYTES:
            raise _Off(f"the disk of {root} is nearly full")
        self._root, self._store = root, root / key
        # Other processes must not remove the new folder before it is locked.
        root_lock = _lock(root, wait=True)
        try:
            self._remove_dead_folders()
            self.folder = pathlib.Path(tempfile.mkdtemp(prefix=_LIVE, dir=root))
            self._lock = _lock(self.folder)
        finally:
            os.close(root_lock)
        self._process = os.getpid()  # a forked child must not remove the folder
        self._linked: set[str] = set()
        try:
            self._link_entries()
        except OSError:  # a file system without links
            self.close()
            raise

    def publish(self) -> int:
        """Move newly compiled programs to the store; return their number."""
        count = 0
        with contextlib.suppress(OSError):  # the store may be full or deleted
            for path in sorted(self.folder.glob(f"*{_ENTRY}")):
                if path.name not in self._linked:
                    name = _hashed(path.stem, path.read_bytes(), _ENTRY)
                    os.replace(path, self._store / name)
                    count += 1
            if count:
                self._prune()
        return count

    def read(self, name: str) -> bytes | None:
        """Return the data stored under a name; None if it is missing or damaged."""
        for path, _ in _newest_first(self._store.glob(f"{name}.*{_WRITTEN}")):
            with contextlib.suppress(OSError):
                data = path.read_bytes()
                if path.name == _hashed(name, data, _WRITTEN):
                    return data
                path.unlink(missing_ok=True)
        return None

    def write(self, name: str, data: bytes) -> None:
        """Store data under a name; the oldest entries are deleted to make room."""
        new = self.folder / name
        with contextlib.suppress(OSError):
            new.write_bytes(data)
            os.replace(new, self._store / _hashed(name, data, _WRITTEN))
            self._prune()

    def close(self) -> None:
        """Publish, and remove the folder; idempotent."""
        if self._lock is not None and os.getpid() == self._process:
            self.publish()
            shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self._lock)
            self._lock = None

    def _link_entries(self) -> None:
        """Link every intact entry and delete damaged ones."""
        for path, _ in _newest_first(self._store.glob(f"*{_ENTRY}")):
            name = path.stem.rpartition(".")[0]
            link = self.folder / f"{name}{_ENTRY}"
            if link.name in self._linked:
                continue  # a newer entry has this name
            with contextlib.suppress(FileNotFoundError):  # pruned by another process
                os.link(path, link)  # before hashing: verify the file that is linked
                if path.name == _hashed(name, link.read_bytes(), _ENTRY):
                    self._linked.add(link.name)
                else:
                    link.unlink()
                    path.unlink(missing_ok=True)

    def _prune(self) -> None:
        """Delete the oldest entries of all keys until ``MAX_BYTES`` remain."""
        left = MAX_BYTES
        kinds = (f"*/*{_ENTRY}", f"*/*{_WRITTEN}")
        paths = [path for kind in kinds for path in self._root.glob(kind)]
        # Links in the folders of processes are removed with the process.
        stored = [path for path in paths if not path.parent.name.startswith(_LIVE)]
        for path, size in _newest_first(stored):
            left -= size
            if left < 0:
                path.unlink(missing_ok=True)

    def _remove_dead_folders(self) -> None:
        """Remove the folders of processes that were killed."""
        for folder in self._root.glob(f"{_LIVE}*"):
            with contextlib.suppress(OSError):
                descriptor = _lock(folder)
                shutil.rmtree(folder, ignore_errors=True)
                os.close(descriptor)


_cache: Cache | None = None


def enable(threads: int = 0, first: Callable[[], None] = lambda: None) -> str:
    """Store compiled programs from now on, if TensorFlow has not run an operation yet.

    This runs the first operation. Compiled loops depend on the number of threads.

    Args:
      threads: threads of TensorFlow.
      first: called when the settings are complete, even if the cache stays off. It may
        list devices, which makes TensorFlow read its settings, including this one.

    Returns:
      The reason why nothing is stored; empty if the cache is on.
    """
    global _cache
    if _cache is not None:
        first()
        return ""
    flags = os.environ.get("TF_XLA_FLAGS", "")
    try:
        if os.environ.get(VARIABLE, "").lower() in ("off", "0", "false"):
            raise _Off(f"{VARIABLE} is {os.environ[VARIABLE]}")
        if _FLAG in flags or flags.strip()[:1] not in ("", "-"):
            raise _Off("TF_XLA_FLAGS names another folder or file")
        if not locks.AVAILABLE:
            raise _Off("the system has no file locks")
        if has_run():
            raise _Off("TensorFlow had run before")
        cache = Cache(root(), key(threads))
    except (_Off, OSError) as error:
        first()
        if isinstance(error, OSError):  # an unexpected failure
            _LOG.warning("compiled programs are not stored: %s", error)
        return str(error)
    added = f"{_FLAG}={cache.folder} --tf_xla_persistent_cache_device_types=CPU"
    os.environ["TF_XLA_FLAGS"] = f"{flags} {added}".strip()
    try:  # TensorFlow reads them when it creates its devices
        first()
        tf.config.list_logical_devices()
    finally:  # child processes must not inherit them
        del os.environ["TF_XLA_FLAGS"]
        if flags:
            os.environ["TF_XLA_FLAGS"] = flags
    atexit.register(cache.close)
    _cache = cache
    return ""


def publish() -> int:
    """Store the programs that this process compiled; return their number."""
    return _cache.publish() if _cache is not None else 0


def read(name: str) -> bytes | None:
    """Return the data stored under a name, see ``Cache``; None if it is off."""
    return _cache.read(name) if _cache is not None else None


def write(name: str, data: bytes) -> None:
    """Store data under a name, see ``Cache``; do nothing if the cache is off."""
    if _cache is not None:
        _cache.write(name, data)


def root() -> pathlib.Path:
    """Return the folder of the store."""
    return build.cache_folder() / "xla"


def key(threads: int = 0, environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of the folder for programs that this process may use.

    It depends on TensorFlow's build, this package's custom calls, the processor and all
    environment variables that may change what XLA compiles.
    """
    settings = {
        name: value
        for name, value in environment.items()
        if name.startswith(("TF_", "XLA_")) and not name.startswith("TF_CPP_")
    }
    engine = hashlib.sha256()
    for path in build.sources():
        engine.update(path.read_bytes())
    parts = [
        tfagents_batch.__version__,
        engine.hexdigest(),
        _processor(),
        str(len(cpus.available())),
        str(threads),
        repr(sorted(settings.items())),
        *(tf.version.GIT_VERSION, tf.version.COMPILER_VERSION),
    ]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return f"{tf.version.VERSION}-{digest}"


def _processor() -> str:
    """Return the processor's model and instruction set, which programs depend on."""
    lines: set[str] = set()
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        names = ("model name", "flags", "Features", "CPU part")
        lines = {line for line in file if line.startswith(names)}
    return repr((platform.machine(), platform.processor(), sorted(lines)))


def _lock(folder: pathlib.Path, wait: bool = False) -> int:
    """Lock a folder and return a descriptor; if it is in use, wait or raise OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        locks.lock(descriptor, wait)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _hashed(name: str, data: bytes, kind: str) -> str:
    """Return the file name for data; it ends in the hash of the data."""
    return f"{name}.{hashlib.blake2b(data).hexdigest()[:_DIGITS]}{kind}"


def _newest_first(paths: Iterable[pathlib.Path]) -> list[tuple[pathlib.Path, int]]:
    """Return existing files and their sizes, newest first."""
    existing = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            existing.append((status.st_mtime_ns, path, status.st_size))
    return [(path, size) for _, path, size in sorted(existing, reverse=True)]
