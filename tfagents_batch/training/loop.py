"""Training loop: iterate, and log, evaluate and save whenever that is due."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfagents_batch import seeds
from tfagents_batch.clocks import Every, EverySeconds
from tfagents_batch.devices import machine
from tfagents_batch.errors import EnvError, SaveError, Stopped, TrainingError, UserError
from tfagents_batch.experience import Scores
from tfagents_batch.metrics import Interval, Mean, Metrics
from tfagents_batch.training import compilation
from tfagents_batch.training.alarms import Alarms
from tfagents_batch.training.assembly import Experiment, env_counters
from tfagents_batch.training.callbacks import Callbacks
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.evaluate import Evaluation
from tfagents_batch.training.log import console
from tfagents_batch.training.log.logger import Logger, event_text
from tfagents_batch.training.run_folder import checkpoint
from tfagents_batch.training.saving import ReplaySaver, Rescue, rescued
from tfagents_batch.training.signals import Interrupts
from tfagents_batch.training.video import CLIP

SECONDS = 0.2  # target duration of a call; an interrupt may have to wait for its end
MOST = 10_000  # rounds of a call
# Training ends after this many updates in a row without a finite gradient.
BAD_UPDATES = 3


class Outputs(NamedTuple):
    """Where a run is reported; its alarms see every line of metrics."""

    logger: Logger
    console: console.Console
    alarms: Alarms
    callbacks: Callbacks


class Loop:
    """Trains an experiment until its steps are done or a stop is requested.

    A resumed run has restored its variables, and gets the state of its checkpoint. Its
    folder is locked. ``save`` writes a checkpoint; None means ``checkpoint.save``.

    Attributes:
      step: steps done, in the unit of the source.
      seconds: training time without evaluations and pauses.
      best: score of the best evaluation, its mean return; None before the first.
      latest: the newest value of every scalar metric.
      saved: step of the newest checkpoint; None before the first.
    """

    def __init__(
        self,
        experiment: Experiment,
        interrupts: Interrupts,
        outputs: Outputs,
        folder: Path,
        state: dict[str, Any] | None = None,
        save: Callable[..., Path] | None = None,
    ):
        state, config = state or {}, experiment.config
        self.experiment, self._interrupts = experiment, interrupts
        self.logger, self.console, self._alarms, self.callbacks = outputs
        self._folder = folder
        self.save = save or functools.partial(checkpoint.save, folder)
        self.step: int = state.get("step", 0)
        self.seconds: float = state.get("trained_seconds", 0.0)
        self.best: float | None = state.get("best")
        self.saved: int | None = state.get("step")
        self.latest: dict[str, Any] = {}
        self._steps = config.steps
        self._clocks = {
            "evaluate": Every(_evaluates_every(config)),
            "log": Every(_default(config.log_every, config.steps // 200)),
            "keep": Every(config.keep_every),
        }
        self._should_evaluate, self._should_log, self._should_keep = (
            self._clocks.values()
        )
        for name, clock in self._clocks.items():
            if name in state:
                clock.restore(state[name])
        # A new run also saves after its first iteration, in case it is killed soon.
        self._should_save = EverySeconds(
            config.checkpoint_every, first=self.saved is None
        )
        self._should_film = Every(config.log_video_every, first=True)
        self._clips = experiment.clips
        self._evaluating: float = state.get("evaluated_seconds", 0.0)
        self._evaluated: int | None = state.get("evaluated")
        self._best_step: int | None = state.get("best_step")
        self._keep_step: int | None = state.get("keep", {}).get("last")
        self._keep = False  # whether the next checkpoint is permanent
        self._rescue = Rescue(self)
        self._replay: ReplaySaver | None = None
        # Callbacks of iterations follow each iteration at its own step.
        self._rounds, self._grouped = 1, not self.callbacks.sees_iterations
        self._interval = Interval()
        self._once: dict[str, Any] = {}  # metrics of the next line only
        self._since = self.step, self.seconds  # values at the last line
        self._bad = 0  # newest updates in a row without a finite gradient
        self._good = False  # whether any update had a finite gradient

    def run(self, started: Callable[[], None] = lambda: None) -> bool:
        """Train until all steps are done, or until a stop is requested.

        Args:
          started: called once the environments have started; restores what belongs
            to them.

        Returns:
          True if training and its last evaluation are finished, because all steps are
          done or a callback ended training. False if a stop was requested first.

        Raises:
          EnvError: if an environment failed. A checkpoint is written first; the failed
            iteration is discarded.
          TrainingError: if gradients are no longer finite.
          SaveError: if the last checkpoint or the last replay could not be written.
          Exception: if a callback raised it. A checkpoint is written first.
        """
        try:
            with rescued(self._interrupts, self._rescue):
                with console.doing("starting environments"):
                    self.experiment.start(self.step)
                started()
            # Only now: what could not be restored is never saved over what is there.
            where = self.experiment.source, self._folder
            self._replay = ReplaySaver(*where, self.step, self.event)
            self._train(self._replay)
        except Stopped:
            pass
        except (EnvError, UserError):
            self._log_events()
            self._save_and_flush()
            raise
        except TrainingError:
            self.flush()
            raise
        except BaseException as error:
            if error is self.callbacks.raised:
                self._save_and_flush()
            raise
        if not self._save_and_flush():
            if self.saved == self.step:
                raise SaveError(
                    f"the replay of step {self.step}, the last one, could not be "
                    "saved; make room on the disk; a resumed run uses an older "
                    "replay, or collects anew"
                )
            raise SaveError(
                f"the last checkpoint, of step {self.step}, could not be saved; the "
                f"newest one is of step {self.saved}"
            )
        return self.finished

    def _train(self, replay: ReplaySaver) -> None:
        compiled = False
        while not self.finished and not self._interrupts.requested:
            if not self.done:  # otherwise only the last evaluation is missing
                began = self.seconds
                with console.doing("" if compiled else "compiling"):
                    metrics = self._iterate()
                self._log_events()
                if not compiled:
                    compiled = True
                    self._log_compiled(self.seconds - began)
                self.add(metrics)
                self.console.update(self.step, self.latest)
                self._film()
            evaluates = self.done or self._should_evaluate.due(self.step)
            if evaluates and not self._is_evaluated and not self._interrupts.requested:
                self._evaluate()
            requested = self._interrupts.checkpoint_requested
            replay_due = replay.due()
            due = self._should_save() or self._should_keep.due(self.step) or replay_due
            if (requested or due) and self.checkpoint() and replay_due:
                replay.save(self.step, self._interrupts.seconds_left)

    @property
    def done(self) -> bool:
        """Whether all steps are trained or a callback has ended training."""
        return self.step >= self._steps or self.callbacks.stopped_by is not None

    @property
    def finished(self) -> bool:
        """Whether training and the last evaluation are finished."""
        return self.done and self._is_evaluated

    @property
    def _is_evaluated(self) -> bool:
        return not self._should_evaluate.n or self._evaluated == self.step

    def _iterate(self) -> dict[str, Any]:
        """Call the program once; afterwards choose the number of rounds of a call."""
        program, clocks = self.experiment.program, [*self._clocks.values()]
        if self._clips is not None:
            clocks.append(self._should_film)
        # Until the next line, evaluation, permanent checkpoint or clip, or the end.
        due = [clock.next for clock in clocks if clock.next is not None]
        with rescued(self._interrupts, self._rescue):
            begin = time.perf_counter()
            try:
                return program(min([self._steps, *due]), self._rounds)
            finally:
                # Also after an exception: an update may have finished before the stop.
                took = time.perf_counter() - begin
                self.seconds += took
                self.step = program.step
                if self._grouped:
                    fitting = program.rounds * SECONDS / took
                    self._rounds = int(min(max(fitting, 1), 2 * self._rounds, MOST))

    def add(self, metrics: Metrics) -> None:
        """Add the metrics of a program's call, and write a line if one is due.

        Raises:
          TrainingError: if no gradient was finite in the newest calls, which had
            ``BAD_UPDATES`` updates at least, or in all updates until the end.
        """
        self._interval.add(metrics)
        updates, skipped = _gradients(metrics)
        if updates:
            bad = skipped == updates
            self._bad = self._bad + updates if bad else 0
            self._good |= not bad
        if self._bad >= BAD_UPDATES or (self._bad and self.done and not self._good):
            raise TrainingError(
                f"no gradient was finite in the last {self._bad} of the updates, up to "
                f"step {self.step}: look for NaN in rewards and observations, or lower "
                "the learning rate; earlier checkpoints are intact"
            )

        def iteration_summary() -> dict[str, Any]:
            one = Interval()
            one.add(metrics)
            return one.summary()

        self.callbacks.iteration(self.step, iteration_summary)
        if self._should_log(self.step) or self.done:
            self.flush()

    def flush(self) -> None:
        """Write one line for the iterations since the last line, if there are any."""
        line = self._interval.summary()
        if not line:
            return
        experiment = self.experiment
        line |= env_counters(experiment.envs) | self._once
        line |= _system(experiment.program.traces())
        (step, seconds), self._since = self._since, (self.step, self.seconds)
        if self.seconds > seconds:
            speed = (self.step - step) / (self.seconds - seconds)
            line[console.speed_name(experiment.config.source.unit)] = speed
        self._interval, self._once = Interval(), {}
        self._log(line)

    def _log(self, metrics: dict[str, Any]) -> None:
        """Write a line of metrics."""
        metrics = metrics | {"time/elapsed_seconds": self.seconds}
        self.latest |= {k: v for k, v in metrics.items() if np.ndim(v) == 0}
        self.logger.write(metrics, self.step)
        for alarm in self._alarms.check(metrics, self.step):
            self.console.message(f"alarm: {alarm.text}")
            self.logger.event("alarm", self.step, name=alarm.name, text=alarm.text)

    def event(self, event: dict[str, Any]) -> None:
        """Log an event, with its kind under ``event``, and print it on the console."""
        fields = dict(event)
        self.logger.event(fields.pop("event"), self.step, **fields)
        if text := event_text(event):
            self.console.message(text)

    def _log_events(self) -> None:
        for event in self.experiment.events():
            self.event(event)

    def _log_compiled(self, seconds: float) -> None:
        """Log whether the program was traced or loaded, and cache it.

        The first iteration's time is mostly compilation; the next line has it instead
        of the speed.
        """
        self._once["time/first_iteration_seconds"] = seconds
        self._since = self.step, self.seconds
        program = self.experiment.program
        fields = {"compile": program.mode, "reason": program.reason}
        # The saver knows the whole program only, which XLA may have refused.
        whole = program.mode == "full"
        fields |= self.experiment.saver.origin() if whole else {"program": "traced"}
        self.logger.event("compiled", self.step, **fields)
        self.console.note(f"compile={program.mode}: {program.reason}")
        compilation.publish()  # now, because the process may be killed later

    def _film(self) -> None:
        """Log a clip of an episode if one is due; a failure ends only the clips."""
        clips, step = self._clips, self.step
        if clips is None or not self._should_film(step):
            return
        seed = seeds.iteration_seed(self.experiment.config.seed, step, "video")
        try:
            frames, facts = clips(seed, lambda: self._interrupts.requested)
        except Stopped:
            return
        except Exception as error:  # the environment's code may raise anything
            self._clips = None
            self.console.message(
                f"warning: no more videos, training continues: {error}"
            )
            return
        self.logger.video(CLIP, frames, step, clips.fps)
        self.logger.event("video", step, **facts)

    def _evaluate(self) -> None:
        experiment, program = self.experiment, self.experiment.program
        seed = seeds.iteration_seed(experiment.config.seed, self.step, "evaluate")
        begin, evaluator = time.perf_counter(), experiment.evaluator
        assert evaluator is not None  # as one is due

        def stop():
            # A failure beside the evaluation is raised by the next iteration, if any.
            failed = not self.done and program.failed
            return self._interrupts.requested or failed

        with console.doing("evaluating"), rescued(self._interrupts, self._rescue):
            result = evaluator(seed, stop, self.step)
        self._log_events()
        if result is not None:  # None if stopped: a resumed run evaluates again
            self.evaluated(result, time.perf_counter() - begin)

    def _normalized(self, result: Evaluation) -> dict[str, float]:
        """Return the normalized score of an evaluation, if the data have references."""
        source = self.experiment.config.source
        if not isinstance(source, Scores) or not isinstance(result, Evaluation):
            return {}
        score = source.normalized_score(result.mean_return)
        return {} if score is None else {"eval/normalized_score": score}

    def evaluated(self, result: Evaluation, seconds: float) -> None:
        """Write an evaluation's line, and a checkpoint if it is the best so far."""
        self._evaluated = self.step
        self._should_evaluate(self.step)
        self._evaluating += seconds
        share = self._evaluating / max(self._evaluating + self.seconds, 1e-9)
        times = {"time/eval_seconds": seconds, "time/eval_share": share}
        self._log(result.metrics() | self._normalized(result) | times)
        previous = self.best, self._best_step
        # NaN is never the best, and any number replaces a NaN.
        best = not math.isnan(result.score) and (
            self.best is None or not result.score <= self.best
        )
        if best:
            self.best, self._best_step = result.score, self.step
        # A checkpoint saved at this step does not contain this evaluation yet.
        stale = best or self.saved == self.step
        if stale and not self.checkpoint(again=True):
            self.best, self._best_step = previous
        self.callbacks.evaluation(self.step, result, best)
        # A smaller difference is no reason to take another checkpoint.
        enough = result.score + result.score_error
        if self.done and self.best is not None and enough < self.best:
            event = {"last": result.score, "best": self.best}
            event |= {"event": "below_best", "best_step": self._best_step}
            self.event(event | {"measure": result.measure})

    def variables(self) -> dict[str, Any]:
        """Return the variables of a checkpoint, ``{name: variable}``."""
        return self.experiment.named_variables() | self.experiment.run_variables()

    def state(self) -> dict[str, Any]:
        """Return what a resumed run continues from, as saved in a checkpoint."""
        return {name: clock.state() for name, clock in self._clocks.items()} | {
            "step": self.step,
            "best": self.best,
            "best_step": self._best_step,
            "evaluated": self._evaluated,
            "trained_seconds": self.seconds,
            "evaluated_seconds": self._evaluating,
        }

    def checkpoint(self, again: bool = False) -> bool:
        """Save a checkpoint unless this step is saved; return False on failure."""
        if self.saved == self.step and not again:
            return True
        self._keep |= self._should_keep(self.step)
        if self._keep:
            self._keep_step = self.step
        # Saving the same step again keeps its marks: best and permanent.
        marks = {"best": self._best_step, "keep": self._keep_step}
        metadata = {name: step == self.step for name, step in marks.items()}
        parts = self.step, self.variables(), self.state()
        try:
            path = self.save(*parts, metadata=metadata)
        except SaveError as error:
            self.console.message(f"warning: {error}; will try again")
            self.logger.event("checkpoint_failed", self.step, reason=str(error))
            return False
        self.callbacks.checkpoint(self.step, path, metadata["best"])
        self._keep = False
        self.saved = self.step
        return True

    def _save_and_flush(self) -> bool:
        """Write a checkpoint, the replay and the last line; False if one fails."""
        try:
            saved = self.checkpoint()
            if saved and self._replay is not None:
                return self._replay.save(self.step, self._interrupts.seconds_left)
            return saved
        finally:
            self.flush()


def is_finished(config: RunConfig, state: dict[str, Any]) -> bool:
    """Return whether a checkpoint's state is of a run that has nothing left to do."""
    evaluated = state.get("evaluated") == state["step"]
    return state["step"] >= config.steps and (evaluated or not _evaluates_every(config))


def _system(traces: int) -> dict[str, float]:
    """Return system metrics that should stay constant during a run."""
    sizes: dict[str, float] = {"system/traces": traces}
    if resident := machine.resident_bytes():  # not every system reports memory
        sizes["system/learner_mb"] = resident / 2**20
    return sizes


def _gradients(metrics: Metrics) -> tuple[int, float]:
    """Return the number of updates of a call, and the sum of their skipped shares."""
    skipped = metrics.get("grad/skipped", Mean(0.0, 0))
    if not isinstance(skipped, Mean):  # of a single update
        return 1, float(skipped)
    return int(skipped.count), float(skipped.sum)


def _evaluates_every(config: RunConfig) -> int:
    return _default(config.eval_every, config.steps // 10)


def _default(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value
