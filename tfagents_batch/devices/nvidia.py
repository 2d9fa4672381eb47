"""The NVIDIA driver: its version and GPUs, their memory and the processes that use it.

The driver's own libraries are asked. They need neither CUDA nor TensorFlow, and no
memory of a GPU is taken.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_uint, c_ulonglong
from pathlib import Path
from typing import NamedTuple

CUDA = "libcuda.so.1"
NVML = "libnvidia-ml.so.1"
_UNKNOWN = 2**64 - 1  # memory of a process that NVML may not see
_TEXT = 96  # bytes, NVML's longest name of a GPU
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE, also if every GPU is hidden


class Driver(NamedTuple):
    """The installed driver."""

    version: str  # such as "580.65.06"; "" if unknown
    cuda: tuple[int, int]  # newest CUDA version that it supports, as (major, minor)
    visible: int  # number of GPUs that this process may use
    # Why it does not start, in its words; "" if it starts or there is no GPU
    error: str = ""


class Process(NamedTuple):
    """A process that computes on a GPU; ``used`` is memory in bytes, None if unknown.

    In a container the number may be that of the host, and the name "".
    """

    pid: int
    name: str
    used: int | None


class Gpu(NamedTuple):
    """A GPU of this machine; memory is in bytes."""

    name: str
    capability: tuple[int, int]
    total: int
    free: int
    processes: tuple[Process, ...] = ()


class _Memory(ctypes.Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", c_uint),
        ("used", c_ulonglong),
        ("gpu_instance", c_uint),
        ("compute_instance", c_uint),
    )


def installed() -> bool:
    """Return whether a driver is installed; it is not started."""
    return _open(CUDA) is not None


def driver() -> Driver | None:
    """Start the driver for this process and describe it; None if there is none."""
    cuda = _open(CUDA)
    if cuda is None:
        return None
    number, visible, text = c_int(), c_int(), ctypes.c_char_p()
    cuda.cuDriverGetVersion(byref(number))
    status = cuda.cuInit(0)
    if status:
        cuda.cuGetErrorString(status, byref(text))
    else:
        cuda.cuDeviceGetCount(byref(visible))
    error = ""
    if status not in (0, _NO_DEVICE):
        error = (text.value or b"").decode() or f"error {status}"
    return Driver(_version(), version(number.value), visible.value, error)


def gpus() -> tuple[Gpu, ...]:
    """Describe all GPUs, hidden ones included; nothing if NVML does not answer."""
    nvml = _open(NVML)
    if nvml is None or nvml.nvmlInit_v2():
        return ()
    try:
        count = c_uint()
        nvml.nvmlDeviceGetCount_v2(byref(count))
        return tuple(_gpu(nvml, index) for index in range(count.value))
    finally:
        nvml.nvmlShutdown()


def version(number: int) -> tuple[int, int]:
    """Return CUDA's number of a version, such as 12090, as (major, minor)."""
    return number // 1000, number % 1000 // 10


def _open(library: str) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(library)
    except OSError:
        return None


def _version() -> str:
    nvml = _open(NVML)
    if nvml is None or nvml.nvmlInit_v2():
        return ""
    text = ctypes.create_string_buffer(_TEXT)
    nvml.nvmlSystemGetDriverVersion(text, _TEXT)
    nvml.nvmlShutdown()
    return text.value.decode()


def _gpu(nvml: ctypes.CDLL, index: int) -> Gpu:
    device, memory = ctypes.c_void_p(), _Memory()
    name, major, minor = ctypes.create_string_buffer(_TEXT), c_int(), c_int()
    nvml.nvmlDeviceGetHandleByIndex_v2(index, byref(device))
    nvml.nvmlDeviceGetName(device, name, _TEXT)
    nvml.nvmlDeviceGetCudaComputeCapability(device, byref(major), byref(minor))
    nvml.nvmlDeviceGetMemoryInfo(device, byref(memory))
    capability = major.value, minor.value
    processes = _processes(nvml, device)
    return Gpu(name.value.decode(), capability, memory.total, memory.free, processes)


def _processes(nvml: ctypes.CDLL, device: ctypes.c_void_p) -> tuple[Process, ...]:
    most = 64
    count, processes = c_uint(most), (_Process * most)()
    try:
        ask = nvml.nvmlDeviceGetComputeRunningProcesses_v3
    except AttributeError:  # of a driver before 510
        return ()
    if ask(device, byref(count), processes):
        return ()
    return tuple(
        Process(x.pid, _name(x.pid), None if x.used == _UNKNOWN else x.used)
        for x in processes[: count.value]
    )


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
