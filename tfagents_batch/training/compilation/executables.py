"""Free the memory of compiled programs when the runs of a process end.

XLA holds every compiled program, about 1,000 memory maps for a run of PPO, until its
cache is destroyed, which TensorFlow never does. After about 65 runs a process would
reach Linux's limit of maps (``vm.max_map_count``), and LLVM would abort it without an
exception.
"""

from __future__ import annotations

import contextlib
import ctypes
import pathlib
import sys
import threading
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.core.framework import resource_handle_pb2, tensor_pb2, types_pb2

from tfagents_batch.devices import placement
from tfagents_batch.errors import UserError

_FEW = 16  # growth of the number of maps without any compilation
_MAX_USED = 0.8  # a new run is refused above this part of the limit

# TensorFlow finds its cache of executables by this name and by a hash of its C++ type,
# DeviceCompiler<LocalExecutable, LocalClient>.
_NAME = "xla_device_compiler"
_TYPE = 0x6B406BD7CBE180FF

_lock = threading.Lock()
_open = 0  # runs that have not ended


@contextlib.contextmanager
def limited_to_run() -> Iterator[None]:
    """Free the programs compiled in this context, when the last open run ends.

    They are not freed while another thread calls TensorFlow or Keras, because it may be
    executing one of them. A freed program is compiled again when it is called.

    Raises:
      UserError: if the process has more than 80 % of the memory maps that Linux allows.
    """
    global _open
    before = _maps()
    _check_limit(before)
    with _lock:
        _open += 1
    try:
        yield
    finally:
        with _lock:
            _open -= 1
            if not _open and _maps() > before + _FEW and not _others_use_tensorflow():
                _free()


def _maps() -> int:
    """Count the memory maps of this process; 0 if the system does not report them."""
    try:
        return pathlib.Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return 0


def _check_limit(maps: int) -> None:
    try:
        limit = int(pathlib.Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):
        return
    if maps > _MAX_USED * limit:
        raise UserError(
            f"this process has {maps} memory maps, and it aborts at {limit} "
            f"(vm.max_map_count); expected at most {_MAX_USED:.0%} of that at the "
            "start of a run; train in another process, or raise the limit: sysctl -w "
            f"vm.max_map_count={4 * limit}"
        )


def _others_use_tensorflow() -> bool:
    """Check if another thread is in a function of TensorFlow or Keras."""
    own = threading.get_ident()
    for thread, frame in sys._current_frames().items():
        while thread != own and frame is not None:
            module = frame.f_globals.get("__name__", "")
            if module.partition(".")[0] in ("tensorflow", "keras"):
                return True
            frame = frame.f_back
    return False


def _free() -> None:
    # If another version of TensorFlow uses another name, nothing is destroyed. Then
    # runs are refused before the process has too many maps.
    with contextlib.suppress(tf.errors.OpError), placement.host():
        handle = resource_handle_pb2.ResourceHandleProto(
            device=tf.zeros([]).device,
            container="localhost",
            name=_NAME,
            hash_code=_TYPE,
        )
        tensor = tensor_pb2.TensorProto(
            dtype=types_pb2.DT_RESOURCE, resource_handle_val=[handle]
        )
        tensor.tensor_shape.SetInParent()
        cache = tf.io.parse_tensor(tensor.SerializeToString(), tf.resource)
        tf.raw_ops.DestroyResourceOp(resource=cache, ignore_lookup_error=True)
    with contextlib.suppress(AttributeError):  # the C library has no malloc_trim
        ctypes.CDLL(None).malloc_trim(0)
