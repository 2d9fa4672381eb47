"""Check the installation: ``tfagents-batch doctor``.

Checks that may crash or hang run in a second process. What libraries write there is
shown after the table, and only if a check failed.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import metadata

from packaging.requirements import Requirement

from tfagents_batch.config import option
from tfagents_batch.devices import cuda, gpu_remarks, nvidia
from tfagents_batch.devices.gpu_remarks import LITTLE_MEMORY, Remark
from tfagents_batch.scripts import command_line
from tfagents_batch.training.log import console

PACKAGE = "tfagents_batch"
OK, WARNING, FAILED = "ok", "warning", "FAILED"


@dataclasses.dataclass(frozen=True)
class DoctorCommand:
    """Flags of this script."""

    seconds: float = option(
        600.0, "time limit of the checks in a second process, in seconds", above=0
    )
    debug: bool = option(False, "print tracebacks")


def main(argv: Sequence[str]) -> int:
    """Parse flags, run every check and print a row for each.

    Returns:
      Exit status: 0 if training works, warnings or not, else 65.
    """
    command = command_line.parse(argv, DoctorCommand)
    works = all([*packages(), run("machine", machine), isolated(command.seconds)])
    command_line.show(
        f"\ntraining {'works' if works else 'does not work'} on this machine"
    )
    return 0 if works else command_line.EXIT_DATA


def run(name: str, check: Callable[[], Remark], wrong: str = WARNING) -> bool:
    """Run a check and print its row; return False if it failed.

    The check returns what it found and advice; with advice, the state is ``wrong``.
    """
    try:
        with console.doing(f"checking {name}"):
            text, advice = check()
        state = wrong if advice else OK
    except Exception as error:
        state, text, advice = FAILED, f"{type(error).__name__}: {error}", ""
    _show(name, state, f"{text}\n{advice}" if advice else text)
    return state != FAILED


def _show(name: str, state: str, text: str) -> None:
    """Print a row."""
    text = text.replace("\n", f"\n{'':24} ")
    with console.aside():
        print(f"{name:15} {state:8} {text}", flush=True)


def packages() -> list[bool]:
    """Check the versions of Python and of all required packages."""
    try:
        python = metadata.metadata(PACKAGE)["Requires-Python"] or ""
    except metadata.PackageNotFoundError:
        missing = Remark("is imported but not installed", "install it by pip")
        return [run(PACKAGE, lambda: missing)]
    needed = [Requirement(text) for text in metadata.requires(PACKAGE) or ()]
    needed = [
        package for package in needed if not package.marker or package.marker.evaluate()
    ]
    return [
        run(package.name, functools.partial(supported, package), FAILED)
        for package in [Requirement(f"python{python}"), *needed]
    ]


def supported(needed: Requirement) -> Remark:
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
            return Remark("is missing", advice)
    fits = wanted.contains(version, prereleases=True)
    text = f"{version} (supported: {wanted or 'any'})"
    return Remark(text, "" if fits else advice)


def machine() -> Remark:
    """Report the cores and the memory that this process may use."""
    from tfagents_batch.devices.machine import available_bytes
    from tfagents_batch.envs.shared import cpus

    free = available_bytes()
    memory = "unknown" if free is None else f"{free / 2**30:.1f} GiB available"
    text = f"{platform.system()} {platform.machine()}, {len(cpus.available())} cores, "
    text += f"memory {memory}"
    little = free is not None and free < LITTLE_MEMORY
    advice = "end other programs, or train with fewer environments (--num_envs)"
    return Remark(text, advice if little else "")


def isolated(seconds: float) -> bool:
    """Run ``checks`` in a process, and return whether all of them passed.

    They did not if one fails, crashes or hangs, or if the process cannot be started. It
    and its children are killed after a number of seconds.
    """
    code = "import sys; from tfagents_batch.scripts import doctor; "
    code += "sys.exit(doctor.second(*map(int, sys.argv[1:])))"
    console.started()  # the second process has its own line
    with tempfile.TemporaryFile() as name, tempfile.TemporaryFile() as messages:
        files = name.fileno(), messages.fileno()
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", code, *map(str, files)],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=files,
            )
        except OSError as error:  # such as a Python that this user may not execute
            text = f"{sys.executable} cannot be started: {error.strerror}"
            _show("second process", FAILED, text)
            return False
        with process:
            try:
                exited, problem = process.wait(seconds), ""
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                exited, problem = 1, f"took longer than {seconds:g} s"
        if exited not in (0, 1):
            problem = f"crashed with status {exited}"
        if problem:
            name.seek(0)
            _show(name.read().decode().strip() or "second process", FAILED, problem)
        messages.seek(0)
        if exited and (text := messages.read().decode(errors="replace")):
            command_line.say(text)
    return exited == 0


def second(name: int, messages: int) -> int:
    """Run ``checks`` in the second process, and return its exit status.

    The arguments are descriptors of files. The first one gets the name of each check
    before it begins; the second one takes the place of stderr.
    """
    works = True
    with console.starting(reason=""):  # which keeps the stderr that it finds
        os.dup2(messages, 2)
        for label, check in checks().items():
            os.pwrite(name, f"{label:15}".encode(), 0)
            works &= run(label, check)
    return 0 if works else 1


def imports() -> Remark:
    """Check that TensorFlow can be imported."""
    command_line.import_tensorflow()
    return Remark("TensorFlow can be imported")


def driver() -> Remark:
    """Check the NVIDIA driver."""
    return gpu_remarks.driver_line(
        nvidia.driver(), os.environ.get("CUDA_VISIBLE_DEVICES")
    )


def gpus() -> Remark:
    """Check each GPU of the machine, and who uses its memory."""
    return gpu_remarks.gpus_line(nvidia.gpus())


def libraries() -> Remark:
    """Check CUDA's libraries, after TensorFlow has searched for GPUs."""
    facts = gpu_remarks.facts()
    return gpu_remarks.library_line(facts.build, facts.libraries, facts.seen)


