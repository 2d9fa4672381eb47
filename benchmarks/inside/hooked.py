"""``tfagents_batch.train`` as users call it, with somebody watching."""

from __future__ import annotations

import contextlib
import signal
import tempfile
from collections.abc import Callable
from typing import Any
from unittest import mock


def load() -> None:
    """Import what a train command imports, in its way."""
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

    Everything that a run does is done: logs, progress, checkpoints. Only the loop is
    made so that it reports.

    Args:
      preset: name.
      built: called with the ``Experiment`` when everything is constructed.
      iteration: called with it and the env steps so far after every iteration; true
        ends the run as a signal would, with a last checkpoint.
      keeping: keep its program, as the train command does; only where ``built`` and
        ``iteration`` change none of its parts.
      **options: of ``train``.
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
