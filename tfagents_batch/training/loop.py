"""Training loop: iterate, and log, evaluate and save whenever that is due."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfagents_batch import seeds
from tfagents_batch.clocks import Every, EverySeconds
from tfagents_batch.errors import (
    EnvError,
    SaveError,
    Stopped,
    TrainingError,
    UserError,
)
from tfagents_batch.training import compilation
from tfagents_batch.training.experiment import Experiment
from tfagents_batch.training.log import console
from tfagents_batch.training.record import Record
from tfagents_batch.training.replay_saver import ReplaySaver
from tfagents_batch.training.rescue import Rescue, rescued
from tfagents_batch.training.runtime.signals import Interrupts
from tfagents_batch.training.video.clips import NAME

SECONDS = 0.2  # target duration of a call; an interrupt may have to wait for its end
MOST = 10_000  # rounds of a call


class Loop:
    """Trains an experiment until its steps are done or a stop is requested.

    Args:
      experiment: experiment of the run; a resumed run has restored its variables.
      interrupts: requests to stop and to save.
      record: of the run; writes metrics, events and checkpoints.
      folder: run folder; its lock is held.
    """

    def __init__(
        self,
        experiment: Experiment,
        interrupts: Interrupts,
        record: Record,
        folder: Path,
    ):
        self.experiment, config = experiment, experiment.config
        self.record, self._folder = record, folder
        self._interrupts = interrupts
        self._rescue = Rescue(record)
        # A new run also saves after its first iteration, in case it is killed soon.
        self._should_save = EverySeconds(
            config.checkpoint_every, first=record.saved is None
        )
        self._replay: ReplaySaver | None = None
        self._clips = experiment.clips
        self._should_film = Every(config.log_video_every, first=True)
        # Callbacks of iterations follow each iteration at its own step.
        self._rounds, self._grouped = 1, not record.callbacks.sees_iterations

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
        record = self.record
        try:
            with rescued(self._interrupts, self._rescue):
                with console.doing("starting environments"):
                    self.experiment.start(record.step)
                started()
            # Only now: what could not be restored is never saved over what is there.
            where = self.experiment.source, self._folder
            self._replay = ReplaySaver(*where, record.step, record.event)
            self._train()
        except Stopped:
            pass
        except (EnvError, UserError):
            self._log_events()
            self._save_and_flush()
            raise
        except TrainingError:
            record.flush()
            raise
        except BaseException as error:
            if error is record.callbacks.raised:
                self._save_and_flush()
            raise
        if not self._save_and_flush():
            if record.saved == record.step:
                raise SaveError(
                    f"the replay of step {record.step}, the last one, could not be "
                    "saved; make room on the disk; a resumed run uses an older "
                    "replay, or collects anew"
                )
            raise SaveError(
                f"the last checkpoint, of step {record.step}, could not be saved; the "
                f"newest one is of step {record.saved}"
            )
        return record.finished

    def _train(self) -> None:
        record, compiled, replay = self.record, False, self._replay
        assert replay is not None  # see ``run``
        while not record.finished and not self._interrupts.requested:
            if not record.done:  # otherwise only the last evaluation is missing
                began = record.seconds
                with console.doing("" if compiled else "compiling"):
                    metrics = self._iterate()
                self._log_events()
                if not compiled:
                    compiled = True
                    self._log_compiled(record.seconds - began)
                record.add(metrics)
                record.console.update(record.step, record.latest)
                self._film()
            if record.evaluation_due() and not self._interrupts.requested:
                self._evaluate()
            requested = self._interrupts.checkpoint_requested
            replay_due = replay.due()
            due = self._should_save() or record.permanent_due() or replay_due
            if (requested or due) and record.checkpoint() and replay_due:
                replay.save(record.step, self._interrupts.seconds_left)

    def _save_and_flush(self) -> bool:
        """Write a checkpoint, the replay and the last line; False if one fails."""
        record = self.record
        try:
            saved = record.checkpoint()
            if saved and self._replay is not None:
                return self._replay.save(record.step, self._interrupts.seconds_left)
            return saved
        finally:
            record.flush()

    def _log_compiled(self, seconds: float) -> None:
        """Log whether the program was traced or loaded, and cache it."""
        program, record = self.experiment.program, self.record
        record.compiled(seconds)
        found = {"compile": program.mode, "reason": program.reason}
        # The saver knows the whole program only, which XLA may have refused.
        whole = program.mode == "full"
        found |= self.experiment.saver.origin() if whole else {"program": "traced"}
        record.logger.event("compiled", record.step, **found)
        record.console.note(f"compile={program.mode}: {program.reason}")
        compilation.publish()  # now, because the process may be killed later

    def _iterate(self) -> dict[str, Any]:
        """Call the program once; afterwards choose the number of rounds of a call."""
        program, record = self.experiment.program, self.record
        film = None if self._clips is None else self._should_film.next
        until = record.due if film is None else min(record.due, film)
        with rescued(self._interrupts, self._rescue):
            begin = time.perf_counter()
            try:
                return program(until, self._rounds)
            finally:
                # Also after an exception: an update may have finished before the stop.
                took = time.perf_counter() - begin
                record.seconds += took
                record.step = program.step
                if self._grouped:
                    fitting = program.rounds * SECONDS / took
                    self._rounds = int(min(max(fitting, 1), 2 * self._rounds, MOST))

    def _log_events(self) -> None:
        for event in self.experiment.events():
            self.record.event(event)

    def _film(self) -> None:
        """Log a clip of an episode if one is due; a failure ends only the clips."""
        clips, record, step = self._clips, self.record, self.record.step
        if clips is None or not self._should_film(step):
            return
        seed = seeds.iteration_seed(self.experiment.config.seed, step, "video")
        try:
            frames, facts = clips(seed, lambda: self._interrupts.requested)
        except Stopped:
            return
        except Exception as error:  # the environment's code may raise anything
            self._clips = None
            record.console.message(
                f"warning: no more videos, training continues: {error}"
            )
            return
        record.logger.video(NAME, frames, step, clips.fps)
        record.logger.event("video", step, **facts)

    def _evaluate(self) -> None:
        experiment, record = self.experiment, self.record
        seed = seeds.iteration_seed(experiment.config.seed, record.step, "evaluate")
        program, begin = experiment.program, time.perf_counter()
        evaluator = experiment.evaluator
        assert evaluator is not None  # as one is due

        def stop():
            # A failure beside the evaluation is raised by the next iteration, if any.
            failed = not record.done and program.failed
            return self._interrupts.requested or failed

        with console.doing("evaluating"), rescued(self._interrupts, self._rescue):
            result = evaluator(seed, stop, record.step)
        self._log_events()
        if result is not None:  # None if stopped: a resumed run evaluates again
            record.evaluated(result, time.perf_counter() - begin)