def compiler() -> Remark:
    """Check what XLA needs to compile programs for a GPU."""
    folder = cuda.folder()
    return gpu_remarks.compiler_line(
        cuda.build(folder), cuda.compiler(folder, os.environ)
    )


def operations() -> Remark:
    """Check that TensorFlow runs an operation, on a GPU if it sees one."""
    import tensorflow as tf

    from tfagents_batch.devices import placement

    placement.claim(placement.Placement(update=placement.GPU))  # not all of its memory
    tf.ones([3]).numpy()
    gpus = len(tf.config.list_physical_devices("GPU"))
    return Remark(f"TensorFlow runs; GPUs: {gpus}")


def engine() -> Remark:
    """Check the native environment engine; build it if necessary."""
    from tfagents_batch.envs.native import build

    try:
        build.library()
    except build.Unavailable as reason:
        advice = (
            "install a C++ compiler (Debian: apt install g++) or set CXX to one; until "
            "then environments use the portable backend, which is slower"
        )
        return Remark(str(reason), advice)
    return Remark("the native engine is built and loads")


def cache() -> Remark:
    """Check the store of compiled programs."""
    from tfagents_batch.training import compilation

    reason = compilation.enable(threads=1)  # like most runs
    if reason:
        return Remark(f"off: {reason}", "every run recompiles until this is fixed")
    return Remark(f"in {compilation.root()}")


def workers() -> Remark:
    """Check that worker processes step environments."""
    import tensorflow as tf

    from tfagents_batch.envs.make import make_env

    with make_env("CartPole-v1", num_envs=4, num_workers=2) as env:
        state, _ = env.init(seed=1)
        for _ in range(10):
            state, _ = env.step(state, tf.zeros([4], tf.int32))
        env.check()
        return Remark(f"2 processes step 4 CartPoles through the {env.backend} backend")


CHECKS: dict[str, Callable[[], Remark]] = {
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


def checks() -> dict[str, Callable[[], Remark]]:
    """Return the checks that apply to this machine, in their order, by name."""
    skipped = () if nvidia.installed() else NEED_DRIVER
    return {name: check for name, check in CHECKS.items() if name not in skipped}
