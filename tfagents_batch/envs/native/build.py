"""Build and loading of the native hub for the installed TensorFlow.

The library is built once, into the user's cache folder. Its path contains TensorFlow's
version and a hash of source and flags. A library is code, so it is neither built nor
loaded in a folder that other users can write to. Environments then use the portable
backend, and a warning names the folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import logging
import os
import pathlib
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from tfagents_batch import locks

BACKEND_VARIABLE = "TFAGENTS_BATCH_BACKEND"
_LOG = logging.getLogger("tfagents_batch")
_OWN_FOLDER = "set XDG_CACHE_HOME to a folder of your own"
_FOLDER = pathlib.Path(__file__).parent
_COMPILERS = ("g++", "clang++", "c++")
_SECONDS = 300.0  # limit for compiling, or for waiting while another process compiles


class Unavailable(Exception):
    """Reason why there is no native hub, and what to do about it."""


def library() -> ctypes.CDLL:
    """Return the loaded library with registered custom calls, or raise ``Unavailable``.

    It is built if necessary.
    """
    if os.environ.get(BACKEND_VARIABLE) == "portable":
        raise Unavailable(f"{BACKEND_VARIABLE}=portable is set")
    if not is_supported():
        raise Unavailable("it needs Linux on x86_64")
    loaded = _load()
    if isinstance(loaded, str):
        raise Unavailable(loaded)
    return loaded


def is_supported() -> bool:
    """Return whether a hub works here.

    With weaker memory ordering than that of x86-64, the hub could see a reply before
    its rows, and Python has no memory barrier.
    """
    return sys.platform.startswith("linux") and platform.machine() == "x86_64"


def is_due() -> bool:
    """Return whether ``library`` will compile, which takes half a minute."""
    with contextlib.suppress(OSError, NotPrivate):
        allowed = is_supported() and os.environ.get(BACKEND_VARIABLE) != "portable"
        return allowed and not _path().exists()
    return False


@functools.cache
def _load() -> ctypes.CDLL | str:
    """Return the library, or why it is unavailable; cached per process."""
    try:
        path = _path()
        if not path.exists():
            _build(path)
        return _open(_private(path))
    except (Unavailable, NotPrivate) as error:
        return str(error)
    except OSError as error:
        return f"{error}; set XDG_CACHE_HOME to a folder that can be written"


def _private(path: pathlib.Path) -> pathlib.Path:
    """Return the path without symbolic links, if only this user can change it."""
    path = path.resolve()
    check_private(path, path.parent)
    return path


def _open(path: pathlib.Path) -> ctypes.CDLL:
    try:
        loaded = ctypes.CDLL(str(path))
        loaded.tfab_register.restype = ctypes.c_char_p
        problem = loaded.tfab_register()
    except (OSError, AttributeError) as error:
        raise Unavailable(f"{path} cannot be loaded ({error}); delete it") from None
    if problem:
        raise Unavailable(f"{path}: {problem.decode('utf-8', 'replace')}")
    return loaded


def sources() -> list[pathlib.Path]:
    """Return the C++ files and their headers, in a fixed order."""
    return sorted([*_FOLDER.glob("*.cc"), *_FOLDER.glob("*.h")])


def _path() -> pathlib.Path:
    import tensorflow as tf

    parts = [*(path.read_text() for path in sources()), *_flags()]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return cache_folder() / f"{tf.__version__}-{digest}" / "hub.so"


def _flags() -> list[str]:
    import tensorflow as tf

    folder = tf.sysconfig.get_lib()
    compile_flags = [
        flag.replace("-I", "-isystem", 1) if flag.startswith("-I") else flag
        for flag in tf.sysconfig.get_compile_flags()
    ]
    return [
        *("-std=c++17", "-O2", "-shared", "-fPIC", "-pthread", *compile_flags),
        *(f"-L{folder}", "-l:libtensorflow_cc.so.2"),
        "-l:libtensorflow_framework.so.2",
        "-ldl",
    ]


def _build(path: pathlib.Path) -> None:
    """Compile to ``path``, in one process at a time."""
    compiler = _compiler()
    make_private(path.parent)
    _private(path.parent)
    with _locked(path.with_name("lock")):
        if path.exists():  # another process has built it
            return
        started = time.monotonic()
        descriptor, built = tempfile.mkstemp(suffix=".so", dir=path.parent)
        os.close(descriptor)
        try:
            files = [str(path) for path in sources() if path.suffix == ".cc"]
            _run([*compiler, *files, "-o", built, *_flags()])
            os.chmod(built, 0o700)  # the umask may allow more
            os.replace(built, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(built)
    seconds = time.monotonic() - started
    _LOG.info("built the native backend in %.1f s: %s", seconds, path)


def _compiler() -> list[str]:
    chosen = os.environ.get("CXX")
    names = [shlex.split(chosen)] if chosen else [[name] for name in _COMPILERS]
    for name in names:
        if name and shutil.which(name[0]):
            return name
    if chosen:
        raise Unavailable(f"there is no C++ compiler: CXX is {chosen!r}, not found")
    tried = ", ".join(_COMPILERS)
    raise Unavailable(f"there is no C++ compiler ({tried}): install one, or set CXX")


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"the compiler {command[0]} failed: {error}") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line]
        text = (lines or done.stderr.splitlines() or ["no message"])[0]
        raise Unavailable(
            f"the compiler {command[0]} failed with status {done.returncode}: {text}"
        )


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
    deadline = time.monotonic() + _SECONDS
    with open(path, "w") as file:
        while True:
            try:
                locks.lock(file)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Unavailable(f"another process has locked {path}") from None
                time.sleep(0.05)
        yield


class NotPrivate(Exception):
    """File or folder that another user can change or replace."""


def cache_folder() -> pathlib.Path:
    """Return the path of this package's folder in the user's cache."""
    root = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return pathlib.Path(root).expanduser() / "tfagents_batch"
    except RuntimeError:  # happens in containers
        raise FileNotFoundError(
            "there is no home folder: HOME is not set, and the user has no entry in "
            "/etc/passwd"
        ) from None


def make_private(folder: pathlib.Path) -> None:
    """Create a folder and its missing parents with access for this user only.

    (``Path.mkdir(parents=True, mode=...)`` sets the mode of the last folder only; under
    a umask of 002 the parents would be writable by the group.)
    """
    missing = [x for x in (folder, *folder.parents) if not x.exists()]
    for parent in reversed(missing):
        parent.mkdir(mode=0o700, exist_ok=True)


def check_private(path: pathlib.Path, root: pathlib.Path) -> None:
    """Check that only this user (and root) can change a file or folder.

    Args:
      path: the file or folder, without symbolic links (``Path.resolve``).
      root: folder in which other users may not add files. In its parents they may, if
        they cannot replace files of other users there, as in ``/tmp``.
    """
    for part in (path, *path.parents):
        status = os.lstat(part)
        shared = status.st_mode & 0o022
        if shared and not part.is_relative_to(root):
            shared = not status.st_mode & stat.S_ISVTX
        if status.st_uid not in (0, os.geteuid()):
            text = f"{part} belongs to another user (uid {status.st_uid}); "
            raise NotPrivate(f"{text}{_OWN_FOLDER}")
        if shared:
            text = f"{part} can be written by other users; remove that permission "
            raise NotPrivate(f"{text}(chmod go-w), or {_OWN_FOLDER}")
