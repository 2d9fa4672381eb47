"""Check the installation: ``python -m tfagents_batch.scripts.doctor``.

Each check runs in its own process, because it may crash, hang or lack TensorFlow, and
prints its findings as one JSON line. So modules are imported where they are used.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, NamedTuple

from tfagents_batch.errors import UserError
from tfagents_batch.scripts import app
from tfagents_batch.suggest import unknown

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PACKAGE = "tfagents_batch"
OK, WARNING, FAILED = "ok", "warning", "failed"
LITTLE_MEMORY = 2 << 30  # bytes; training may need more


class CheckResult(NamedTuple):
    """Result of a check.

    Attributes:
      name: name of the checked part.
      state: "ok", "warning" (training works with restrictions) or "failed".
      text: what was found.
      advice: what to do; empty if nothing.
    """

    name: str
    state: str
    text: str
    advice: str = ""


def main(argv: Sequence[str]) -> int:
    """Parse flags, run every check and print a row for each finding.

    Returns:
      Exit status: 0 if training works, warnings or not, else 65.
    """
    from tfagents_batch.config import option

    @dataclasses.dataclass(frozen=True)
    class Command:
        """Flags of this script."""

        json: bool = option(False, "print one JSON object instead of a table")
        seconds: float = option(
            300.0,
            "time limit of each check in seconds",
            above=0,
        )
        check: str = option("", "run only this check, in this process, and print JSON")
        debug: bool = option(False, "print tracebacks")

    command = app.parse(argv, Command)
    if command is None:
        return 0
    if command.check:
        if command.check not in CHECKS:
            raise UserError(unknown("check", command.check, list(CHECKS)))
        print(json.dumps([each._asdict() for each in CHECKS[command.check]()]))
        return 0
    findings = []
    for name in CHECKS:
        for each in check(name, command.seconds):
            findings.append(each)
            if not command.json:
                mark = "FAILED" if each.state == FAILED else each.state
                print(f"{mark:8} {each.name:15} {each.text}", flush=True)
                if each.advice:
                    print(f"{'':24} {each.advice}", flush=True)
    failed, warned = (
        ", ".join(each.name for each in findings if each.state == state)
        for state in (FAILED, WARNING)
    )
    if command.json:
        rows = [each._asdict() for each in findings]
        print(json.dumps({"ok": not failed, "findings": rows}))
    elif failed:
        print(f"\ntraining does not work here: see {failed}")
    else:
        print("\neverything works" + (f", but see {warned}" if warned else ""))
    return app.EXIT_DATA if failed else 0


def check(name: str, seconds: float) -> list[CheckResult]:
    """Run one check in its own process.

    Args:
      name: a key of ``CHECKS``.
      seconds: time limit, after which the process and its children are killed.
    """
    command = ["-m", "tfagents_batch.scripts.doctor", f"--check={name}"]
    with subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            printed, errors = process.communicate(timeout=seconds)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            advice = "find out what blocks it, or raise the limit by --seconds"
            text = f"took longer than {seconds:g} s"
            return [CheckResult(name, FAILED, text, advice)]
    with contextlib.suppress(ValueError, TypeError, IndexError):
        found = [CheckResult(**each) for each in json.loads(printed.splitlines()[-1])]
        if process.returncode == 0:  # otherwise it crashed after printing
            return found
    lines = errors.strip().splitlines() or [f"status {process.returncode}"]
    advice = f"to see the whole message: python {shlex.join(command)} --debug"
    return [CheckResult(name, FAILED, lines[-1], advice)]


def packages() -> list[CheckResult]:
    """Check the versions of Python and of all required packages."""
    from packaging.requirements import Requirement

    try:
        package = metadata.metadata(PACKAGE)
    except metadata.PackageNotFoundError:
        text, advice = "is imported but not installed", "install it by pip"
        return [CheckResult(PACKAGE, WARNING, text, advice)]
    wanted = f"python{package['Requires-Python'] or ''}"
    found = [_supported(Requirement(wanted), platform.python_version())]
    for each in _requirements(PACKAGE, ""):
        found.append(_supported(each, _version(each.name)))
    extras = package.get_all("Provides-Extra") or ()
    installed = [extra for extra in extras if _has_extra(PACKAGE, extra)]
    missing = ", ".join(x for x in extras if x not in installed) or "none"
    text = f"{', '.join(installed) or 'none'}; not installed: {missing}"
    return [*found, CheckResult("extras", OK, text)]


def machine() -> list[CheckResult]:
    """Report the cores and the memory that this process may use."""
    from tfagents_batch.envs.shared import cpus
    from tfagents_batch.machine import available_bytes

    cores = len(cpus.available())
    free = available_bytes()
    memory = "unknown" if free is None else f"{free / 2**30:.1f} GiB available"
    text = f"{platform.system()} {platform.machine()}, {cores} cores, memory {memory}"
    if free is not None and free < LITTLE_MEMORY:
        advice = "end other programs, or train with fewer environments (--num_envs)"
        return [CheckResult("machine", WARNING, text, advice)]
    return [CheckResult("machine", OK, text)]


def operations() -> list[CheckResult]:
    """Check that TensorFlow runs an operation."""
    import tensorflow as tf

    tf.ones([3]).numpy()
    gpus = len(tf.config.list_physical_devices("GPU"))
    return [CheckResult("operations", OK, f"TensorFlow runs; GPUs: {gpus}")]


def engine() -> list[CheckResult]:
    """Check the native environment engine; build it if necessary."""
    from tfagents_batch.envs.native import build

    try:
        build.library()
    except build.Unavailable as reason:
        advice = (
            "install a C++ compiler (Debian: apt install g++) or set CXX to one; until "
            "then environments use the portable backend, which is slower"
        )
        return [CheckResult("engine", WARNING, str(reason), advice)]
    return [CheckResult("engine", OK, "the native engine is built and loads")]


def cache() -> list[CheckResult]:
    """Check the store of compiled programs."""
    from tfagents_batch.training.runtime import compile_cache

    reason = compile_cache.enable(threads=1)  # like most runs
    if reason:
        advice = "every run recompiles until this is fixed"
        return [CheckResult("compile cache", WARNING, f"off: {reason}", advice)]
    return [CheckResult("compile cache", OK, f"in {compile_cache.root()}")]


def workers() -> list[CheckResult]:
    """Check that worker processes step environments."""
    import tensorflow as tf

    from tfagents_batch.envs.make import make_env

    with make_env("CartPole-v1", num_envs=4, num_workers=2) as env:
        state, _ = env.init(seed=1)
        for _ in range(10):
            state, _ = env.step(state, tf.zeros([4], tf.int32))
        env.check()
        text = f"2 processes step 4 CartPoles through the {env.backend} backend"
    return [CheckResult("workers", OK, text)]


CHECKS: dict[str, Callable[[], list[CheckResult]]] = {
    "packages": packages,
    "machine": machine,
    "operations": operations,
    "engine": engine,
    "compile cache": cache,
    "workers": workers,
}


def _requirements(package: str, extra: str) -> list[Requirement]:
    """Return the requirements of a package, or of one of its extras."""
    from packaging.requirements import Requirement

    needed = [Requirement(each) for each in metadata.requires(package) or ()]
    return [
        each
        for each in needed
        if (each.marker.evaluate({"extra": extra}) if each.marker else not extra)
    ]


def _version(name: str) -> str | None:
    """Return the installed version, or None."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(name)


def _has_extra(package: str, extra: str) -> bool:
    """Return whether all requirements of an extra are installed."""
    return all(
        _version(each.name)
        and all(_has_extra(each.name, inner) for inner in each.extras)
        for each in _requirements(package, extra)
    )


def _supported(needed: Requirement, version: str | None) -> CheckResult:
    """Compare an installed version with the supported range."""
    name, wanted = needed.name, needed.specifier
    advice = f'pip install "{name}{wanted}"'
    if name == "python":
        advice = f"create a virtual environment with Python {wanted}"
    if version is None:
        return CheckResult(name, FAILED, "is missing", advice)
    text = f"{version} (supported: {wanted or 'any'})"
    if wanted.contains(version, prereleases=True):
        return CheckResult(name, OK, text)
    return CheckResult(name, FAILED, text, advice)


if __name__ == "__main__":
    sys.exit(app.run(main, tensorflow=False))
