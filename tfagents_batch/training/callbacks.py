"""Callbacks: functions that the training loop calls and that may end training.

    def report(evaluated):
        print(evaluated.step, evaluated.mean_return)

    tfb.train("ppo", env="CartPole-v1", on_evaluation=[report, stop_at_return(475)])

A callback gets one argument, an ``Iterated``, ``Evaluated`` or ``Saved``. Returning
``False`` ends training: a checkpoint is written, and the run counts as finished. None,
which a function without ``return`` returns, and ``True`` continue training. Any other
value is an error, because its meaning is unclear. An exception ends training too: a
checkpoint is written, and the exception is raised again unchanged.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfagents_batch.clocks import Every
from tfagents_batch.errors import UserError
from tfagents_batch.training.evaluate import Evaluation


class Iterated(NamedTuple):
    """A finished iteration: a trajectory was collected and the agent updated.

    Attributes:
      step: env steps so far.
      metrics: scalars of this iteration by their log names. An iteration in which no
        episode ended has no ``episode/return_mean``.
      folder: run folder.
    """

    step: int
    metrics: Mapping[str, float]
    folder: Path


class Evaluated(NamedTuple):
    """A finished evaluation.

    Attributes:
      step: env steps so far.
      result: the ``Evaluation`` of episodes; or a ``RowsReport`` on logged
        rows, which has neither returns nor other attributes of episodes.
      best: whether it is the best so far.
      folder: run folder.
    """

    step: int
    result: Any
    best: bool
    folder: Path

    @property
    def returns(self) -> np.ndarray:
        """Undiscounted sums of raw rewards, f64 ``[episodes]``."""
        return self.result.returns

    @property
    def lengths(self) -> np.ndarray:
        """Steps, i64 ``[episodes]``."""
        return self.result.lengths

    @property
    def mean_return(self) -> float:
        """Mean return; NaN without episodes."""
        return self.result.mean_return

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics as they are logged, such as ``eval/return_mean``."""
        return self.result.metrics()

    @property
    def sampled(self) -> Evaluation | None:
        """Episodes with sampled actions, see ``Evaluation``."""
        return self.result.sampled

    @property
    def infos(self) -> Mapping[str, np.ndarray]:
        """Values of ``log_info``, see ``Evaluation``."""
        return self.result.infos

    @property
    def failed_episodes(self) -> int:
        """Number of episodes that failed, see ``Evaluation``."""
        return self.result.failed_episodes

    @property
    def cut_off_episodes(self) -> int:
        """Number of episodes that were cut off, see ``Evaluation``."""
        return self.result.cut_off_episodes


class Saved(NamedTuple):
    """A written checkpoint.

    Attributes:
      step: env steps so far.
      path: its folder, complete and verified.
      best: whether it belongs to the best evaluation so far.
      folder: run folder.
    """

    step: int
    path: Path
    best: bool
    folder: Path


OnIteration = Callable[[Iterated], bool | None]
"""Function that is called after each iteration; False ends training."""
OnEvaluation = Callable[[Evaluated], bool | None]
"""Function that is called after each evaluation; False ends training."""
OnCheckpoint = Callable[[Saved], bool | None]
"""Function that is called after each checkpoint; False ends training."""


_EVENTS = {"on_iteration": Iterated, "on_evaluation": Evaluated, "on_checkpoint": Saved}


class Callbacks:
    """The callbacks of one run.

    There is one for each occasion, several, or None. They are called in order, all of
    them even if one ends training.

    Attributes:
      stopped_by: name of the callback that ended training; None before that.
      raised: exception that a callback raised; no callback is called after it.
    """

    def __init__(
        self,
        folder: Path,
        on_iteration: OnIteration | Sequence[OnIteration] | None = None,
        on_evaluation: OnEvaluation | Sequence[OnEvaluation] | None = None,
        on_checkpoint: OnCheckpoint | Sequence[OnCheckpoint] | None = None,
    ):
        self.stopped_by: str | None = None
        self.raised: BaseException | None = None
        self._folder = Path(folder)
        self._iteration = listed("on_iteration", on_iteration)
        self._evaluation = listed("on_evaluation", on_evaluation)
        self._checkpoint = listed("on_checkpoint", on_checkpoint)

    @property
    def sees_iterations(self) -> bool:
        """Whether there are callbacks of iterations."""
        return bool(self._iteration)

    def iteration(self, step: int, metrics: Callable[[], Mapping[str, Any]]) -> None:
        """Call the iteration callbacks; without any, ``metrics()`` is not called."""
        if self._iteration:
            scalars = {k: float(v) for k, v in metrics().items() if np.ndim(v) == 0}
            self._call(self._iteration, Iterated(step, scalars, self._folder))

    def evaluation(self, step: int, result: Evaluation, best: bool) -> None:
        """Call the evaluation callbacks."""
        self._call(self._evaluation, Evaluated(step, result, best, self._folder))

    def checkpoint(self, step: int, path: Path, best: bool) -> None:
        """Call the checkpoint callbacks."""
        self._call(self._checkpoint, Saved(step, Path(path), best, self._folder))

    def _call(self, callbacks: Sequence[Callable], argument: Any) -> None:
        if self.raised is not None:
            return
        try:
            for callback in callbacks:
                if not _continues(callback, callback(argument)):
                    self.stopped_by = self.stopped_by or name(callback)
        except BaseException as error:
            self.raised = error
            raise


