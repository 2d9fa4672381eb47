"""A training run in its folder: the loop, and everything that watches it."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_batch import config
from tfagents_batch.errors import EnvError, Stopped, UserError
from tfagents_batch.training import (
    checkpoint,
    hooks,
    profile,
    runs,
    trackers,
    weights,
)
from tfagents_batch.training.alarms import Alarms
from tfagents_batch.training.clips import Filming
from tfagents_batch.training.console import Console
from tfagents_batch.training.experiment import Experiment
from tfagents_batch.training.interrupt import Interrupts
from tfagents_batch.training.logger import Logger, read_metrics
from tfagents_batch.training.loop import Loop
from tfagents_batch.training.output import Output


class Run(NamedTuple):
    """What ``train`` returns.

    Attributes:
      logdir: the run's folder, as ``evaluate`` and ``resume`` take it.
      step: environment steps trained.
      metrics: the newest value of every scalar metric.
      finished: false if a signal ended it early.
      signal: number of that signal; None if there was none.
    """

    logdir: str
    step: int
    metrics: dict[str, float]
    finished: bool
    signal: int | None = None


def run(
    experiment: Experiment,
    folder: pathlib.Path,
    callbacks: dict[str, tuple],
    state: dict | None = None,
    events: Sequence[dict] = (),
    profiled: bool = False,
    started: Callable[[], None] = lambda: None,
) -> Run:
    """Train in a run folder whose lock is held.

    Args:
      experiment: of the run, what was learned before restored.
      folder: of the run.
      callbacks: of ``Hooks``, by their names there.
      state: of the checkpoint that is resumed; None for a new run.
      events: what happened before, to be logged.
      profiled: measure at the end where the time goes.
      started: called when everything is there and training begins.
    """
    start, settings = state["step"] if state else 0, experiment.config
    inherited = runs.STARTED_FROM in runs.facts(folder)
    watch = Alarms(
        experiment.algorithm.alarms,
        settings.steps,
        settings.num_envs,
        experiment.env.spec.max_episode_steps,
        inherited,
    )
    unread = ""
    if state:
        try:
            for line in read_metrics(folder):
                watch.check(line, line["step"])  # alarms of these lines were raised
        except UserError as error:  # it is lines to look at that are lost, no training
            unread = f"warning: {error}; alarms begin anew"
    called = hooks.Hooks(folder, **_with_stop(callbacks, settings.stop_at_return))
    with contextlib.ExitStack() as stack:
        console = Console(settings.steps, start_step=start)
        stack.enter_context(console)
        plain = config.to_dict(settings)
        others = trackers.start(settings.track, folder, plain, console.message)
        for other in others:
            stack.callback(other.close, "failed")  # unless the logger did
        logger = Logger(
            folder,
            start if state else None,
            warn=console.message,
            trackers=others,
            settings=settings,
        )
        stack.enter_context(logger)
        interrupts = stack.enter_context(
            Interrupts(experiment.stop, kill=experiment.close, report=console.message)
        )
        if state:
            console.message(f"going on from step {start:,} of {folder}")
        if unread:
            console.message(unread)
        console.message(str(experiment.resources))
        if layers := weights.by_layer(experiment.algorithm):
            console.message(weights.table(layers))
        logger.event("resources", start, **experiment.report())
        for event in events:
            logger.event(**event)
            if event["kind"] == "checkpoint_damaged":
                console.message(
                    f"warning: the checkpoint of step {event['step']:,} is damaged "
                    f"({event['reason']}); an older one is taken"
                )
            elif event["kind"] == runs.STARTED_FROM:
                origin = event["run"]
                for step, reason in event["damaged"].items():
                    console.message(
                        f"warning: the checkpoint of step {step:,} of {origin} is "
                        f"damaged ({reason}); an older one is taken"
                    )
                console.message(
                    f"starting from what {origin} had learned after "
                    f"{event['checkpoint']:,} steps"
                )

        def variables() -> dict[str, Any]:
            return experiment.named_variables() | experiment.run_variables()

        output = Output(folder, logger, console, variables, watch, called)
        progress = console.update
        if experiment.clips is not None:
            film = Filming(
                experiment.clips,
                logger,
                settings.log_video_every,
                settings.seed,
                console.message,
                stop=lambda: interrupts.requested,
            )

            def progress(step: int, metrics: dict) -> None:
                console.update(step, metrics)
                film(step)

        def begun() -> None:
            variables = experiment.run_variables()
            if state and variables:
                checkpoint.load_run_only(folder, start, variables)
            started()

        loop = Loop(experiment, interrupts, output, progress, state, begun, called)
        try:
            finished = loop.run()
        except Exception as error:  # a callback's may be any
            kind = type(error).__name__
            logger.event("failed", loop.step, error=kind, text=str(error))
            raise
        if called.stopped_by is not None:
            console.message(f"{called.stopped_by} ends training")
            logger.event("stopped_by_callback", loop.step, name=called.stopped_by)
        logger.event("finished" if finished else "stopped", step=loop.step)
        if profiled and finished:
            _profile(experiment, folder, console, logger)
    signal = None if finished else interrupts.signal
    return Run(str(folder), loop.step, loop.latest, finished, signal)


def _profile(
    experiment: Experiment, folder: pathlib.Path, console: Console, logger: Logger
) -> None:
    """Of a run that is done: whatever goes wrong here does not undo it."""
    console.message("measuring where the time goes")
    try:
        found = profile.run(experiment, folder)
    except (EnvError, UserError, Stopped, OSError, tf.errors.OpError) as error:
        console.message(f"warning: there is no profile: {error}")
        logger.event("profile_failed", reason=str(error))
        return
    console.message(found.table())
    logger.event("profile", **found.to_dict())


def _with_stop(callbacks: dict[str, tuple], threshold: float | None) -> dict:
    """Callbacks, with the one that a setting asks for."""
    if threshold is None:
        return callbacks
    stop = hooks.stop_at_return(threshold)
    return callbacks | {"on_evaluation": (*callbacks["on_evaluation"], stop)}
