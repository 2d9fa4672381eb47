"""``tfagents_batch.train`` as users call it, with callbacks for the benchmarks."""

from __future__ import annotations

import contextlib
import signal
import tempfile
from collections.abc import Callable
from typing import Any
from unittest import mock


def load() -> None:
    """Import everything that the train command imports, in the same way."""
    from tfagents_batch.scripts import app

    app.import_tensorflow()
    import tfagents_batch.api  # noqa: F401


def train(
    preset: str,
    built: Callable[[Any], None],
    iteration: Callable[[Any, int], bool],
    keeping: bool = False,
    **options: Any,
) -> None:
    """Train in a folder that is removed afterwards.

    The run is complete, with logs, progress and checkpoints. Only its loop is replaced
    by one that calls the callbacks.

    Args:
      preset: name of the preset.
      built: called with the ``Experiment`` after its construction.
      iteration: called after every call of the program, of one or more iterations, with
        the ``Experiment`` and the env steps so far. If it returns true, the run ends as
        by a signal, with a last checkpoint.
      keeping: store the compiled program, as the train command does; only if ``built``
        and ``iteration`` change none of its parts.
      **options: options of ``train``.
    """
    from tfagents_batch import api
    from tfagents_batch.scripts import app
    from tfagents_batch.training import training_run

    make = training_run.Loop

    def loop(experiment, interrupts, output, state):
        show = output.iteration

        def after(step, metrics):
            show(step, metrics)
            if iteration(experiment, step):
                signal.raise_signal(signal.SIGINT)

        output.iteration = after
        built(experiment)
        return make(experiment, interrupts, output, state)

    with (
        tempfile.TemporaryDirectory(prefix="benchmark-") as logdir,
        mock.patch.object(training_run, "Loop", loop),
        app.saving_programs() if keeping else contextlib.nullcontext(),
    ):
        api.train(config=preset, logdir=logdir, **options)
