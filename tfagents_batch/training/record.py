"""What one run says and keeps while it is trained: lines, evaluations, checkpoints."""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tfagents_batch.envs import memory
from tfagents_batch.errors import TrainingError
from tfagents_batch.schedules import Every
from tfagents_batch.training.hooks import Hooks
from tfagents_batch.training.metrics import COUNT, SUM

if TYPE_CHECKING:
    from tfagents_batch.training.config import Config
    from tfagents_batch.training.evaluate import Evaluation
    from tfagents_batch.training.output import Output

BAD_ITERATIONS = 3  # in a row without a finite gradient, after which training ends

MOST_EPISODES = 10_000  # of an interval, the newest, that its medians are of
_COUNT = "episode/count"


class Interval:
    """Metrics since the last line: means over iterations, episode by episode."""

    def __init__(self):
        self._sums: dict[str, float] = defaultdict(float)
        self._counts: dict[str, int] = defaultdict(int)
        self._vectors: dict[str, np.ndarray] = {}
        self._episodes = {"return": _Episodes(), "length": _Episodes()}
        self._said: dict[str, float] = defaultdict(float)  # sums, and how many said it

    def add(self, metrics: dict[str, Any]) -> None:
        """Take an iteration's, as programs return them, see ``metrics.collected``."""
        metrics = dict(metrics)
        for name, episodes in self._episodes.items():
            parts = ("sum", "min", "max")
            found = [metrics.pop(f"episode/{name}_{part}", None) for part in parts]
            newest = metrics.pop(f"episode/{name}s", None)
            if metrics.get(_COUNT):
                episodes.add(*found, newest)
        for name, value in metrics.items():
            value = np.asarray(value)
            if name.endswith((SUM, COUNT)) and name != _COUNT:
                self._said[name] += float(value)
            elif value.ndim:
                self._vectors[name] = value
            else:
                self._sums[name] += float(value)
                self._counts[name] += 1

    def summary(self) -> dict[str, Any]:
        """Means by name; of vectors the newest; what had no episode is left out."""
        summary: dict[str, Any] = {
            name: total / self._counts[name] for name, total in self._sums.items()
        }
        if _COUNT in self._sums:
            count = summary[_COUNT] = int(self._sums[_COUNT])
            for name, episodes in self._episodes.items():
                found = episodes.summary(count).items() if count else ()
                summary |= {f"episode/{name}_{part}": value for part, value in found}
        for name in [name for name in self._said if name.endswith(COUNT)]:
            if self._said[name]:
                told = name.removesuffix(COUNT)
                summary[f"{told}_mean"] = self._said[told + SUM] / self._said[name]
        return summary | self._vectors


class _Episodes:
    """One number of each episode of an interval."""

    def __init__(self):
        self._sum, self._min, self._max = 0.0, math.inf, -math.inf
        self._newest: deque[float] = deque(maxlen=MOST_EPISODES)

    def add(self, total: float, least: float, most: float, newest: np.ndarray) -> None:
        """Take an iteration's; ``newest`` is the first of ``[n]``, then NaN."""
        self._sum += float(total)
        self._min = min(self._min, float(least))
        self._max = max(self._max, float(most))
        newest = np.asarray(newest)
        self._newest.extend(newest[~np.isnan(newest)][::-1].tolist())

    def summary(self, count: int) -> dict[str, float]:
        found = {"mean": self._sum / count, "min": self._min, "max": self._max}
        if self._newest:  # else all are NaN
            found["median"] = float(np.median(self._newest))
        return found


