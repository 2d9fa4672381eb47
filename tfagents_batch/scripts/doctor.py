"""Check the installation: ``tfagents-batch doctor``.

Checks that may crash or hang run in a second process. A row has the name of a check
before the check begins, so that the row of a crash has no result.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import TYPE_CHECKING

from tfagents_batch.scripts import app

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from tfagents_batch.training.diagnostics.gpu import Line

PACKAGE = "tfagents_batch"
OK, WARNING, FAILED = "ok", "warning", "FAILED"
LITTLE_MEMORY = 2 << 30  # bytes; training may need more
Result = tuple[str, str, str]  # state, what was found, and what to do (or "")


def main(argv: Sequence[str]) -> int:
    """Parse flags, run every check and print a row for each.

    Returns:
      Exit status: 0 if training works, warnings or not, else 65.
    """
    from tfagents_batch.config import option

    @dataclasses.dataclass(frozen=True)
    class Command:
        """Flags of this script."""

        seconds: float = option(
            600.0, "time limit of the checks in a second process, in seconds", above=0
        )
        debug: bool = option(False, "print tracebacks")

    command = app.parse(argv, Command)
    if command is None:
        return 0
    works = all([*packages(), run("machine", machine), isolated(command.seconds)])
    print(f"\ntraining {'works' if works else 'does not work'} on this machine")
    return 0 if works else app.EXIT_DATA


def run(name: str, check: Callable[[], Result]) -> bool:
    """Run a check and print its row; return False if it failed."""
    print(f"{name:15} ", end="", flush=True)
    try:
        state, text, advice = check()
    except Exception as error:
        state, text, advice = FAILED, f"{type(error).__name__}: {error}", ""
    print(f"{state:8} {_indented(text)}", flush=True)
    if advice:
        print(f"{'':24} {_indented(advice)}", flush=True)
    return state != FAILED


def _indented(text: str) -> str:
    return text.replace("\n", f"\n{'':24} ")


def packages() -> list[bool]:
    """Check the versions of Python and of all required packages."""
    from packaging.requirements import Requirement

    try:
        python = metadata.metadata(PACKAGE)["Requires-Python"] or ""
    except metadata.PackageNotFoundError:
        result = WARNING, "is imported but not installed", "install it by pip"
        return [run(PACKAGE, lambda: result)]
    needed = [Requirement(text) for text in metadata.requires(PACKAGE) or ()]
    needed = [each for each in needed if not each.marker or each.marker.evaluate()]
    return [
        run(each.name, functools.partial(supported, each))
        for each in [Requirement(f"python{python}"), *needed]
    ]


def supported(needed: Requirement) -> Result:
    """Compare the installed version of a package with the supported range."""
    name, wanted = needed.name, needed.specifier
    advice = f'pip install "{name}{wanted}"'
    if name == "python":
        version = platform.python_version()
        advice = f"create a virtual environment with Python {wanted}"
    else:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            return FAILED, "is missing", advice
    text = f"{version} (supported: {wanted or 'any'})"
    if wanted.contains(version, prereleases=True):
        return OK, text, ""
    return FAILED, text, advice


def machine() -> Result:
    """Report the cores and the memory that this process may use."""
    from tfagents_batch.envs.shared import cpus
    from tfagents_batch.machine import available_bytes

    free = available_bytes()
    memory = "unknown" if free is None else f"{free / 2**30:.1f} GiB available"
    text = f"{platform.system()} {platform.machine()}, {len(cpus.available())} cores, "
    text += f"memory {memory}"
    if free is not None and free < LITTLE_MEMORY:
        advice = "end other programs, or train with fewer environments (--num_envs)"
        return WARNING, text, advice
    return OK, text, ""


def isolated(seconds: float) -> bool:
    """Run ``checks`` in a process; return False if one fails, crashes or hangs.

    Args:
      seconds: time limit, after which the process and its children are killed.
    """
    code = "from tfagents_batch.scripts.doctor import checks, run\n"
    code += "raise SystemExit(not all([run(*check) for check in checks().items()]))"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            status = process.wait(seconds)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            print(f"{FAILED:8} took longer than {seconds:g} s")
            return False
    if status not in (0, 1):
        print(f"{FAILED:8} crashed with status {status}")
    return status == 0


def imports() -> Result:
    """Check that TensorFlow can be imported."""
    app.import_tensorflow()
    return OK, "TensorFlow can be imported", ""


def driver() -> Result:
    """Check the NVIDIA driver."""
    from tfagents_batch.training.diagnostics import gpu, nvidia

    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    return _result(gpu.driver_line(nvidia.driver(), hidden))


def gpus() -> Result:
    """Check each GPU of the machine, and who uses its memory."""
    from tfagents_batch.training.diagnostics import gpu, nvidia

    return _result(gpu.gpus_line(nvidia.gpus()))


def libraries() -> Result:
    """Check CUDA's libraries, after TensorFlow has searched for GPUs."""
    import tensorflow as tf

    from tfagents_batch.training.diagnostics import cuda, gpu

    seen, folder = len(tf.config.list_physical_devices("GPU")), cuda.folder()
    found = cuda.libraries(folder)
    return _result(gpu.library_line(cuda.build(folder), found, seen))


