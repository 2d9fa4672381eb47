"""Cache folders for our contenders: empty, cold or warm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable

from benchmarks.measure.process import Failure, Result
from benchmarks.work.machine import ROOT
from tfagents_batch.errors import UserError

_ENGINE = """
from benchmarks.inside import hooked
hooked.load()
from tfagents_batch.envs.native import build
build.library()
"""
_SECONDS = 400.0  # time limit for building the engine


class Caches:
    """Context manager that creates folders to use as ``XDG_CACHE_HOME``.

    The user's own cache is neither read nor written.
    """

    def __init__(self):
        self._root = tempfile.TemporaryDirectory(prefix="benchmark-caches-")
        self._built = ""
        self._warm: dict[str, str] = {}

    def __enter__(self) -> Caches:
        return self

    def __exit__(self, *_) -> None:
        self._root.cleanup()

    def empty(self) -> str:
        """Create an empty folder: a process also compiles the native engine."""
        return tempfile.mkdtemp(dir=self._root.name)

    def cold(self) -> str:
        """Create a folder with the native engine, without a compiled program.

        Raises:
          UserError: if the engine cannot be built here.
        """
        if not self._built:
            built = self.empty()
            done = subprocess.run(
                [sys.executable, "-c", _ENGINE],
                env=os.environ | {"XDG_CACHE_HOME": built},
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
            )
            if done.returncode:
                last = (done.stderr.splitlines() or ["no message"])[-1]
                raise UserError(f"the native engine cannot be built here: {last}")
            self._built = built
        folder = self.empty()
        shutil.copytree(self._built, folder, dirs_exist_ok=True)
        return folder

    def warm(self, name: str, fill: Callable[[str], Result | Failure]) -> str:
        """Return a folder with the results of an earlier run.

        Args:
          name: name of the program; equal names get the same folder.
          fill: function that runs it in a cold folder, once per name.

        Raises:
          UserError: if that run fails.
        """
        if name not in self._warm:
            folder = self.cold()
            found = fill(folder)
            if isinstance(found, Failure):
                raise UserError(f"the run that warms the cache failed: {found}")
            self._warm[name] = folder
        return self._warm[name]
