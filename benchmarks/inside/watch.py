"""Watches a training run: evaluates it, keeps its curve, and says when it is over."""

from __future__ import annotations

from typing import Any

from benchmarks.inside.clock import Clock
from benchmarks.inside.greedy import Act, Games
from benchmarks.work.stepping import describe, make, versions
from benchmarks.work.thresholds import Learning


class Watch:
    """Called by a contender at the end of every phase and of every iteration.

    Args:
      work: with the threshold.
      clock: stopped during evaluations.
    """

    def __init__(self, work: Learning, clock: Clock):
        self.phases: dict[str, float] = {}
        self._work, self._clock = work, clock
        self._steps = 0
        self._first: tuple[int, float] | None = None
        self._curve: list[tuple[int, float, float]] = []
        self._games: Games | None = None
        self._end: float | None = None
        self._reached = False

    def phase(self, name: str) -> None:
        """A phase is over; its seconds are those since the one before."""
        self._ended(name, self._clock.seconds())

    def iteration(self, steps: int, act: Act) -> bool:
        """An iteration is over, its update too; true if the run shall end.

        Args:
          steps: of environments so far.
          act: greedy actions, see ``Games.returns``.
        """
        work, before, self._steps = self._work, self._steps, steps
        self._end = self._clock.seconds()
        if self._first is None:
            self._ended("first_iteration", self._end)
            self._first = (steps, self._end)
        if work.seconds is not None:
            return self._end - self._first[1] >= work.seconds
        late = work.deadline is not None and self._clock.with_pauses() >= work.deadline
        spent = steps >= work.steps or late
        every = work.eval_every
        if every and (spent or steps // every > before // every):
            self._reached = self._evaluate(act) >= work.threshold
        return spent or self._reached

    def result(self) -> dict[str, Any]:
        """What came out.

        Returns:
          ``reached``; ``seconds`` and ``steps`` at which it was, or to the end;
          ``curve`` of (steps, seconds, mean return); ``phases`` in seconds;
          ``rate``, env steps/s after the first iteration; ``same``, what must be
          equal for all contenders.
        """
        if self._first is None:
            raise RuntimeError("training ended before its first iteration did")
        first_steps, first_end = self._first
        training = self._end - first_end
        return {
            "reached": self._reached,
            "seconds": self._end,
            "steps": self._steps,
            "curve": self._curve,
            "phases": self.phases | {"training": training},
            "rate": (self._steps - first_steps) / training if training else None,
            "same": self._same(),
        }

    def close(self) -> None:
        """Close the evaluation's environments."""
        if self._games:
            self._games.close()

    def _ended(self, name: str, now: float) -> None:
        self.phases[name] = now - sum(self.phases.values())

    def _evaluate(self, act: Act) -> float:
        with self._clock.pause():
            if self._games is None:
                self._games = Games(self._work.env, self._work.episode_seeds())
            returns = self._games.returns(act)
        mean = sum(returns) / len(returns)
        self._curve.append((self._steps, round(self._end, 4), mean))
        return mean

    def _same(self) -> dict[str, Any]:
        env = make(self._work.env, {})
        try:
            return {
                "environment": describe(env),
                "threshold": self._work.threshold,
                "eval_every": self._work.eval_every,
                "episode_seeds": self._work.episode_seeds(),
                "versions": versions("gymnasium", "numpy", "mujoco"),
            }
        finally:
            env.close()
