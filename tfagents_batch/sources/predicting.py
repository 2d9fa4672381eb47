"""Programs of predictors, and the numbers that choose among them.

A program collects rollouts, or joins them for updates. The numbers may change between
two programs of a predictor.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfagents_batch import metrics, nest, seeds
from tfagents_batch.graph import arrays
from tfagents_batch.graph.function import single_call
from tfagents_batch.sources.async_rollout import AsyncRollout
from tfagents_batch.tracing import anew
from tfagents_batch.types import Trajectory

MARGIN = 0.03  # share by which a candidate has to be better, beyond the noise
ERRORS = 1.5  # standard errors of a difference that count as noise
PAIRS = 2, 6  # fewest and most measurements of incumbent and candidate
DROP, WATCHED = 0.1, 3  # loss of score, in so many windows, that starts a new search
SKIPPED = 0.2  # share of a window before it counts, while queues change
PENALTY = 0.01  # share of the score for each update of lag above the limit


def collector(
    part: AsyncRollout, rollouts: int, wait_for: int, compiled: bool
) -> Callable:
    """Return the program of a predictor.

    It is a function of seed and environment steps that returns trajectories
    ``[K, T, n]``, their metrics, merged, and the number of transitions.
    """

    def collect(seed, step):
        one = functools.partial(part.collect, wait_for=wait_for)
        one = tf.function(one, autograph=False)
        known = one.get_concrete_function(seed, step).structured_outputs

        def body(index, steps, totals, written):
            collected = one(seeds.update_seed(seed, index), step)
            written = arrays.write(written, index, collected.trajectory)
            totals = metrics.merge(totals, collected.metrics)
            return index + 1, steps + collected.steps, totals, written

        like = nest.map(lambda x: tf.TensorSpec(x.shape, x.dtype), known.trajectory)
        start = tf.constant(0), tf.constant(0, tf.int64), metrics.start(known.metrics)
        _, steps, totals, written = tf.while_loop(
            lambda index, *_: index < rollouts,
            body,
            (*start, arrays.empty(rollouts, like)),
            parallel_iterations=1,
            name="rollouts",
        )
        totals = metrics.finish(totals, tf.constant(rollouts))
        return arrays.stack(written), totals, steps

    body = single_call(collect) if compiled else collect
    return tf.function(anew(body), jit_compile=compiled, autograph=False)


def joiner(count: int) -> Callable[[Sequence[Trajectory]], Trajectory]:
    """Return a program that joins rollouts, ``count`` of them for each update."""
    return tf.function(functools.partial(_joined, count=count), autograph=False)


def _joined(parts: Sequence[Trajectory], count: int) -> Trajectory:
    """Return the rollouts of updates, ``count`` of them side by side in each.

    Parts are N rollouts together, ``[K, T, n]``; they become
    ``[N / count, T, count * n]``.
    """
    whole = nest.map(lambda *x: tf.concat(x, 0), *parts)
    groups = nest.unfold(whole, nest.static_size(whole.steps.first) // count, count)

    def columns(x):  # [groups, count, T, n, ...]
        group, _, time, *_ = x.shape
        order = [0, 2, 1, *range(3, x.shape.rank)]
        return tf.reshape(tf.transpose(x, order), [group, time, -1, *x.shape[4:]])

    def states(x):  # [groups, count, n, ...]
        return tf.reshape(x, [x.shape[0], -1, *x.shape[3:]])

    rows = nest.map(columns, groups._replace(state=()))
    return rows._replace(state=nest.map(states, groups.state))


class PredictorNumbers(NamedTuple):
    """Numbers that may change between two programs."""

    agents: int  # environments of each predictor that are stepped
    predict_batch: int  # environments whose actions are selected at once
    predictors: int  # threads that work; the others rest
    rollouts_per_update: int  # a power of two


class PredictorChoice:
    """Choice of the numbers, which change only with ``queue.adjust``.

    Args:
      config: checked ``queue_settings.QueueSettings``.
      part: source of one of ``count`` predictors.
      seed: seed of the search.

    Attributes:
      values: possible values of each number.
      tuner: searches among them.
    """

    def __init__(self, config: Any, part: AsyncRollout, count: int, seed: int):
        self._config, self._part = config, part
        start, self.values = _choices(config, part, count)
        limits = config.adjust_seconds, config.adjust_lag
        self.tuner = AutoTuner(self.values, start, seed, *limits)

    @property
    def numbers(self) -> PredictorNumbers:
        """Numbers in use, with as many rollouts as the smallest update needs."""
        numbers = PredictorNumbers(**self.tuner.numbers)
        rows = [x for x in self.values["predict_batch"] if x <= numbers.agents]
        most = max(rows, default=numbers.predict_batch)
        numbers = numbers._replace(predict_batch=min(numbers.predict_batch, most))
        part, wanted = self._part, self._config.train_batch
        rows = _least_rows(
            numbers.agents, numbers.predict_batch, part.size, part.length
        )
        updates = self.values["rollouts_per_update"]
        least = min(x for x in updates if x * rows >= wanted)
        return numbers._replace(
            rollouts_per_update=max(numbers.rollouts_per_update, least)
        )


def _choices(
    config: Any, part: AsyncRollout, count: int
) -> tuple[dict[str, int], dict[str, list[int]]]:
    """Return the numbers of the start, and the possible values of each number."""
    size, length = part.size, part.length
    rows = _least_rows(part.batch, part.wait_for, size, length)
    rollouts = 1 << (-(-config.train_batch // rows) - 1).bit_length()
    start = PredictorNumbers(part.batch, part.wait_for, count, rollouts)
    start = start._asdict()
    if not config.adjust:
        return start, {name: [value] for name, value in start.items()}
    groups = part.batch // size
    agents = {groups}
    for i in range(8):  # closer together where they are small
        agents |= {max(1, groups >> i), max(1, 3 * groups >> (i + 2))}
    batches = {size << i for i in range(8) if size << i <= part.batch}
    updates = [rollouts, 2 * rollouts, 4 * rollouts]
    while updates[-1] * size * length < config.train_batch:  # with few agents
        updates.append(2 * updates[-1])
    return start, {
        "agents": [size * x for x in sorted(agents)[-9:]],
        "predict_batch": sorted({*batches, part.wait_for}),
        "predictors": list(range(1, count + 1)),
        "rollouts_per_update": updates,
    }


def _least_rows(agents: int, wait_for: int, size: int, length: int) -> int:
    """Return the smallest number of rows of a rollout.

    When it ends, fewer than ``wait_for`` of the agents lack steps, and the ``size``
    agents of a worker are at the same step.
    """
    return (agents - wait_for + size) * length


class AutoTuner:
    """Hill climbing, one number at a time, on the speed in windows of a run.

    GA3C (Babaeizadeh et al. 2017, section 3.2) changes several numbers at random and
    keeps what was better than the window before, for ever. Here the best known numbers
    and the candidate are measured in turn, a candidate has to be better by more than
    the noise, steps shrink, and the search ends.

    The score of a window is the number of transitions learned from in a second, less a
    penalty if the mean lag is above a limit. ``numbers`` are those to use now.

    Args:
      values: ``{name: possible values}``, in increasing order.
      start: ``{name: value}``.
      seed: seed of the order of changes.
      seconds: length of a window.
      most_lag: mean lag in updates without a penalty.

    Attributes:
      settled: whether the search has ended.
      changed: number of changes that were kept.
    """

    def __init__(
        self,
        values: Mapping[str, Sequence[int]],
        start: Mapping[str, int],
        seed: int,
        seconds: float = 20.0,
        most_lag: float = 50.0,
    ):
        self._values = {name: list(numbers) for name, numbers in values.items()}
        self._best = {name: self._values[name].index(start[name]) for name in values}
        self._random = np.random.default_rng(seed)
        self._seconds, self._most_lag = seconds, most_lag
        self.changed, self._level = 0, 0.0
        self._begin()
        self._open_window()

    @property
    def numbers(self) -> dict[str, int]:
        """Numbers of the current window."""
        places = self._candidate if self._on_candidate else self._best
        return {name: self._values[name][i] for name, i in places.items()}

    def add(self, seconds: float, rows: float, updates: float, lag: float) -> None:
        """Add updates to the window; a window that is over sets new numbers.

        Args:
          seconds: time that they took, without evaluations and checkpoints.
          rows: transitions that were learned from.
          updates: number of updates.
          lag: their mean lag.
        """
        self._passed += seconds
        if self._passed > SKIPPED * self._seconds:
            self._counted += np.array([seconds, rows, updates, lag * updates])
        if self._passed < self._seconds or not self._counted[2]:
            return
        took, learned, made, late = self._counted
        above = max(0.0, late / made - self._most_lag)
        self.observe(learned / took / (1 + PENALTY * above))
        self._open_window()

    def observe(self, score: float) -> None:
        """Take the score of a window with ``numbers``, and choose the next ones."""
        if self.settled:  # search again if scores stay low
            self._low = self._low + 1 if score < (1 - DROP) * self._level else 0
            if self._low == WATCHED:
                self._begin()
            return
        self._scores[self._on_candidate].append(score)
        self._on_candidate = not self._on_candidate
        if len(self._scores[1]) >= PAIRS[0] and not self._on_candidate:
            self._decide()

    def _open_window(self) -> None:
        self._passed, self._counted = 0.0, np.zeros(4)

    def _begin(self) -> None:
        """Start the search from the best numbers."""
        self.settled, self._low = False, 0
        self._candidates = self._search()
        self._next()

    def _search(self) -> Iterator[tuple[str, int]]:
        """Yield changes, by how many of its values a number moves.

        Both directions of every number come in turn, with smaller steps after a turn in
        which nothing was kept.
        """
        steps = {name: max(1, len(x) // 4) for name, x in self._values.items()}
        while True:
            before = self.changed
            changes = [
                (name, x * sign) for name, x in steps.items() for sign in (1, -1)
            ]
            for index in self._random.permutation(len(changes)):
                kept = None
                while kept != self.changed:  # further in a direction that was better
                    kept = self.changed
                    yield changes[index]
            if self.changed == before:
                if all(step == 1 for step in steps.values()):
                    return
                steps = {name: max(1, step // 2) for name, step in steps.items()}

    def _next(self) -> None:
        """Choose the next candidate; the search ends if there is none."""
        self._on_candidate, self._scores = False, ([], [])
        for name, by in self._candidates:
            place = min(max(self._best[name] + by, 0), len(self._values[name]) - 1)
            if place != self._best[name]:
                self._candidate = self._best | {name: place}
                return
        self.settled, self._candidate = True, self._best

    def _decide(self) -> None:
        """Keep the candidate, reject it, or measure both once more."""
        before, after = (float(np.mean(x)) for x in self._scores)
        count = len(self._scores[1])
        variance = sum(float(np.var(x, ddof=1)) for x in self._scores) / count
        gain, noise, least = after - before, ERRORS * variance**0.5, MARGIN * before
        self._level = before
        if gain - noise > least:
            self._best, self._level = self._candidate, after
            self.changed += 1
        elif gain + noise > least and count < PAIRS[1]:
            return
        self._next()
