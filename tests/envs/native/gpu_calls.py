"""Calls of a hub as a program on a GPU makes them, with the driver of fake_cuda.cc."""

from __future__ import annotations

import ctypes
import pathlib
import subprocess
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tfagents_batch.envs.graph import host_calls
from tfagents_batch.envs.native import build
from tfagents_batch.envs.native.hub import DTYPES

ILLEGAL_ADDRESS = 700  # the code of an error that the driver has a name for
_SOURCE = pathlib.Path(__file__).with_name("fake_cuda.cc")
_I64, _U64, _VOID = ctypes.c_int64, ctypes.c_uint64, ctypes.c_void_p
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "allocate": (_I64,),
    "free": (_U64,),
    "write": (_U64, _VOID, _I64),
    "read": (_U64, _VOID, _U64, _I64),
    "finish": (),
    "fail": (ctypes.c_char_p, _I64),
    "count": (ctypes.c_char_p,),
    "report": (_VOID,),
    "reset": (),
    "call": (_VOID, _U64, _I64, _I64, _VOID, _I64, _VOID, _VOID, _I64),
}


class GpuError(Exception):
    """Error of a handler."""


class Buffer(ctypes.Structure):
    """Description of an array for ``fake_call``."""

    _fields_ = (
        ("dtype", _I64),
        ("rank", _I64),
        ("dims", _I64 * 8),
        ("data", _U64),
    )


class Report(NamedTuple):
    """State of the driver, see ``fake_report``."""

    violations: int
    registered: int
    pinned: int
    events: int
    from_registered: int
    from_pinned: int


class Driver:
    """The compiled driver. Its arrays stay until ``reset``: freeing one would wait."""

    def __init__(self, folder: pathlib.Path):
        self.path = folder / "fake_cuda.so"
        command = [*build._compiler(), str(_SOURCE), "-o", str(self.path)]
        subprocess.run([*command, *build._flags()], check=True)
        self.library = ctypes.CDLL(str(self.path))
        for name, types in _ARGUMENTS.items():
            getattr(self.library, f"fake_{name}").argtypes = types
        self.library.fake_allocate.restype = _U64
        self.library.fake_count.restype = _I64
        self._arrays: list[OnGpu] = []

    def array(self, shape: Sequence[int], dtype: Any, stream: int) -> OnGpu:
        """Return an array in the GPU's memory."""
        self._arrays.append(OnGpu(self.library, shape, dtype, stream))
        return self._arrays[-1]

    def report(self) -> Report:
        numbers = np.zeros(len(Report._fields), np.int64)
        self.library.fake_report(numbers.ctypes.data)
        return Report(*numbers.tolist())

    def count(self, name: str) -> int:
        """Return how often a function was called."""
        return self.library.fake_count(name.encode())

    def fail(self, name: str, code: int = ILLEGAL_ADDRESS) -> None:
        """Make a function fail from now on; code 0 repairs it."""
        self.library.fake_fail(name.encode(), code)

    def reset(self) -> None:
        self.library.fake_finish()
        for array in self._arrays:
            self.library.fake_free(array.buffer.data)
        self._arrays.clear()
        self.library.fake_reset()


class OnGpu:
    """Array in the GPU's memory."""

    def __init__(
        self, library: ctypes.CDLL, shape: Sequence[int], dtype: Any, stream: int
    ):
        self._library, self._stream = library, stream
        self._array = np.zeros(shape, dtype)
        data = library.fake_allocate(self._array.nbytes)
        sizes = (*shape, *[0] * (8 - len(shape)))
        number = DTYPES[self._array.dtype.name]
        self.buffer = Buffer(number, len(shape), sizes, data)

    def write(self, values: np.ndarray) -> None:
        values = np.ascontiguousarray(values)
        self._library.fake_write(self.buffer.data, values.ctypes.data, values.nbytes)

    def numpy(self) -> np.ndarray:
        """Wait for the array's stream and return its values."""
        where = self._array.ctypes.data, self.buffer.data, self._array.nbytes
        self._library.fake_read(self._stream, *where)
        return self._array.copy()


class GpuCalls:
    """Counterpart of ``op.Calls``.

    Inputs are ``OnGpu`` or anything that NumPy takes, outputs are ``OnGpu``.

    Args:
      driver: the driver.
      library: library of the hub.
      env: a ``ProcessEnv`` on the native backend.
      stream: number of the stream. Numbers 10 to 19 are those of another GPU.
    """

    def __init__(self, driver: Driver, library: ctypes.CDLL, env: Any, stream: int = 1):
        library.tfab_cuda_handler.restype = _VOID
        library.tfab_cuda_handler.argtypes = (ctypes.c_char_p,)
        self._driver, self._library, self._stream = driver, library, stream
        self.handle, self._groups = env.hub, env.num_groups
        self._outputs = [
            (x.shape.as_list(), x.dtype.as_numpy_dtype)
            for x in host_calls.outputs(env.spec)
        ]

    def init(self, seed: int) -> list[OnGpu]:
        return self.call("init", [np.int64(seed)], self._outputs)

    def step(self, inputs: Sequence[Any]) -> list[OnGpu]:
        return self.call("step", inputs, self._outputs)

    def send(self, inputs: Sequence[Any]) -> OnGpu:
        return self.call("send", inputs, self._outputs[:1])[0]

    def receive(self, inputs: Sequence[Any], count: int) -> list[OnGpu]:
        rows = [
            ([shape[0] // self._groups * count, *shape[1:]], dtype)
            for shape, dtype in self._outputs[1:]
        ]
        outputs = [self._outputs[0], ([count], np.int32), *rows]
        return self.call("receive", inputs, outputs)

    def ok(self, token: Any) -> OnGpu:
        return self.call("ok", [token], [([], np.bool_)])[0]

    def call(self, name: str, inputs: Sequence[Any], outputs: Sequence) -> list[OnGpu]:
        """Call a handler.

        Raises:
          GpuError: with the message of its error.
        """
        handler = self._library.tfab_cuda_handler(f"tfab_{name}".encode())
        given = [self._on_gpu(x) for x in inputs]
        found = [self._driver.array(*output, self._stream) for output in outputs]
        arrays = [
            (Buffer * len(each))(*(x.buffer for x in each)) for each in (given, found)
        ]
        message = ctypes.create_string_buffer(1000)
        self._driver.library.fake_call(
            handler,
            self._stream,
            self.handle,
            len(given),
            arrays[0],
            len(found),
            arrays[1],
            message,
            len(message),
        )
        if message.value:
            raise GpuError(message.value.decode())
        return found

    def _on_gpu(self, value: Any) -> OnGpu:
        if isinstance(value, OnGpu):
            return value
        value = np.asarray(value)
        array = self._driver.array(value.shape, value.dtype, self._stream)
        array.write(value)
        return array
