"""Imports of large packages, and of one that is optional."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import importlib.machinery
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from tfagents_batch.errors import UserError

# absl::SetMinLogLevel in TensorFlow 2.21.
_SET_LEVEL = "_ZN4absl12lts_2025081414SetMinLogLevelENS0_18LogSeverityAtLeastE"
_FATAL = 3
_OF_OTHERS = re.compile(
    rb"(?!WARNING: All log messages before absl|[IWE]\d{4} |To enable the following)"
)
# Variables by which SDL finds a display, and those that choose what it uses instead.
_DRIVERS = "SDL_VIDEODRIVER", "SDL_AUDIODRIVER"
_DISPLAYS = "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", _DRIVERS[0]

STARTED = time.time()  # this is the first module of the package that is imported
VARIABLE = "TFAGENTS_BATCH_DEFAULTS"  # environment variable; "off": change nothing


def set_defaults() -> None:
    """Change what this process does by default; called when the package is imported.

    The functions below say what changes. Each keeps what the environment says already.
    ``TFAGENTS_BATCH_DEFAULTS=off`` in the environment changes nothing.
    """
    if os.environ.get(VARIABLE, "").lower() in ("off", "0", "false"):
        return
    prefer_onednn()
    hide_messages()
    import_quietly()
    send_nothing()
    draw_without_display()


def prefer_onednn() -> None:
    """Let TensorFlow compute convolutions with oneDNN, if it is not imported yet.

    By default it does so only on processors with certain AVX-512 instructions. On one
    with AVX2, gradients of the Nature CNN take 1.7 times as long without oneDNN, and
    those of GA3C's CNN 2.4 times. ``TF_ENABLE_ONEDNN_OPTS=0`` in the environment
    disables it.
    """
    if platform.machine().lower() in ("x86_64", "amd64"):
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def hide_messages() -> None:
    """Hide TensorFlow's messages on stderr from now on.

    XLA logs an error line whenever it loads a cached program. It is harmless; real
    errors are raised. ``TF_CPP_MIN_LOG_LEVEL=0`` in the environment shows all messages.
    """
    if "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        return
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    if "tensorflow" in sys.modules:  # which has read the variable already
        folder = os.path.dirname(sys.modules["tensorflow"].__file__)
        # A release of TensorFlow with another Abseil keeps its messages.
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(os.path.join(folder, "libtensorflow_framework.so.2"))
            getattr(library, _SET_LEVEL)(_FATAL)


class _Quietly:
    """Finder that lets the first import of TensorFlow be ``without_messages``.

    TensorFlow may be imported by Keras, or by the user, before anything of this package
    needs it.
    """

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """Return the spec of TensorFlow; None for all other modules."""
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def quietly(module):
                with without_messages(begun=True):
                    load(module)

            spec.loader.exec_module = quietly
        return spec


def import_quietly() -> None:
    """Let the first import of TensorFlow by anybody be ``without_messages``."""
    if "tensorflow" not in sys.modules:
        sys.meta_path.insert(0, _Quietly())


@contextlib.contextmanager
def without_messages(begun: bool = False) -> Iterator[None]:
    """Import TensorFlow without its lines about the machine.

    ``hide_messages`` has no effect on what TensorFlow's libraries write while they are
    loaded (measured with 2.21). So stderr is a file meanwhile; lines of others are
    written afterwards, and all lines if the import fails, but for Ctrl-C.

    Args:
      begun: whether the import of TensorFlow has begun.
    """
    files = None
    loads = begun or "tensorflow" not in sys.modules
    if loads and os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0") != "0":
        # stderr may be closed, or there is no folder for temporary files.
        with contextlib.suppress(OSError):
            files = tempfile.TemporaryFile(), os.dup(2)  # noqa: SIM115
    if files is None:
        yield
        return
    file, saved = files
    with file:
        if sys.stderr is not None:
            sys.stderr.flush()
        os.dup2(file.fileno(), 2)
        shown: re.Pattern | None = None
        dumps = not faulthandler.is_enabled()
        if dumps:  # says where TensorFlow ended the process
            faulthandler.enable(saved)
        try:
            yield
            shown = _OF_OTHERS
        except KeyboardInterrupt:
            shown = _OF_OTHERS
            raise
        finally:
            if dumps:
                faulthandler.disable()
            os.dup2(saved, 2)
            os.close(saved)
            file.seek(0)
            for line in file:
                if shown is None or shown.match(line):
                    os.write(2, line)


def send_nothing() -> None:
    """Let ONNX Runtime send no telemetry, if it is not imported yet.

    Its wheels since 1.32 send events about models and the machine to their vendor, and
    store a device id and a database in the user's cache for that. It reads the variable
    when it is imported. ``ORT_DISABLE_TELEMETRY=0`` in the environment allows it.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def draw_without_display() -> None:
    """Let SDL, and so pygame, draw and play nowhere on a machine without a display.

    Otherwise its first use there writes "XDG_RUNTIME_DIR is invalid or not set" and
    ALSA's lines about a missing sound card to stderr, from every process that creates
    or films an environment. Frames are the same. A process that has a display, a
    session (``XDG_RUNTIME_DIR``) or its own ``SDL_VIDEODRIVER`` is not changed.
    """
    if sys.platform != "linux" or any(name in os.environ for name in _DISPLAYS):
        return
    for name in _DRIVERS:
        os.environ.setdefault(name, "dummy")


@contextlib.contextmanager
def keras_on_tensorflow() -> Iterator[None]:
    """Import Keras on the TensorFlow backend, even if keras.json names another one.

    Raises:
      UserError: if ``KERAS_BACKEND`` or an imported Keras is of another one.
    """
    if "keras" in sys.modules:
        backend, where = (
            sys.modules["keras"].config.backend(),
            "Keras was imported with",
        )
    else:
        backend, where = os.environ.get("KERAS_BACKEND"), "KERAS_BACKEND is"
    if backend not in (None, "", "tensorflow"):
        raise UserError(
            f"{where} {backend!r}; expected 'tensorflow', on which all networks run: "
            "set KERAS_BACKEND=tensorflow, or unset it"
        )
    before = os.environ.get("KERAS_BACKEND")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    try:
        yield
    finally:  # environments in workers have their own Keras
        if before is None:
            del os.environ["KERAS_BACKEND"]
        else:
            os.environ["KERAS_BACKEND"] = before


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Disable Python's cyclic garbage collector.

    Importing TensorFlow creates hundreds of thousands of permanent objects, and the
    collector scans all of them each time their number has grown by a quarter.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def hidden(*packages: str) -> Iterator[None]:
    """Make packages look as if not installed, unless already imported."""
    absent = [name for name in packages if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


def ffmpeg() -> Any:
    """Return the module that writes MP4 files.

    Raises:
      UserError: if the extra ``video`` is missing.
    """
    try:
        return importlib.import_module("imageio_ffmpeg")
    except ImportError:
        raise UserError(
            'MP4 videos need imageio_ffmpeg: pip install "tfagents_batch[video]", or '
            'pass format="gif" (flag --format=gif)'
        ) from None
