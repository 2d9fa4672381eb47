"""Checks of ``scripts.doctor``: ``python -m tfagents_batch.training.examine NAME``.

Each runs in a process of its own, which may crash, hang or be without TensorFlow, and
prints its findings as one JSON line. Imports stand where they are used for that.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PACKAGE = "tfagents_batch"
OK, WARNING, FAILED = "ok", "warning", "failed"
LITTLE_MEMORY = 2 << 30  # bytes, below which training may not fit


class Finding(NamedTuple):
    """Result of a check.

    Attributes:
      name: of what was checked.
      state: "ok", "warning" (training works, with less) or "failed".
      text: what is there.
      advice: what to do; empty if all is well.
    """

    name: str
    state: str
    text: str
    advice: str = ""


def packages() -> list[Finding]:
    """Check Python and all packages against what the installation asks for."""
    from packaging.requirements import Requirement

    try:
        mine = metadata.metadata(PACKAGE)
    except metadata.PackageNotFoundError:
        text, advice = "is not installed, only imported", "pip install it"
        return [Finding(PACKAGE, WARNING, text, advice)]
    python = Requirement(f"python{mine['Requires-Python'] or ''}")
    found = [_supported(python, platform.python_version())]
    needed = [Requirement(each) for each in metadata.requires(PACKAGE) or ()]
    for each in needed:
        if each.marker is None or each.marker.evaluate({"extra": ""}):
            found.append(_supported(each, _version(each)))
    states: dict[bool, list[str]] = {True: [], False: []}
    for extra in mine.get_all("Provides-Extra") or ():
        states[_has_extra(PACKAGE, extra)].append(extra)
    there, missing = (", ".join(states[x]) or "none" for x in (True, False))
    found.append(Finding("extras", OK, f"{there}; not installed: {missing}"))
    return found


def machine() -> list[Finding]:
    """Report the cores and the memory that this process may use."""
    from tfagents_batch.envs import layout, waiting

    cores = len(waiting.available())
    free = layout.available_memory()
    memory = "unknown" if free is None else f"{free / 2**30:.1f} GiB available"
    text = f"{platform.system()} {platform.machine()}, {cores} cores, memory {memory}"
    if free is not None and free < LITTLE_MEMORY:
        advice = "end other programs, or train with fewer environments (--num_envs)"
        return [Finding("machine", WARNING, text, advice)]
    return [Finding("machine", OK, text)]


def operations() -> list[Finding]:
    """Check that TensorFlow runs an operation."""
    import tensorflow as tf

    tf.ones([3]).numpy()
    gpus = len(tf.config.list_physical_devices("GPU"))
    return [Finding("operations", OK, f"TensorFlow runs; GPUs: {gpus}")]


def engine() -> list[Finding]:
    """Check the native environment engine, which is built if need be."""
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


def cache() -> list[Finding]:
    """Check the store of compiled programs."""
    from tfagents_batch.training import compile_cache

    reason = compile_cache.enable(threads=1)  # as most runs have it
    if reason:
        advice = "every run recompiles until this is fixed"
        return [Finding("compile cache", WARNING, f"off: {reason}", advice)]
    return [Finding("compile cache", OK, f"in {compile_cache.root()}")]


def workers() -> list[Finding]:
    """Check that worker processes step environments."""
    import tensorflow as tf

    from tfagents_batch.envs.make import make_env

    with make_env("CartPole-v1", num_envs=4, num_workers=2) as env:
        state, _ = env.init(seed=1)
        for _ in range(10):
            state, _ = env.step(state, tf.zeros([4], tf.int32))
        env.check()
        text = f"4 CartPoles in 2 processes step, by the {env.route} route"
    return [Finding("workers", OK, text)]


CHECKS: dict[str, Callable[[], list[Finding]]] = {
    "packages": packages,
    "machine": machine,
    "operations": operations,
    "engine": engine,
    "compile cache": cache,
    "workers": workers,
}


def main(argv: Sequence[str]) -> int:
    """Run a check and print its findings."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    findings = CHECKS[argv[0]]()
    print(json.dumps([each._asdict() for each in findings]))
    return 0


def _version(requirement: Requirement) -> str | None:
    """Return the installed version, None if there is none."""
    try:
        return metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return None


def _has_extra(package: str, extra: str) -> bool:
    """Return whether everything is installed that an extra of a package brings."""
    from packaging.requirements import Requirement

    needed = [Requirement(each) for each in metadata.requires(package) or ()]
    return all(
        _version(each) and all(_has_extra(each.name, inner) for inner in each.extras)
        for each in needed
        if each.marker and each.marker.evaluate({"extra": extra})
    )


def _supported(requirement: Requirement, version: str | None) -> Finding:
    """Compare an installed version with the range that is needed."""
    name, wanted = requirement.name, requirement.specifier
    advice = f'pip install "{name}{wanted}"'
    if name == "python":
        advice = f"make a virtual environment with a Python {wanted}"
    if version is None:
        return Finding(name, FAILED, "is missing", advice)
    text = f"{version} (supported: {wanted or 'any'})"
    if wanted.contains(version, prereleases=True):
        return Finding(name, OK, text)
    return Finding(name, FAILED, text, advice)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
