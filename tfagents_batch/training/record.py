"""Metric lines, evaluations and checkpoints of one run during training."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tfagents_batch.clocks import Every
from tfagents_batch.envs.shared import layout
from tfagents_batch.errors import SaveError, TrainingError
from tfagents_batch.metrics import Interval, Mean, Metrics
from tfagents_batch.training.log.console import speed_name

if TYPE_CHECKING:
    from tfagents_batch.training.callbacks import Callbacks
    from tfagents_batch.training.config import RunConfig
    from tfagents_batch.training.diagnostics.alarms import Alarms
    from tfagents_batch.training.evaluate import Evaluation
    from tfagents_batch.training.log.console import Console
    from tfagents_batch.training.log.logger import Logger

# Training ends after this many updates in a row without a finite gradient.
BAD_UPDATES = 3


class Record:
    """Metric lines, events, evaluations and checkpoints of one run.

    Args:
      config: config of the run.
      logger: writes lines and events to the run folder.
      console: prints warnings and alarms.
      alarms: check every line of metrics.
      callbacks: the user's callbacks.
      variables: returns the variables of a checkpoint, ``{name: variable}``.
      save: writes a checkpoint to the run folder, see ``checkpoint.save``.
      state: state of the checkpoint that is resumed, see ``state``.
      counters: returns further metrics; called for every line of training metrics.

    Attributes:
      step: steps done, in the unit of the source.
      seconds: training time without evaluations and pauses.
      best: score of the best evaluation, its mean return; None before the first.
      latest: the newest value of every scalar metric.
      saved: step of the newest checkpoint; None before the first.
    """

    def __init__(
        self,
        config: RunConfig,
        logger: Logger,
        console: Console,
        alarms: Alarms,
        callbacks: Callbacks,
        variables: Callable[[], dict[str, Any]],
        save: Callable[..., Path],
        state: dict[str, Any] | None = None,
        counters: Callable[[], dict[str, Any]] = dict,
    ):
        state = state or {}
        self.logger, self.console, self._alarms = logger, console, alarms
        self.callbacks, self._counters = callbacks, counters
        self.variables, self.save = variables, save
        self.step: int = state.get("step", 0)
        self.seconds: float = state.get("trained_seconds", 0.0)
        self._evaluating: float = state.get("evaluated_seconds", 0.0)
        self.best: float | None = state.get("best")
        self.saved: int | None = state.get("step")
        self.latest: dict[str, Any] = {}
        self._steps = config.steps
        self._speed_name = speed_name(config.source.unit)
        self._should_evaluate = Every(_evaluates_every(config))
        self._should_log = Every(_default(config.log_every, config.steps // 200))
        self._should_keep = Every(config.keep_every)
        self._clocks = {
            "evaluate": self._should_evaluate,
            "log": self._should_log,
            "keep": self._should_keep,
        }
        for name, clock in self._clocks.items():
            if name in state:
                clock.restore(state[name])
        self._evaluated: int | None = state.get("evaluated")
        self._best_step: int | None = state.get("best_step")
        self._keep_step: int | None = state.get("keep", {}).get("last")
        self._keep = False  # whether the next checkpoint is permanent
        self._interval = Interval()
        self._once: dict[str, Any] = {}  # metrics of the next line only
        self._since = self.step, self.seconds  # values at the last line
        self._bad = 0  # newest updates in a row without a finite gradient
        self._good = False  # whether any update had a finite gradient

    @property
    def done(self) -> bool:
        """Whether all steps are trained or a callback has ended training."""
        return self.step >= self._steps or self.callbacks.stopped_by is not None

    @property
    def due(self) -> int:
        """Step of the next line, evaluation or permanent checkpoint, or of the end."""
        clocks = (clock.next for clock in self._clocks.values())
        return min([self._steps, *(step for step in clocks if step is not None)])

    def add(self, metrics: Metrics) -> None:
        """Add the metrics of a program's call, and write a line if one is due.

        Args:
          metrics: metrics of the call that ended at ``step`` and ``seconds``.

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
        line |= self._counters() | self._once
        (step, seconds), self._since = self._since, (self.step, self.seconds)
        if self.seconds > seconds:
            speed = (self.step - step) / (self.seconds - seconds)
            line[self._speed_name] = speed
        self._interval, self._once = Interval(), {}
        self.log(line)

    def compiled(self, seconds: float) -> None:
        """Log the first iteration's time, mostly compilation, instead of its speed."""
        self._once["time/first_iteration_seconds"] = seconds
        self._since = self.step, self.seconds

    def log(self, metrics: dict[str, Any]) -> None:
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

    @property
    def finished(self) -> bool:
        """Whether training and the last evaluation are finished."""
        return self.done and self._is_evaluated

    def evaluation_due(self) -> bool:
        """Return whether an evaluation is due; True until ``evaluated`` is called."""
        due = self.done or self._should_evaluate.due(self.step)
        return due and not self._is_evaluated

    @property
    def _is_evaluated(self) -> bool:
        return not self._should_evaluate.n or self._evaluated == self.step

    def evaluated(self, result: Evaluation, seconds: float) -> None:
        """Write an evaluation's line, and a checkpoint if it is the best so far."""
        self._evaluated = self.step
        self._should_evaluate(self.step)
        self._evaluating += seconds
        share = self._evaluating / max(self._evaluating + self.seconds, 1e-9)
        times = {"time/eval_seconds": seconds, "time/eval_share": share}
        self.log(result.metrics() | times)
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
        if self.done and self.best is not None and result.score < self.best:
            event = {"last": result.score, "best": self.best}
            event |= {"event": "below_best", "best_step": self._best_step}
            event["measure"] = result.measure
            self.event(event)

    def permanent_due(self) -> bool:
        """Return whether a permanent checkpoint is due; the next save resets it."""
        return self._should_keep.due(self.step)

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


