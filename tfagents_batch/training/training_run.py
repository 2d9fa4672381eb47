"""A training run in its folder: the loop with its logs, alarms and callbacks."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_batch import encoding, sources, spaces
from tfagents_batch.errors import EnvError, Stopped, UserError
from tfagents_batch.experience import Fingerprinted, KnowsTrainingRows
from tfagents_batch.interfaces import Algorithm
from tfagents_batch.training import preprocessing, profile, weights
from tfagents_batch.training.alarms import Alarms
from tfagents_batch.training.assembly import Experiment
from tfagents_batch.training.callbacks import Callbacks, stop_at_return
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.log import console as consoles
from tfagents_batch.training.log import trackers
from tfagents_batch.training.log.console import Console
from tfagents_batch.training.log.logger import Logger, read_metrics
from tfagents_batch.training.loop import Loop, Outputs, is_finished
from tfagents_batch.training.run_folder import checkpoint, config_file, runs
from tfagents_batch.training.signals import Interrupts
from tfagents_batch.types import EnvSpec

_FINGERPRINT = "source_fingerprint"  # key of run.json


class RunEnd(NamedTuple):
    """A run that has ended, see ``api.Run``."""

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
) -> RunEnd:
    """Train in a run folder that this process has locked.

    A resumed run has restored its weights, and gets the state of its checkpoint.

    Args:
      experiment, folder: experiment of the run, and its folder.
      callbacks: arguments of ``Callbacks`` by name.
      state: state of the checkpoint; None for a new run.
      events: earlier events to log.
      profiled: whether to profile the run at its end.
      started: called when everything is ready and training begins.
    """
    start, settings = state["step"] if state else 0, experiment.config
    alarms = Alarms(
        experiment.algorithm.config.alarms(experiment.spec),
        settings.steps,
        settings.num_envs,
        experiment.spec.max_episode_steps,
        inherited=runs.STARTED_FROM in runs.facts(folder),
    )
    if settings.stop_at_return is not None:
        stop = stop_at_return(settings.stop_at_return)
        callbacks = callbacks | {"on_evaluation": (*callbacks["on_evaluation"], stop)}
    hooks = Callbacks(folder, **callbacks)
    with contextlib.ExitStack() as stack:
        shown = {"unit": settings.source.unit, "quiet": not settings.progress}
        console = Console(settings.steps, start_step=start, **shown)
        stack.enter_context(console)
        if state:
            console.note(f"resuming at step {start:,} of {folder}")
            try:
                for line in read_metrics(folder):
                    alarms.check(line, line["step"])  # already reported, so ignored
            except UserError as error:  # training does not need these lines
                console.message(f"warning: {error}; alarms start again")
        config_dict = config_file.plain(settings)
        tracker = trackers.start(settings.track, folder, config_dict, console.message)
        if tracker is not None:
            stack.callback(tracker.close, "failed")  # no effect if already closed
        logger = Logger(
            folder,
            start if state else None,
            warn=console.message,
            tracker=tracker,
            settings=config_file.with_defaults(settings),
            steps=settings.steps,
        )
        stack.enter_context(logger)
        interrupts = stack.enter_context(
            Interrupts(experiment.stop, kill=experiment.close, report=console.message)
        )
        _introduce(experiment, console)
        logger.event("resources", start, **experiment.report())
        for event in events:
            logger.event(**event)
            _explain(event, console)

        def on_start() -> None:
            variables = experiment.run_variables()
            if state and variables:
                checkpoint.load_run_only(folder, start, variables)
            if state and (text := experiment.restore_replay(folder, start)):
                console.message(text)
            started()

        outputs = Outputs(logger, console, alarms, hooks)
        loop = Loop(experiment, interrupts, outputs, folder, state)
        try:
            finished = loop.run(on_start)
        except Exception as error:  # callbacks may raise any exception
            kind = type(error).__name__
            logger.event("failed", loop.step, error=kind, text=str(error))
            raise
        if hooks.stopped_by is not None:
            console.note(f"{hooks.stopped_by} ends training")
            logger.event("stopped_by_callback", loop.step, name=hooks.stopped_by)
        logger.event("finished" if finished else "stopped", loop.step)
        if profiled and finished:
            _profile(experiment, folder, console, logger)
    signal = None if finished else interrupts.signal
    return RunEnd(str(folder), loop.step, loop.latest, finished, signal)


def finished(folder: pathlib.Path, config: RunConfig, state: dict) -> RunEnd | None:
    """Return the end of a run that has nothing left to do, and say so; else None.

    The state is that of its newest checkpoint.
    """
    if not is_finished(config, state):
        return None
    latest: dict[str, float] = {}
    with contextlib.suppress(UserError):  # a damaged log
        for line in read_metrics(folder):
            latest |= line
    latest.pop("step", None)
    consoles.started()
    Console(config.steps, quiet=not config.progress).note(
        f"the run has all its {config.steps:,} steps; pass --steps={2 * config.steps} "
        "for more"
    )
    return RunEnd(str(folder), state["step"], latest, True)


def _introduce(experiment: Experiment, console: Console) -> None:
    """Print what a run uses: threads, workers, devices and the size of its network."""
    console.note(str(experiment.resources))
    place = experiment.placement
    console.note(f"device {place.name}: {place.reason}")
    own, seen = experiment.own_network, experiment.seen
    notes = [] if own else remarks(experiment.spec)
    notes += large_minibatch(experiment.config, experiment.spec)
    for note in notes + experiment.preprocessing.remarks():
        console.note(note)
    if layers := weights.by_layer(experiment.algorithm):
        console.note(weights.table(layers))
    if not own and (text := weights.warning(layers, seen.observation_space)):
        console.message(text)


def remarks(spec: EnvSpec) -> list[str]:
    """Return a line for each part of observations that looks like an image but is none.

    The built-in network flattens it.
    """
    notes = []
    for leaf in spaces.leaves(spec.observation_space):
        if reason := encoding.missed_image(leaf.space):
            notes.append(f"note: {spaces.field(leaf.path)}{reason}")
    return notes


def large_minibatch(config: RunConfig, spec: EnvSpec) -> list[str]:
    """Return a line if minibatches are larger than an update, so that there is one."""
    size = getattr(config.settings, "minibatch_size", None) or 0
    most = config.source.transitions(config.num_envs, spec.max_episode_steps)
    if size <= most:
        return []
    return [
        f"note: minibatch_size is {size:,}, but an update has {most:,} transitions at "
        "most, so each pass is a single gradient step; lower it, or collect more "
        f"(--num_envs, --{config.source.name}.length)"
    ]


def check_source(folder: pathlib.Path, source: Any) -> None:
    """Refuse a source with other data or features than those that a run began with."""
    before = runs.facts(folder).get(_FINGERPRINT)
    if before is not None and before != _fingerprint(source):
        names = getattr(source, "data", "") or getattr(source, "prior", "") or source
        raise UserError(
            f"the data of the run {folder} have changed since it began: "
            f"{names} was made again; start a new run, with --init_from={folder} to go "
            "on with its weights"
        )
    own = preprocessing.of_source(source)
    preprocessing.check_same(folder, own, f"in the run {folder}")


def facts(algorithm: Algorithm, spec: EnvSpec, source: Any = None) -> dict[str, Any]:
    """Return facts about a run for run.json: agent, spaces, code version and data."""
    fingerprint = _fingerprint(source)
    return {
        **({} if fingerprint is None else {_FINGERPRINT: fingerprint}),
        runs.TRAINING_ROWS: _training_rows(source),
        **preprocessing.of_source(source).facts(),
        "checkout": runs.checkout(),
        "weights": weights.facts(weights.by_layer(algorithm)),
        "observation_space": spaces.to_json(spec.observation_space),
        "action_space": spaces.to_json(spec.action_space),
    }


def _fingerprint(source: Any) -> str | None:
    return source.fingerprint if isinstance(source, Fingerprinted) else None


def _training_rows(source: Any) -> list[dict[str, Any] | None]:
    """Return which logged episodes training sees: none, those of one, or unknown ones.

    A source of the user's own may replay a log, whatever its kind is.
    """
    if isinstance(source, KnowsTrainingRows):
        rows = source.training_rows()
        return [] if rows is None else [rows]
    steps = source is None or type(source) in sources.REGISTRY.values()
    return [] if steps else [None]


def _explain(event: dict[str, Any], console: Console) -> None:
    """Print which agent a run starts from, and which checkpoints are damaged."""
    damaged, owner = event.get("damaged", {}), ""
    if event["kind"] == "checkpoint_damaged":
        damaged = {event["step"]: event["reason"]}
    elif event["kind"] == runs.STARTED_FROM:
        owner = f" of {event['run']}"
        console.message(
            f"starting from the agent of {event['run']} after "
            f"{event['checkpoint']:,} steps; {_parts(event)}"
        )
        for warning in event.get("warnings", ()):
            console.message(f"warning: {warning}")
    for step, reason in damaged.items():
        console.message(
            f"warning: the checkpoint of step {step:,}{owner} is damaged "
            f"({reason}); an older one is used"
        )


def _parts(event: dict[str, Any]) -> str:
    """Return which parts of another run's agent were taken, and which not."""
    shown = {"not loaded": event["not_loaded"]}
    if "taken" in event:  # of another algorithm
        shown = {"taken": event["taken"], "copied from the actor": event["derived"]}
        shown |= {"new": event["new"], f"only in {event['algorithm']}": event["left"]}
        shown = {k: x for k, x in shown.items() if x or k == "new"}
    return "; ".join(f"{k}: {', '.join(x) or 'nothing'}" for k, x in shown.items())


def _profile(
    experiment: Experiment, folder: pathlib.Path, console: Console, logger: Logger
) -> None:
    """Profile a finished run; if that fails, print a warning."""
    console.note("measuring how the time is spent")
    try:
        measured = profile.run(experiment, folder)
    except (EnvError, UserError, Stopped, OSError, tf.errors.OpError) as error:
        console.message(f"warning: there is no profile: {error}")
        logger.event("profile_failed", reason=str(error))
        return
    console.note(measured.table())
    logger.event("profile", **measured.to_dict())
