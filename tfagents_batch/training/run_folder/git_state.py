"""Record the git commit of the code that a run was started from."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

SECONDS = 2.0  # time limit per folder
# Write nothing, and do not run a file monitor that the repository configures.
_STATUS = (
    *("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "status"),
    *(
        "--porcelain=v2",
        "--branch",
        "--untracked-files=no",
        "--ignore-submodules=dirty",
    ),
)


def state(seconds: float = SECONDS) -> dict[str, Any] | None:
    """Return the git state of the working folder, or else of the main script.

    Args:
      seconds: time limit of git for each of these folders.

    Returns:
      ``commit``, its hash, and ``changed``, whether a tracked file differs from it;
      None outside of a checkout, without git, or if git takes too long.
    """
    main = getattr(sys.modules.get("__main__"), "__file__", None) or ""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    for folder in dict.fromkeys((".", os.path.dirname(main) or ".")):
        try:
            options = {"cwd": folder, "env": inherited, "timeout": seconds}
            text = subprocess.check_output(
                _STATUS, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options
            ).decode(errors="replace")
        except (OSError, subprocess.SubprocessError):
            continue
        if found := re.match(r"# branch\.oid ([0-9a-f]+)$", text, re.MULTILINE):
            changed = any(line[0] != "#" for line in text.splitlines())
            return {"commit": found[1], "changed": changed}
    return None