def is_finished(config: RunConfig, state: dict[str, Any]) -> bool:
    """Return whether a checkpoint is of a run that has nothing left to do.

    Args:
      config: of the run.
      state: state of the checkpoint, see ``Record.state``.
    """
    evaluated = state.get("evaluated") == state["step"]
    return state["step"] >= config.steps and (evaluated or not _evaluates_every(config))


def event_text(event: dict[str, Any]) -> str:
    """Return the line of an event, as in ``metrics.jsonl``; empty if it has none.

    Args:
      event: fields of the event, with its kind under ``event``.
    """
    kind = event["event"]
    if kind == "below_best":
        return (
            f"the last evaluation has a {event['measure']} of "
            f"{event['last']:.4g}, below the best one, {event['best']:.4g} at step "
            f"{event['best_step']:,}; use that checkpoint with --checkpoint=best. Its "
            "number is the largest of all evaluations, so a new one is usually lower"
        )
    if kind == "env_failed":
        return f"warning: {event['cause']}; it will be replaced"
    if kind == "env_restarted":
        first, last = event["envs"][0], event["envs"][-1]
        envs = f"env {first}" if first == last else f"envs {first} to {last}"
        seconds, lost = event["seconds"], event["lost_steps"]
        return f"replaced {envs} after {seconds:.1f} s; {lost} steps are lost"
    if kind == "replay_failed":
        return f"warning: {event['reason']}"
    if kind == "pool_worker_restarted":
        return f"warning: worker {event['worker']} is replaced: {event['reason']}"
    if kind == "pool_spilled":
        return (
            f"warning: Ray's memory is full, and {event['bytes'] / 1e6:,.0f} MB were "
            "written to disks; use smaller rollouts, or give Ray more memory"
        )
    return ""


def system(traces: int) -> dict[str, float]:
    """Return system metrics that should stay constant during a run."""
    sizes: dict[str, float] = {"system/traces": traces}
    with contextlib.suppress(OSError):  # not every system reports memory
        sizes["system/learner_mb"] = layout.resident_bytes() / 2**20
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
