"""Which state of somebody's code a run was started from, as far as git knows."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SECONDS = 2.0  # that git has to say everything
# Nothing that a repository configures is run, and nothing in it is written.
_GIT = (
    *("git", "--no-optional-locks"),
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
)
_STATUS = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty")


def state(seconds: float = SECONDS) -> dict[str, Any] | None:
    """Of the checkout that the working folder is in, else the main script's.

    Args:
      seconds: after which no more is asked.

    Returns:
      ``commit``, its hash, and ``changed``, whether a tracked file differs from it
      (None if that took too long); None outside of a checkout, or without git.
    """
    deadline = time.monotonic() + seconds
    for folder in _folders():
        commit = _ask(folder, deadline, "rev-parse", "--verify", "--quiet", "HEAD")
        if commit:
            changes = _ask(folder, deadline, *_without_filters(folder, deadline))
            changed = None if changes is None else bool(changes)
            return {"commit": commit, "changed": changed}
    return None


def _folders() -> list[Path]:
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    found = []
    for path in (".", main and os.path.dirname(main)):
        try:
            if path is not None:
                found.append(Path(path).resolve(strict=True))
        except (OSError, RuntimeError):  # it is gone
            continue
    return list(dict.fromkeys(found))


def _without_filters(folder: Path, deadline: float) -> tuple[str, ...]:
    """The question for changes, with no filter that the configuration names.

    They are commands too, and would be run on files that may have changed.
    """
    names = _ask(
        folder, deadline, "config", "--name-only", "--get-regexp", r"^filter\."
    )
    off: list[str] = []
    for name in dict.fromkeys((names or "").splitlines()):
        value = "false" if name.endswith(".required") else ""
        off += ["-c", f"{name}={value}"]
    return (*off, *_STATUS)


def _ask(folder: Path, deadline: float, *command: str) -> str | None:
    """What git prints; None if it cannot or does not in time."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    try:
        done = subprocess.run(
            [*_GIT, *command],
            cwd=folder,
            env=inherited,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=max(deadline - time.monotonic(), 0.001),
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace").strip()