def compiler() -> Result:
    """Check what XLA needs to compile programs for a GPU."""
    from tfagents_batch.training.diagnostics import cuda, gpu

    folder = cuda.folder()
    found = cuda.compiler(folder, os.environ)
    return _result(gpu.compiler_line(cuda.build(folder), found))


def _result(line: Line) -> Result:
    """Return a warning if there is advice: training works without a GPU."""
    return WARNING if line.advice else OK, *line


def operations() -> Result:
    """Check that TensorFlow runs an operation, on a GPU if it sees one."""
    import tensorflow as tf

    from tfagents_batch import placement

    gpu = placement.Placement(update=placement.GPU)
    placement.claim(gpu)  # without taking all of its memory
    tf.ones([3]).numpy()
    gpus = len(tf.config.list_physical_devices("GPU"))
    return OK, f"TensorFlow runs; GPUs: {gpus}", ""


def engine() -> Result:
    """Check the native environment engine; build it if necessary."""
    from tfagents_batch.envs.native import build

    try:
        build.library()
    except build.Unavailable as reason:
        advice = (
            "install a C++ compiler (Debian: apt install g++) or set CXX to one; until "
            "then environments use the portable backend, which is slower"
        )
        return WARNING, str(reason), advice
    return OK, "the native engine is built and loads", ""


def cache() -> Result:
    """Check the store of compiled programs."""
    from tfagents_batch.training import compilation

    reason = compilation.enable(threads=1)  # like most runs
    if reason:
        return WARNING, f"off: {reason}", "every run recompiles until this is fixed"
    return OK, f"in {compilation.root()}", ""


def workers() -> Result:
    """Check that worker processes step environments."""
    import tensorflow as tf

    from tfagents_batch.envs.make import make_env

    with make_env("CartPole-v1", num_envs=4, num_workers=2) as env:
        state, _ = env.init(seed=1)
        for _ in range(10):
            state, _ = env.step(state, tf.zeros([4], tf.int32))
        env.check()
        text = f"2 processes step 4 CartPoles through the {env.backend} backend"
    return OK, text, ""


CHECKS: dict[str, Callable[[], Result]] = {
    "engine": engine,
    "GPU driver": driver,
    "GPUs": gpus,  # before TensorFlow takes memory
    "import": imports,
    "compile cache": cache,  # before TensorFlow runs
    "operations": operations,
    "CUDA": libraries,
    "GPU compiler": compiler,
    "workers": workers,
}
NEED_DRIVER = ("GPUs", "CUDA", "GPU compiler")


def checks() -> dict[str, Callable[[], Result]]:
    """Return the checks that apply to this machine, in their order, by name."""
    from tfagents_batch.training.diagnostics import nvidia

    skipped = () if nvidia.installed() else NEED_DRIVER
    return {name: check for name, check in CHECKS.items() if name not in skipped}


if __name__ == "__main__":
    sys.exit(app.run(main, tensorflow=False))
