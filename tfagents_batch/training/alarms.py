"""Alarms: warnings about problems of a training run, while it runs.

    alarms = Alarms(algorithm.config.alarms(spec), steps=200_000, num_envs=8)
    for alarm in alarms.check(metrics, step):
        print(alarm.text)

Every alarm is a row of a table: a metric, its limit, how long the metric has to exceed
it, and what to try. The rows here are about episodes, for every algorithm. Algorithms
add rows about their own metrics. Alarms only read the logged lines.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfagents_batch.metrics import Limit

CALM = 5  # consecutive lines within the limit before an alarm may be raised again
# Limit of the steps without the end of an episode, if the time limit is unknown: ten
# times the longest episode of Gymnasium's classic and MuJoCo tasks.
LONG = 10_000
START = 3  # lines in the mean return at the start
WINDOW, PART = 10, 0.05  # lines and part of the run in a mean return, at least
RISEN = 4  # the return has improved if it rose by more than this times its noise
_MASKED = "env/masked"  # marks lines of training
_RETURN = "episode/return_mean"

NO_EPISODES = Limit(
    "no_episodes",
    "progress/waited",
    above=LONG,
    text="No episode ended in {progress/waited:,.0f} steps of each environment, so "
    "no return is known. What to try: check what the environment does after "
    "reset, and whether it returns terminated and truncated; give it a time limit "
    "(gymnasium.wrappers.TimeLimit). A continuing task can ignore this: "
    "its evaluations are cut off after --eval_max_episode_steps",
)
RETURN_FELL = Limit(
    "return_fell",
    "progress/kept",
    below=0.3,
    lines=5,
    part=0.02,
    text="The return fell back: {progress/recent:.5g} now, {progress/best:.5g} at "
    "best, {progress/start:.5g} at the start. A single too large update can do this. "
    "The best checkpoint of an evaluation is still stored. What to try: a lower "
    "learning rate or one that falls, such as linear(3e-4, 0); smaller updates",
)
NO_REWARD = Limit(
    "no_reward",
    "progress/change",
    below=1e-6,
    lines=20,
    part=0.1,
    text="Every episode so far had a return of {episode/return_mean:.6g}, so no "
    "action looks better than another. What to try: check the reward that the "
    "environment returns; if it is rare, more exploration, more environments "
    "(--num_envs), a reward for coming closer, or an easier start",
)
RETURN_FLAT = Limit(
    "return_flat",
    "progress/gain",
    below=2,
    part=0.5,
    text="The return has not risen so far: {progress/start:.5g} on average of the "
    "first lines, {progress/recent:.5g} of the newest, {progress/best:.5g} at best, "
    "while lines differ by {progress/noise:.3g}. What to try: another learning rate "
    "(ten times less, three times more); more --steps if the task is hard; more "
    "--num_envs; a larger discount factor if rewards come late; more exploration; "
    "compare with a random policy: perhaps no better return is possible",
)

GRADIENTS_SKIPPED = Limit(
    "gradients_skipped",
    "grad/skipped",
    above=0,
    text="{grad/skipped:.0%} of the optimizer steps were dropped, because a "
    "gradient was NaN or infinite; training ends when none is left. What to "
    "try: look for NaN or huge numbers in rewards and observations "
    "(tfagents-batch check --env=...); lower --algorithm.learning_rate",
)


class Alarms:
    """Raises alarms, each once until it has cleared.

    Args:
      rows: alarms of the algorithm.
      steps: environment steps of the whole run.
      num_envs: number of environments.
      max_episode_steps: time limit of the environments; None if unknown.
      inherited: whether the agent was trained before, so that its first returns may
        already be as good as possible.
    """

    def __init__(
        self,
        rows: Sequence[Limit],
        steps: int,
        num_envs: int,
        max_episode_steps: int | None = None,
        inherited: bool = False,
    ):
        longest = LONG if max_episode_steps is None else 2 * (max_episode_steps + 1)
        untrained = () if inherited else (NO_REWARD, RETURN_FLAT)
        shared = NO_EPISODES._replace(above=longest), RETURN_FELL, GRADIENTS_SKIPPED
        rows = (*shared, *untrained, *rows)
        self._rows = [_RowState(row, row.part * steps) for row in rows]
        self._progress = _Progress(PART * steps, num_envs)

    def check(self, metrics: Mapping[str, Any], step: int) -> list[Limit]:
        """Add a line of metrics and return the new alarms; vectors are ignored.

        Environment steps do not decrease. Rows of the table are returned, whose texts
        contain the numbers of the line.
        """
        line = {k: float(v) for k, v in metrics.items() if np.ndim(v) == 0}
        line |= self._progress.add(line, step)
        raised = [state.row for state in self._rows if state.check(line, step)]
        return [row._replace(text=row.text.format_map(line)) for row in raised]


class _RowState:
    """One row and the number of consecutive lines beyond its limit."""

    def __init__(self, row: Limit, span: float):
        self.row, self.raised = row, False
        self._span = span
        self._exceeded = self._within = self._since = 0

    def check(self, line: Mapping[str, float], step: int) -> bool:
        """Add a line; return whether it raises the alarm."""
        row, value = self.row, line.get(self.row.metric)
        if value is None:
            return False
        if row.below <= value <= row.above or not row.when(line):
            self._exceeded, self._within = 0, self._within + 1
            self.raised = self.raised and self._within < CALM
            return False
        self._since = self._since if self._exceeded else step
        self._exceeded += 1 if value <= row.at_once else row.lines
        self._within = 0
        persists = self._exceeded >= row.lines and step - self._since >= self._span
        new, self.raised = persists and not self.raised, persists or self.raised
        return new


class _Progress:
    """Trend and noise of returns, as metrics that rows can limit."""

    def __init__(self, span: float, num_envs: int):
        self._span, self._num_envs = span, num_envs
        self._ended: int | None = None  # step of the newest line with a return
        self._first: list[float] = []
        self._window: deque[tuple[int, float]] = deque()
        self._total_change, self._changes = 0.0, 0
        self._best = -math.inf

    def add(self, line: Mapping[str, float], step: int) -> dict[str, float]:
        """Add a line of metrics; return those of these metrics that are known:

        ``progress/waited``, steps of each environment since an episode ended;
        ``change``, mean change from line to line, relative to the newest return;
        ``noise``, the standard deviation that explains this change; ``start``,
        ``recent``, ``best``, mean returns of the first lines, of the newest window and
        of the best window; ``gain``, best minus start, in units of noise; ``kept``,
        the share of the gain that remains, 1 if the gain is at most ``RISEN``.
        """
        value, window = line.get(_RETURN, math.nan), self._window
        if not math.isfinite(value):
            if _MASKED not in line:
                return {}
            self._ended = step if self._ended is None else self._ended
            return {"progress/waited": (step - self._ended) / self._num_envs}
        self._ended = step
        if len(self._first) < START:
            self._first.append(value)
        if window:
            self._total_change += abs(value - window[-1][1])
            self._changes += 1
        window.append((step, value))
        while len(window) > WINDOW and step - window[1][0] >= self._span:
            window.popleft()
        change = self._total_change / max(self._changes, 1)
        measured = {"waited": 0.0, "change": change / (abs(value) or 1.0)}
        if len(window) >= WINDOW and step - window[0][0] >= self._span and change:
            # Two normal numbers differ by 2 / sqrt(pi) standard deviations on average.
            measured |= self._trend(change * math.sqrt(math.pi) / 2)
        return {f"progress/{name}": number for name, number in measured.items()}

    def _trend(self, noise: float) -> dict[str, float]:
        start = math.fsum(self._first) / START
        recent = math.fsum(value for _, value in self._window) / len(self._window)
        best = self._best = max(self._best, recent)
        gain = (best - start) / noise
        kept = (recent - start) / (best - start) if gain > RISEN else 1.0
        means = {"start": start, "recent": recent, "best": best}
        return {"noise": noise, "gain": gain, "kept": kept, **means}
