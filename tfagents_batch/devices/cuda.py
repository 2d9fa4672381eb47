"""CUDA's libraries and compiler, searched where TensorFlow and XLA search them.

The names and folders are those of TensorFlow 2.21, as its own functions
``TryDlopenCUDALibraries`` and ``CandidateCudaRoots`` give them.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import runpy
import subprocess
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from tfagents_batch.devices import nvidia

# Libraries that TensorFlow opens before it uses a GPU, and the folder of each in the
# pip packages of NVIDIA.
LIBRARIES = {
    "libcudart.so.12": "cuda_runtime",
    "libcublas.so.12": "cublas",
    "libcublasLt.so.12": "cublas",
    "libcufft.so.11": "cufft",
    "libcusolver.so.11": "cusolver",
    "libcusparse.so.12": "cusparse",
    "libcudnn.so.9": "cudnn",
}
OTHERS = {"libcudart.so.13": "cu13", "libcudart.so.11.0": "cuda_runtime"}
OLDEST_PTXAS, BROKEN_PTXAS = (11, 8, 0), (12, 3, 103)  # XLA uses none before or this
_VERSION_SECONDS = 10


class Build(NamedTuple):
    """TensorFlow and the versions it was built for; CUDA is "" if for the CPU only."""

    version: str
    cuda: str
    cudnn: str


class Libraries(NamedTuple):
    """The libraries that TensorFlow finds."""

    # File names of libraries that cannot be loaded, or that these need
    missing: tuple[str, ...] = ()
    # Version of the runtime, as (major, minor); None if it is missing
    cuda: tuple[int, int] | None = None
    # Version of cuDNN, as (major, minor, patch); None if it is missing
    cudnn: tuple[int, int, int] | None = None
    # Name of the runtime of another CUDA version, which is of no use; or ""
    other: str = ""


class Compiler(NamedTuple):
    """Files that XLA needs to compile for a GPU; a path is "" if it is not found."""

    ptxas: str = ""
    version: tuple[int, ...] = ()
    libdevice: str = ""


def folder() -> Path:
    """Return TensorFlow's folder, without importing TensorFlow."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("TensorFlow is not installed")
    return Path(spec.submodule_search_locations[0])


def build(tensorflow: Path) -> Build:
    """Return the versions that a TensorFlow was built for."""
    path = tensorflow / "python/platform/build_info.py"
    info = runpy.run_path(str(path))["build_info"]
    version = metadata.version("tensorflow")
    return Build(version, info.get("cuda_version", ""), info.get("cudnn_version", ""))


def libraries(tensorflow: Path) -> Libraries:
    """Load the libraries as TensorFlow does: from pip packages, else the system's.

    Let TensorFlow search for GPUs before: it finds libraries that are loaded already.
    """
    packages = tensorflow.parent / "nvidia"
    opened = {name: _load(packages, name, at) for name, at in LIBRARIES.items()}
    missing = {library for library in opened.values() if isinstance(library, str)}
    others = {name: _load(packages, name, at) for name, at in OTHERS.items()}
    other = [name for name, library in others.items() if not isinstance(library, str)]
    runtime, cudnn = opened["libcudart.so.12"], opened["libcudnn.so.9"]
    return Libraries(
        tuple(sorted(missing)),
        None if isinstance(runtime, str) else _runtime_version(runtime),
        None if isinstance(cudnn, str) else _cudnn_version(cudnn),
        other[0] if missing and other else "",
    )


def _load(packages: Path, name: str, package: str) -> ctypes.CDLL | str:
    """Load a library; if that fails, return the name of the file that is missing."""
    path = packages / package / "lib" / name
    try:
        return ctypes.CDLL(str(path) if path.exists() else name)
    except OSError as error:  # "libnvJitLink.so.12: cannot open shared object file: .."
        return Path(str(error).partition(":")[0]).name


def _runtime_version(runtime: ctypes.CDLL) -> tuple[int, int]:
    number = ctypes.c_int()
    runtime.cudaRuntimeGetVersion(ctypes.byref(number))
    return nvidia.version(number.value)


def _cudnn_version(cudnn: ctypes.CDLL) -> tuple[int, int, int]:
    cudnn.cudnnGetVersion.restype = ctypes.c_size_t
    number = cudnn.cudnnGetVersion()
    return number // 10_000, number % 10_000 // 100, number % 100


def compiler(tensorflow: Path, environment: Mapping[str, str]) -> Compiler:
    """Find ptxas and libdevice as XLA does, by ``XLA_FLAGS`` and ``PATH``."""
    flag = re.findall(
        r"--xla_gpu_cuda_data_dir=(\S+)", environment.get("XLA_FLAGS", "")
    )
    preferred = Path(flag[-1] if flag else "cuda_sdk_lib")
    roots = _roots(tensorflow)
    commands = (Path(x) for x in environment.get("PATH", "").split(":") if x)
    binaries = [preferred / "bin", *commands, *(root / "bin" for root in roots)]
    ptxas, version = _first_ptxas(at / "ptxas" for at in binaries)
    codes = (
        at / "nvvm/libdevice/libdevice.10.bc" for at in (preferred, *roots, Path())
    )
    libdevice = next((str(path) for path in codes if path.is_file()), "")
    return Compiler(ptxas, version, libdevice)


def _roots(tensorflow: Path) -> list[Path]:
    """Return the folders of CUDA in which XLA searches."""
    site = tensorflow.parent
    packages = (at / "nvidia/cuda_nvcc" for at in (site, site.parent))
    prefixes = site.parents[2:4]  # of a Conda environment, for example
    system = Path("/usr/local/cuda"), Path("/opt/cuda")
    return [*system, *packages, tensorflow / "cuda", *prefixes]


def _first_ptxas(paths: Iterable[Path]) -> tuple[str, tuple[int, ...]]:
    """Return path and version of the first ptxas that XLA accepts."""
    for path in paths:
        if not path.is_file():
            continue
        try:
            done = subprocess.run(
                [path, "--version"],
                capture_output=True,
                text=True,
                timeout=_VERSION_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        match = re.search(r"\bV(\d+)\.(\d+)\.(\d+)", done.stdout)
        version = tuple(map(int, match.groups())) if match else ()
        if version >= OLDEST_PTXAS and version != BROKEN_PTXAS:
            return str(path), version
    return "", ()