def listed(argument: str, passed: Any) -> tuple[Callable, ...]:
    """Return callbacks as a tuple; refuse what cannot be called."""
    callbacks = passed if isinstance(passed, (list, tuple)) else [passed]
    callbacks = tuple(callback for callback in callbacks if callback is not None)
    for callback in callbacks:
        if not callable(callback):
            raise UserError(
                f"{argument} is {callback!r}; expected a function of one argument, or "
                "a list of them"
            )
        _check_signature(argument, callback)
    return callbacks


def _check_signature(argument: str, callback: Callable) -> None:
    """Refuse a callback of several arguments before training rather than after."""
    try:
        signature = inspect.signature(callback)
    except (TypeError, ValueError):  # some functions in C have none
        return
    try:
        signature.bind(None)
    except TypeError:
        event = _EVENTS[argument]
        raise UserError(
            f"{name(callback)}{signature} of {argument} does not take one argument; "
            f"expected a function of {event.__name__}: {', '.join(event._fields)}"
        ) from None


def name(callback: Callable) -> str:
    """Return the name of a callback in logs."""
    return getattr(callback, "__qualname__", None) or type(callback).__qualname__


def stop_at_return(threshold: float) -> OnEvaluation:
    """End training when an evaluation's mean return reaches a threshold.

    It raises a UserError in evaluations on logged rows, which play no episodes.
    """

    def stop(evaluated: Evaluated) -> bool:
        if not isinstance(evaluated.result, Evaluation):
            raise UserError(
                f"{stop.__qualname__} needs returns, but evaluations on logged rows "
                "have none; pass an environment"
            )
        return not evaluated.mean_return >= threshold

    stop.__qualname__ = f"stop_at_return({threshold:g})"
    return stop


def stop_without_improvement(evaluations: int) -> OnEvaluation:
    """End training after this many evaluations in a row without a new best one.

    It raises a UserError in evaluations on logged rows that no number compares.
    """
    if evaluations < 1:
        raise UserError(f"evaluations is {evaluations}; expected at least 1")
    waited = 0

    def stop(evaluated: Evaluated) -> bool:
        nonlocal waited
        result = evaluated.result
        if math.isnan(result.score) and not isinstance(result, Evaluation):
            raise UserError(
                f"{stop.__qualname__} compares evaluations, but those of these logged "
                "rows have no number that is larger in a better one, such as "
                "actions/gain; pass an environment"
            )
        waited = 0 if evaluated.best else waited + 1
        return waited < evaluations

    stop.__qualname__ = f"stop_without_improvement({evaluations})"
    return stop


def every(steps: int, callback: OnIteration) -> OnIteration:
    """Call a callback every ``steps`` env steps, at the end of an iteration.

    Steps are counted for each run separately.
    """
    runs: dict[Path, Every] = {}

    def call(iterated: Iterated) -> bool | None:
        due = runs.setdefault(iterated.folder, Every(steps))
        return callback(iterated) if due(iterated.step) else None

    call.__qualname__ = f"every({steps}, {name(callback)})"
    return call


def _continues(callback: Callable, returned: Any) -> bool:
    if returned is None:
        return True
    if isinstance(returned, (bool, np.bool_)):
        return bool(returned)
    raise UserError(
        f"callback {name(callback)} returned {returned!r}; expected False to end "
        "training, True or None to continue"
    )
