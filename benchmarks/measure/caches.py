"""Cache folders for our contender: cold or warm."""

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

_BUILD = (
    "from tfagents_batch.scripts import app; app.import_tensorflow();"
    "from tfagents_batch.envs.native import build; build.library()"
)
_SECONDS = 400.0  # time limit for building the native backend


class Caches:
    """Folders to use as ``XDG_CACHE_HOME``, in a given folder.

    The user's own cache is neither read nor written.
    """

    def __init__(self, folder: str):
        self._folder = folder
        self._built = ""
        self._warm: dict[str, str] = {}

    def cold(self) -> str:
        """Create a folder with the native backend, without a compiled program.

        Raises:
          UserError: if the native backend cannot be built here.
        """
        if not self._built:
            built = tempfile.mkdtemp(dir=self._folder)
            done = subprocess.run(
                [sys.executable, "-c", _BUILD],
                env=os.environ | {"XDG_CACHE_HOME": built},
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
            )
            if done.returncode:
                last = (done.stderr.splitlines() or ["no message"])[-1]
                raise UserError(f"the native backend cannot be built here: {last}")
            self._built = built
        folder = tempfile.mkdtemp(dir=self._folder)
        return shutil.copytree(self._built, folder, dirs_exist_ok=True)

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
            result = fill(folder)
            if isinstance(result, Failure):
                raise UserError(f"the run that warms the cache failed: {result}")
            self._warm[name] = folder
        return self._warm[name]
