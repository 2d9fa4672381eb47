"""Code in a Python process of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any


def run(code: str, *arguments: Any, warnings: str = "default", **options: Any):
    """Run code to its end and return its output.

    Args:
      code: Python code, which must not fail.
      *arguments: of the code, from ``sys.argv[1]`` on.
      warnings: action of the option ``-W``.
      options: arguments of ``subprocess.run``.
    """
    command = [sys.executable, "-W", warnings, "-c", code, *map(str, arguments)]
    options = {"text": True, "timeout": 60, **options}
    done = subprocess.run(command, capture_output=True, **options)
    assert done.returncode == 0, done.stderr
    return done