class Record:
    """One run's lines, clocks, best evaluation and checkpoints, whoever trains it.

    Args:
      config: of the run.
      output: takes lines of metrics and checkpoints.
      state: of the checkpoint that is resumed, as ``save`` was given it.
      hooks: the user's callbacks, told of iterations and evaluations.

    Attributes:
      step: environment steps done.
      seconds: trained for, evaluations and pauses left out.
      best: mean return of the best evaluation; None before the first.
      latest: the newest value of every scalar metric.
      saved: step of the newest checkpoint; None before the first.
    """

    def __init__(
        self,
        config: Config,
        output: Output,
        state: dict[str, Any] | None = None,
        hooks: Hooks | None = None,
    ):
        state = state or {}
        self._hooks = hooks or Hooks(Path())
        self.step: int = state.get("step", 0)
        self.seconds: float = state.get("trained_seconds", 0.0)
        self._evaluating: float = state.get("evaluated_seconds", 0.0)
        self.best: float | None = state.get("best")
        self.saved: int | None = state.get("step")
        self.latest: dict[str, Any] = {}
        self._write, self._save = output.write, output.save
        self._steps = config.steps
        evaluate_every = default(config.eval_every, config.steps // 10)
        self._evaluates = bool(evaluate_every)
        self._should_evaluate = Every(evaluate_every)
        self._should_log = Every(default(config.log_every, config.steps // 200))
        self._should_keep = Every(config.keep_every)
        for name, clock in self._clocks().items():
            if name in state:
                clock.restore(state[name])
        self._evaluated: int | None = state.get("evaluated")
        self._best_step: int | None = None
        self._keep_step: int | None = state.get("keep", {}).get("last")
        self._keep = False  # whether the next checkpoint is to stay
        self._interval = Interval()
        self._once: dict[str, Any] = {}  # what only the next line says
        self._since = self.step, self.seconds  # at the last line
        self._bad = 0

    @property
    def done(self) -> bool:
        """Are all steps trained, or does a callback say that it is enough?"""
        return self.step >= self._steps or self._hooks.stopped_by is not None

    @property
    def due(self) -> int:
        """The step at which a line, an evaluation, a checkpoint that stays or the end
        is due next."""
        clocks = (clock.next for clock in self._clocks().values())
        return min([self._steps, *(step for step in clocks if step is not None)])

    def add(
        self,
        metrics: dict[str, Any],
        more: Callable[[], dict[str, Any]],
    ) -> None:
        """Take an iteration's metrics, and write a line if it is time.

        Args:
          metrics: of the iteration that ended at ``step`` and ``seconds``.
          more: what else a line says, asked for when there is one.

        Raises:
          TrainingError: when no gradient was finite for some iterations.
        """
        self._interval.add(metrics)
        self._check_finite(metrics)
        if self._hooks.watches_iterations:
            one = Interval()
            one.add(metrics)
            self._hooks.iteration(self.step, one.summary())
        if self._should_log(self.step) or self.done:
            self.flush(more)

    def flush(self, more: Callable[[], dict[str, Any]]) -> None:
        """Write a line of the iterations since the last one, if there were any.

        Args:
          more: as of ``add``.
        """
        line = self._interval.summary()
        if not line:
            return
        line |= more() | self._once
        (step, seconds), self._since = self._since, (self.step, self.seconds)
        if self.seconds > seconds:
            speed = (self.step - step) / (self.seconds - seconds)
            line["time/env_steps_per_second"] = speed
        self._interval, self._once = Interval(), {}
        self.log(line)

    def compiled(self, seconds: float) -> None:
        """The first iteration took so long, mostly compiling, so it has no speed."""
        self._once["time/first_iteration_seconds"] = seconds
        self._since = self.step, self.seconds

    def log(self, metrics: dict[str, Any]) -> None:
        """Write a line."""
        metrics = metrics | {"time/elapsed_seconds": self.seconds}
        self.latest |= {k: v for k, v in metrics.items() if np.ndim(v) == 0}
        self._write(metrics, self.step)

    @property
    def rests(self) -> bool:
        """Is there nothing left to train or to evaluate?"""
        return self.done and (not self._evaluates or self._evaluated == self.step)

    def evaluation_due(self) -> bool:
        """Is it time to evaluate? It stays so until ``evaluated``."""
        if not self._evaluates or self._evaluated == self.step:
            return False
        return self.done or self._should_evaluate.due(self.step)

    def evaluated(self, result: Evaluation, seconds: float) -> None:
        """Write the line of an evaluation, and a checkpoint if it is the best one."""
        self._evaluated = self.step
        self._should_evaluate(self.step)
        self._evaluating += seconds
        share = self._evaluating / max(self._evaluating + self.seconds, 1e-9)
        told = {"time/eval_seconds": seconds, "time/eval_share": share}
        self.log(result.metrics() | told)
        before = self.best, self._best_step
        best = _is_better(result.mean_return, self.best)
        if best:
            self.best, self._best_step = result.mean_return, self.step
        # What is saved already does not know yet that it is evaluated.
        stale = best or self.saved == self.step
        if stale and not self.checkpoint(again=True):
            self.best, self._best_step = before
        self._hooks.evaluation(self.step, result, best)

    def keeping_due(self) -> bool:
        """Is it time for a checkpoint that stays? Once: the next that can be saved."""
        return self._should_keep.due(self.step)

    def checkpoint(self, again: bool = False) -> bool:
        """Save, unless this step is saved already; false if it could not be.

        Args:
          again: save in any case.
        """
        if self.saved == self.step and not again:
            return True
        self._keep |= self._should_keep(self.step)
        if self._keep:
            self._keep_step = self.step
        state = {name: clock.state() for name, clock in self._clocks().items()}
        state |= {
            "step": self.step,
            "best": self.best,
            "evaluated": self._evaluated,
            "trained_seconds": self.seconds,
            "evaluated_seconds": self._evaluating,
        }
        # Of a step, not of this call: what is saved again is still the best.
        marks = {"best": self._best_step, "keep": self._keep_step}
        told = {name: step == self.step for name, step in marks.items()}
        if not self._save(self.step, state, told):
            return False
        self._keep = False
        self.saved = self.step
        return True

    def _check_finite(self, metrics: dict[str, Any]) -> None:
        bad = float(metrics.get("grad/skipped", 0.0)) == 1
        self._bad = self._bad + 1 if bad else 0
        if self._bad == BAD_ITERATIONS:
            raise TrainingError(
                f"no gradient was finite in {BAD_ITERATIONS} iterations, up to step "
                f"{self.step}: look for NaN in rewards and observations, or lower the "
                "learning rate; the checkpoints before are whole"
            )

    def _clocks(self) -> dict[str, Every]:
        return {
            "evaluate": self._should_evaluate,
            "log": self._should_log,
            "keep": self._should_keep,
        }


def _is_better(new: float, best: float | None) -> bool:
    """Is a mean return a new best? NaN never is, and never stays it."""
    return not math.isnan(new) and (best is None or not new <= best)


def system(traces: int) -> dict[str, float]:
    """What should stay level however long a run is.

    Args:
      traces: of its program.
    """
    sizes: dict[str, float] = {"system/traces": traces}
    with contextlib.suppress(OSError):  # where the system does not say
        sizes["system/learner_mb"] = memory.resident_bytes() / 2**20
    return sizes


def default(value: int | None, otherwise: int) -> int:
    """A setting, or what stands for it where it is None."""
    return otherwise if value is None else value
