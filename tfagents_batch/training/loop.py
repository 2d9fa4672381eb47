"""The training loop: phases on clocks around one compiled program."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.envs import memory
from tfagents_batch.errors import (
    EnvError,
    SaveError,
    Stopped,
    TrainingError,
    UserError,
)
from tfagents_batch.schedules import Every, EverySeconds
from tfagents_batch.training import compile_cache
from tfagents_batch.training.experiment import Experiment
from tfagents_batch.training.interrupt import Interrupts

BAD_ITERATIONS = 3  # in a row without a finite gradient, after which training ends

# Means over the episodes of an interval: (sum, count) that programs return.
EPISODES = {
    "episode/return_mean": ("episode/return_sum", "episode/count"),
    "episode/length_mean": ("episode/length_sum", "episode/count"),
}


class Interval:
    """Metrics since the last line: means over iterations, episode by episode."""

    def __init__(self):
        self._sums: dict[str, float] = defaultdict(float)
        self._counts: dict[str, int] = defaultdict(int)
        self._vectors: dict[str, np.ndarray] = {}

    def add(self, metrics: dict[str, Any]) -> None:
        for name, value in metrics.items():
            value = np.asarray(value)
            if value.ndim:
                self._vectors[name] = value
            else:
                self._sums[name] += float(value)
                self._counts[name] += 1

    def summary(self) -> dict[str, Any]:
        """Means by name; of vectors the newest; what had no episode is left out."""
        special = {name for pair in EPISODES.values() for name in pair}
        summary: dict[str, Any] = {
            name: total / self._counts[name]
            for name, total in self._sums.items()
            if name not in special
        }
        for name, (total, count) in EPISODES.items():
            if self._sums.get(count):
                summary[name] = self._sums[total] / self._sums[count]
        return summary | self._vectors


class Loop:
    """Trains an experiment until its steps are done or somebody asks to stop.

    Args:
      experiment: of the run, its variables restored if it is a resumed one.
      interrupts: says when to stop and when to save.
      write: ``(metrics, step)``, takes a line of metrics.
      save: ``(step, state, metadata)``, writes a checkpoint; false if it could not.
      progress: ``(step, metrics)``, called after every iteration.
      tell: ``(event, step)``, called when an environment failed or was replaced.
      state: of the checkpoint that is resumed.
      restore: called once the environments are there, to put them where they were.

    Attributes:
      step: environment steps done.
      latest: the newest value of every scalar metric.
    """

    def __init__(
        self,
        experiment: Experiment,
        interrupts: Interrupts,
        write: Callable[[dict, int], None],
        save: Callable[[int, dict, dict], bool],
        progress: Callable[[int, dict], None],
        tell: Callable[[dict, int], None],
        state: dict | None = None,
        restore: Callable[[], None] = lambda: None,
    ):
        config = experiment.config
        self.experiment = experiment
        self._interrupts = interrupts
        self._write = write
        self._save = save
        self._progress = progress
        self._tell = tell
        self._restore = restore
        state = state or {}
        self.step = state.get("step", 0)
        self.best = state.get("best")
        self._trained_seconds = state.get("trained_seconds", 0.0)
        self.latest: dict[str, Any] = {}
        self._should_evaluate = Every(default(config.eval_every, config.steps // 10))
        self._should_log = Every(default(config.log_every, config.steps // 200))
        for name, clock in self._clocks().items():
            if name in state:
                clock.restore(state[name])
        self._should_save = EverySeconds(config.checkpoint_every)
        self._should_save()
        self._saved: int | None = state.get("step")
        self._evaluate = experiment.evaluator if self._should_evaluate.n else None
        self._bad_iterations = 0

    def run(self) -> bool:
        """Train.

        Returns:
          True when the steps are done, False when a stop was asked for.

        Raises:
          EnvError: after a checkpoint; the iteration in which it happened is void.
          TrainingError: when gradients are not finite any more.
          SaveError: if the last checkpoint could not be written.
        """
        steps = self.experiment.config.steps
        try:
            self.experiment.start(self.step)
            self._restore()
            self._train(steps)
        except Stopped:
            pass
        except (EnvError, UserError):
            self._tell_events()
            self._checkpoint()
            raise
        if not self._checkpoint():
            raise SaveError(
                f"the last checkpoint, of step {self.step}, could not be saved; the "
                f"newest one is of step {self._saved}"
            )
        return self.step >= steps

    def _train(self, steps: int) -> None:
        interval = Interval()
        compiling = True
        first: dict[str, float] = {}  # said in the first line
        since, started = self.step, self._trained_seconds
        while self.step < steps and not self._interrupts.requested:
            metrics = self._iterate()
            self._tell_events()
            if compiling:  # most of the first iteration, so it has no speed
                compiling = False
                first["time/first_iteration_seconds"] = self._trained_seconds - started
                program = self.experiment.iterate
                told = {"compile": program.way, "reason": program.reason}
                self._tell({"event": "compiled", **told}, self.step)
                compile_cache.publish()  # now, for the process may be killed later
                since, started = self.step, self._trained_seconds
            self._check_finite(metrics)
            interval.add(metrics)
            done = self.step >= steps
            if self._should_log(self.step) or done:
                counters = getattr(self.experiment.env, "metrics", dict)() | first
                counters |= self._sizes()
                first = {}
                seconds = self._trained_seconds - started
                if seconds:
                    speed = (self.step - since) / seconds
                    counters |= {"time/env_steps_per_second": speed}
                self._log(interval.summary() | counters)
                interval = Interval()
                since, started = self.step, self._trained_seconds
            self._progress(self.step, self.latest)
            if self._evaluate and (self._evaluation_is_due() or done):
                self._evaluation()
            if self._interrupts.checkpoint_requested or self._should_save():
                self._checkpoint()

    def _iterate(self) -> dict[str, Any]:
        config, experiment = self.experiment.config, self.experiment
        seed = tf.constant(seeds.iteration_seed(config.seed, self.step), tf.int32)
        begin = time.perf_counter()
        try:
            metrics = experiment.iterate(seed)
            return {name: value.numpy() for name, value in metrics.items()}
        finally:
            # Also when it raises: an update may have been done before a stop was seen.
            self._trained_seconds += time.perf_counter() - begin
            self.step = int(experiment.algorithm.step.numpy())

    def _sizes(self) -> dict[str, float]:
        """What should stay level however long a run is."""
        sizes = {}
        with contextlib.suppress(OSError):  # where the system does not say
            sizes["system/learner_mb"] = memory.resident_bytes() / 2**20
        sizes["system/traces"] = self.experiment.iterate.traces()
        return sizes

    def _tell_events(self) -> None:
        for event in self.experiment.events():
            self._tell(event, self.step)

    def _check_finite(self, metrics: dict[str, Any]) -> None:
        bad = float(metrics.get("grad/skipped", 0.0)) == 1
        self._bad_iterations = self._bad_iterations + 1 if bad else 0
        if self._bad_iterations == BAD_ITERATIONS:
            raise TrainingError(
                f"no gradient was finite in {BAD_ITERATIONS} iterations, up to step "
                f"{self.step}: look for NaN in rewards and observations, or lower the "
                "learning rate; the checkpoints before are whole"
            )

    def _evaluation_is_due(self) -> bool:
        before = self._should_evaluate.state()
        due = self._should_evaluate(self.step)
        self._not_evaluated = before
        return due

    def _evaluation(self) -> None:
        seed = seeds.iteration_seed(self.experiment.config.seed, self.step, "evaluate")
        begin = time.perf_counter()
        result = self._evaluate(seed, lambda: self._interrupts.requested)
        self._tell_events()
        if result is None:  # stopped: a resumed run makes up for it
            self._should_evaluate.restore(self._not_evaluated)
            return
        seconds = time.perf_counter() - begin
        self._log(result.metrics() | {"time/eval_seconds": seconds})
        if self.best is None or result.mean_return > self.best:
            before, self.best = self.best, result.mean_return
            if not self._checkpoint(best=True):
                self.best = before

    def _log(self, metrics: dict[str, Any]) -> None:
        metrics |= {"time/elapsed_seconds": self._trained_seconds}
        self.latest |= {k: v for k, v in metrics.items() if np.ndim(v) == 0}
        self._write(metrics, self.step)

    def _checkpoint(self, best: bool = False) -> bool:
        """Save, unless this step is saved already; false if it could not be."""
        if self._saved == self.step and not best:
            return True
        state = {name: clock.state() for name, clock in self._clocks().items()}
        state |= {
            "step": self.step,
            "best": self.best,
            "trained_seconds": self._trained_seconds,
        }
        if not self._save(self.step, state, {"best": best}):
            return False
        self._saved = self.step
        return True

    def _clocks(self) -> dict[str, Every]:
        return {"evaluate": self._should_evaluate, "log": self._should_log}


def default(value: int | None, otherwise: int) -> int:
    """A setting, or what stands for it where it is None."""
    return otherwise if value is None else value
