"""Trainings as tasks of Ray, on this machine or on those of a cluster.

Each task starts the training as a process of its own. The folder of the sweep has to be
the same one on every machine, because the sweep reads the logs there.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tfagents_batch.distribute import ray_session
from tfagents_batch.distribute.sweep import local
from tfagents_batch.distribute.sweep.local import PROGRAM, Launch, LocalProcess

_POLL_SECONDS = 0.1
_LOST = -9  # exit status of a training that ended with its task


class RayProcess:
    """A training as a task of Ray.

    Args:
      ray: the package, connected.
      task: result of a call of the remote function.
    """

    def __init__(self, ray: Any, task: Any):
        self._ray, self._task = ray, task
        self._status: int | None = None

    def poll(self) -> int | None:
        if self._status is None and self._ray.wait([self._task], timeout=0)[0]:
            try:
                self._status = self._ray.get(self._task)
            except self._ray.exceptions.RayError:
                self._status = _LOST
        return self._status

    def terminate(self) -> None:
        if self.poll() is None:
            self._ray.cancel(self._task)  # a KeyboardInterrupt in the task

    def kill(self) -> None:
        if self.poll() is None:
            self._ray.cancel(self._task, force=True)


@contextlib.contextmanager
def launchers(
    jobs: int, address: str | None, program: Sequence[str] = PROGRAM
) -> Iterator[list[Launch]]:
    """Yield a function for each job that starts a training as a task.

    Args:
      jobs: number of trainings at the same time; each takes one CPU of Ray.
      address: of a cluster, see ``ray_session.session``; None starts Ray here.
      program: command line of a training, see ``local.LocalProcess``.

    Raises:
      UserError: if Ray is missing, or the cluster cannot be reached.
    """
    with ray_session.session(address, jobs) as ray:
        remote = ray.remote(num_cpus=1, max_retries=0)(train)

        def launch(flags: Sequence[str], output: Path) -> RayProcess:
            return RayProcess(
                ray, remote.remote(flags, str(output), os.getcwd(), program)
            )

        yield [launch] * jobs


def train(
    flags: Sequence[str], output: str, folder: str, program: Sequence[str]
) -> int:
    """Train in a process of its own, and return its exit status.

    Args:
      flags: flags of ``train``.
      output: file for what it prints.
      folder: working folder.
      program: see ``local.LocalProcess``.
    """
    with contextlib.chdir(folder):
        found = LocalProcess(flags, Path(output), program=program)
    try:
        while (status := found.poll()) is None:
            time.sleep(_POLL_SECONDS)
        return status
    finally:  # also if the task is cancelled
        local.stop([found])
