"""What ``scripts.doctor`` looks at: ``python -m tfagents_batch.training.examine NAME``.

Each runs in a process of its own, which may crash, hang or be without TensorFlow, and
prints its findings as one JSON line. Imports stand where they are used for that.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import NamedTuple

PACKAGE = "tfagents_batch"
OK, WARNING, FAILED = "ok", "warning", "failed"
LITTLE_MEMORY = 2 << 30  # bytes, below which training may not fit
# What an extra brings, by the modules that show that it is there.
EXTRAS = {
    "gym": ("gym",),
    "atari": ("ale_py", "cv2"),
    "mujoco": ("mujoco",),
    "box2d": ("Box2D",),
    "envpool": ("envpool",),
    "dm": ("dm_env",),
    "video": ("imageio_ffmpeg", "pygame"),
    "plot": ("matplotlib",),
    "wandb": ("wandb",),
    "mlflow": ("mlflow",),
}


class Finding(NamedTuple):
    """What was found.

    Attributes:
      name: of what was looked at.
      state: "ok", "warning" (training works, with less) or "failed".
      text: what is there.
      advice: what to do; empty if all is well.
    """

    name: str
    state: str
    text: str
    advice: str = ""


def python() -> list[Finding]:
    """The interpreter."""
    found = platform.python_version()
    wanted = ""
    with contextlib.suppress(metadata.PackageNotFoundError):
        wanted = metadata.metadata(PACKAGE).get("Requires-Python") or ""
    if within(found, wanted):
        return [Finding("python", OK, f"{found}{_of(wanted)}")]
    advice = f"make a virtual environment with a Python {wanted}"
    return [Finding("python", FAILED, f"{found}{_of(wanted)}", advice)]


def packages() -> list[Finding]:
    """What the package needs, by what its installation says."""
    try:
        needed = metadata.requires(PACKAGE) or []
    except metadata.PackageNotFoundError:
        text, advice = "is not installed, only imported", "pip install it"
        return [Finding(PACKAGE, WARNING, text, advice)]
    found = []
    for each in needed:
        name, wanted = re.match(r"([\w.-]+)(?:\[[^]]*\])?\s*([^;]*)", each).groups()
        if "extra ==" in each:
            continue
        install = f'pip install "{name}{wanted.strip()}"'
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            found.append(Finding(name, FAILED, "is missing", install))
            continue
        good = within(version, wanted)
        state, advice = (OK, "") if good else (FAILED, install)
        found.append(Finding(name, state, f"{version}{_of(wanted)}", advice))
    return sorted(found)


def tensorflow() -> list[Finding]:
    """Does TensorFlow run an operation?"""
    import tensorflow as tf

    total = float(tf.reduce_sum(tf.ones([3])))
    gpus = len(tf.config.list_physical_devices("GPU"))
    if total != 3:
        advice = "install tensorflow again, in a virtual environment of its own"
        return [Finding("operations", FAILED, f"1 + 1 + 1 is {total}", advice)]
    return [Finding("operations", OK, f"TensorFlow runs; GPUs: {gpus}")]


def engine() -> list[Finding]:
    """The native environment engine, which is built if need be."""
    from tfagents_batch.envs.native import build

    try:
        build.library()
    except build.Unavailable as reason:
        advice = (
            "install a C++ compiler (Debian: apt install g++) or set CXX to one; until "
            "then environments take the portable route, which is slower"
        )
        return [Finding("engine", WARNING, str(reason), advice)]
    return [Finding("engine", OK, "the native engine is built and loads")]


def machine() -> list[Finding]:
    """Cores and memory that this process may use."""
    from tfagents_batch.envs import layout, waiting

    cores = len(waiting.available())
    free = layout.available_memory()
    memory = "unknown" if free is None else f"{free / 2**30:.1f} GiB available"
    text = f"{platform.system()} {platform.machine()}, {cores} cores, memory {memory}"
    if free is not None and free < LITTLE_MEMORY:
        advice = "end other programs, or train with fewer environments (--num_envs)"
        return [Finding("machine", WARNING, text, advice)]
    return [Finding("machine", OK, text)]


def shared_memory() -> list[Finding]:
    """Memory that workers share with the learner; it needs no /dev/shm."""
    import mmap

    size = 16 << 20
    folder = "no /dev/shm"
    with contextlib.suppress(OSError):
        folder = f"/dev/shm has {shutil.disk_usage('/dev/shm').free / 2**20:,.0f} MiB"
    try:
        descriptor = os.memfd_create(PACKAGE, os.MFD_CLOEXEC)
        os.posix_fallocate(descriptor, 0, size)
        mmap.mmap(descriptor, size).close()
        os.close(descriptor)
    except (AttributeError, OSError) as error:
        advice = "worker processes need it: use --num_workers=0, or tf/ environments"
        return [Finding("shared memory", WARNING, str(error), advice)]
    return [Finding("shared memory", OK, f"can be made; {folder} free")]


def cache() -> list[Finding]:
    """The store of compiled programs."""
    from tfagents_batch.training import compile_cache

    folder = compile_cache.root()
    reason = compile_cache.enable(threads=1)  # as most runs have it
    sizes = []
    with contextlib.suppress(OSError):  # there is none yet, or somebody prunes
        sizes = [path.stat().st_size for path in compile_cache.stored(folder)]
    text = f"{len(sizes)} files, {sum(sizes) / 2**20:.1f} MiB in {folder}"
    if reason:
        advice = "runs compile anew at each start until that is mended"
        return [Finding("compile cache", WARNING, f"off: {reason}", advice)]
    return [Finding("compile cache", OK, text)]


def extras() -> list[Finding]:
    """Optional packages."""
    there = [name for name, modules in EXTRAS.items() if all(map(_is_there, modules))]
    missing = [name for name in EXTRAS if name not in there]
    text = (
        f"{', '.join(there) or 'none'}; not installed: {', '.join(missing) or 'none'}"
    )
    return [Finding("extras", OK, text)]


def workers() -> list[Finding]:
    """CartPoles, stepped in worker processes."""
    import tensorflow as tf

    from tfagents_batch.envs.make import make_env

    with make_env("CartPole-v1", num_envs=4, num_workers=2) as env:
        state, _ = env.init(seed=1)
        for _ in range(10):
            state, timestep = env.step(state, tf.zeros([4], tf.int32))
        env.check()
        seen = timestep.observation.shape.as_list()
    if seen != [4, 4]:
        advice = "report this, with everything that the doctor says"
        return [Finding("workers", FAILED, f"observations are {seen}", advice)]
    text = f"4 CartPoles in 2 processes step, by the {env.route} route"
    return [Finding("workers", OK, text)]


LOOKS: dict[str, Callable[[], list[Finding]]] = {
    "python": python,
    "packages": packages,
    "machine": machine,
    "shared memory": shared_memory,
    "extras": extras,
    "operations": tensorflow,
    "engine": engine,
    "compile cache": cache,
    "workers": workers,
}


def within(version: str, wanted: str) -> bool:
    """Whether a version is in a range such as ``>=2.21,<2.22``; by its numbers only."""
    have = _numbers(version)
    for relation, bound in re.findall(r"(>=|<=|==|!=|>|<)\s*([\d.]+)", wanted):
        width = max(len(have), len(_numbers(bound)))
        a, b = (x + (0,) * (width - len(x)) for x in (have, _numbers(bound)))
        holds = {
            **{">=": a >= b, "<=": a <= b, "==": a == b, "!=": a != b},
            **{">": a > b, "<": a < b},
        }
        if not holds[relation]:
            return False
    return True


def main(argv: Sequence[str]) -> int:
    """Look, and print what was found."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    findings = LOOKS[argv[0]]()
    print(json.dumps([each._asdict() for each in findings]))
    return 0


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(x) for x in re.match(r"[\d.]*", version)[0].split(".") if x)


def _of(wanted: str) -> str:
    return f" (supported: {wanted.strip()})" if wanted.strip() else ""


def _is_there(module: str) -> bool:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None  # else a folder of that name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
