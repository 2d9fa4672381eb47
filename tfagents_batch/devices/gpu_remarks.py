"""GPUs: what the driver, TensorFlow and XLA need, and what to do if it is missing.

    print(problem() or "TensorFlow sees a GPU")

``problem`` and ``facts`` look at this machine. The other functions depend on their
arguments alone, and return a line about them and advice, or "" if nothing is wrong.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from tfagents_batch.devices import cuda, nvidia
from tfagents_batch.devices.cuda import Build, Compiler, Libraries
from tfagents_batch.devices.machine import amount
from tfagents_batch.devices.nvidia import Driver, Gpu

OLDEST_CUDA, OLDEST_DRIVER = (12, 0), "525.60.13"  # the first driver for CUDA 12
OLDEST_CUDNN = (9, 3)  # TensorFlow 2.21 refuses older ones
OLDEST_GPU, NEWEST_GPU = (6, 0), (9, 0)  # with machine code in TensorFlow's wheel
LITTLE_MEMORY = 2 << 30  # bytes; training may need more


class Remark(NamedTuple):
    """Finding on the machine, and advice; "" if there is none."""

    text: str
    advice: str = ""


class GpuFacts(NamedTuple):
    """Driver, GPUs and libraries of a machine."""

    driver: Driver | None  # None without a driver
    gpus: tuple[Gpu, ...]  # all GPUs of the machine, hidden ones included
    hidden: str | None  # value of ``CUDA_VISIBLE_DEVICES``; None if it is not set
    build: Build
    libraries: Libraries  # those of CUDA that TensorFlow finds
    seen: int  # number of GPUs that TensorFlow sees


def problem() -> str:
    """Return one line that says why TensorFlow sees no GPU; "" if it sees one."""
    return why_unseen(facts())


def facts() -> GpuFacts:
    """Look at this machine; TensorFlow is imported, and searches for GPUs."""
    import tensorflow as tf

    seen = len(tf.config.list_physical_devices("GPU"))  # before libraries are loaded
    folder = cuda.folder()
    return GpuFacts(
        nvidia.driver(),
        nvidia.gpus(),
        os.environ.get("CUDA_VISIBLE_DEVICES"),
        cuda.build(folder),
        cuda.libraries(folder),
        seen,
    )


def why_unseen(facts: GpuFacts) -> str:
    """Return why TensorFlow sees no GPU and what to do; "" if it sees one."""
    if facts.seen:
        return ""
    line = driver_line(facts.driver, facts.hidden)
    if facts.driver is None:
        return f"there is no NVIDIA driver ({nvidia.CUDA}); install one"
    if line.advice:
        return f"NVIDIA driver {line.text}; {line.advice}"
    if facts.gpus and all(gpu.capability < OLDEST_GPU for gpu in facts.gpus):
        line = gpu_line(facts.gpus[0])
    else:
        line = library_line(facts.build, facts.libraries, facts.seen)
    return f"{line.text}; {line.advice}"


def driver_line(driver: Driver | None, hidden: str | None) -> Remark:
    """Describe the driver."""
    if driver is None:
        return Remark(f"no NVIDIA driver ({nvidia.CUDA}), so training runs on the CPU")
    text = f"{driver.version or 'unknown version'}, for CUDA up to "
    text += _dotted(driver.cuda)
    if driver.cuda < OLDEST_CUDA:
        return Remark(
            f"{text}; TensorFlow needs {_dotted(OLDEST_CUDA)}",
            f"install NVIDIA driver {OLDEST_DRIVER} or newer",
        )
    if not driver.visible and not driver.error and hidden is not None:
        return Remark(
            f"{text}; CUDA_VISIBLE_DEVICES={hidden!r} hides every GPU",
            "unset CUDA_VISIBLE_DEVICES, or set it to the number of a GPU, such as 0",
        )
    if not driver.visible:
        return Remark(
            f"{text}; it finds no GPU: {driver.error or 'none is installed'}",
            "see whether nvidia-smi lists one; restart the machine after an update of "
            "the driver; start a container with --gpus=all",
        )
    return Remark(f"{text}; GPUs: {driver.visible}")


def gpus_line(gpus: tuple[Gpu, ...]) -> Remark:
    """Describe all GPUs, each in a line that begins with its number."""
    if not gpus:
        text = f"unknown, because {nvidia.NVML} describes none"
        return Remark(text, "see whether nvidia-smi lists one")
    lines = [gpu_line(gpu) for gpu in gpus]
    text, advice = (
        [f"{number}: {part}" for number, part in enumerate(parts) if part]
        for parts in zip(*lines, strict=True)
    )
    return Remark("\n".join(text), "\n".join(advice))


def gpu_line(gpu: Gpu) -> Remark:
    """Describe a GPU, its memory and the processes that use it."""
    text = f"{gpu.name}, compute capability {_dotted(gpu.capability)}, "
    text += f"{amount(gpu.free)} of {amount(gpu.total)} free"
    users = [_user(process) for process in gpu.processes]
    text += f"; used by {', '.join(users)}" if users else ""
    if gpu.capability < OLDEST_GPU:
        return Remark(
            f"{text}; TensorFlow needs {_dotted(OLDEST_GPU)}",
            "use another GPU or --device=cpu",
        )
    if gpu.free < LITTLE_MEMORY:
        advice = "end the processes that use it" if users else "end other programs"
        return Remark(text, f"{advice}, or choose another GPU by CUDA_VISIBLE_DEVICES")
    if gpu.capability[0] > NEWEST_GPU[0]:
        return Remark(
            f"{text}; TensorFlow has no machine code for it",
            "expect a slow first start, possibly half an hour: the driver compiles "
            "TensorFlow's operations then, and stores them in ~/.nv",
        )
    return Remark(text)


def _user(process: nvidia.Process) -> str:
    name = f"process {process.pid}"
    name += f" ({process.name})" if process.name else ""
    return name if process.used is None else f"{name}: {amount(process.used)}"


def library_line(build: Build, libraries: Libraries, seen: int) -> Remark:
    """Describe CUDA's libraries."""
    if not build.cuda:
        return Remark(
            f"TensorFlow {build.version} is built without CUDA",
            f"uninstall it, and {_install(build)}",
        )
    text = f"TensorFlow {build.version} is built for CUDA {build.cuda} and cuDNN "
    text += build.cudnn
    if libraries.missing:
        text += f", and does not find {', '.join(libraries.missing)}"
        if libraries.other:
            text += f"; {libraries.other} is of another CUDA version and no substitute"
        return Remark(text, _install(build))
    text += f"; it finds CUDA {_dotted(libraries.cuda)} and cuDNN "
    text += _dotted(libraries.cudnn)
    if libraries.cudnn and libraries.cudnn < OLDEST_CUDNN:
        needed = f"cuDNN {_dotted(OLDEST_CUDNN)} or newer"
        return Remark(f"{text}, but needs {needed}", _install(build))
    if not seen:
        advice = "run again with TF_CPP_MAX_VLOG_LEVEL=1 to read TensorFlow's reason"
        return Remark(f"{text}, but sees no GPU", advice)
    return Remark(text)


def compiler_line(build: Build, compiler: Compiler) -> Remark:
    """Describe what XLA needs to compile programs for a GPU."""
    version = f" {_dotted(compiler.version)}" if compiler.ptxas else ""
    paths = {f"ptxas{version}": compiler.ptxas, "libdevice.10.bc": compiler.libdevice}
    text = "; ".join(f"{name}: {path or 'not found'}" for name, path in paths.items())
    if all(paths.values()):
        return Remark(text)
    return Remark(
        f"{text}; XLA cannot compile for the GPU",
        f"{_install(build)}, or set XLA_FLAGS=--xla_gpu_cuda_data_dir=<folder of CUDA>",
    )


def _install(build: Build) -> str:
    return f'pip install "tensorflow[and-cuda]=={build.version}"'


def _dotted(version: tuple[int, ...] | None) -> str:
    return ".".join(map(str, version or ()))
