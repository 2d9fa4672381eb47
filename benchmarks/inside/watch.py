"""Watch a training run: evaluate it, record its curve, and end it."""

from __future__ import annotations

from typing import Any

from benchmarks.inside.clock import Clock
from benchmarks.inside.greedy import Act, EvaluationEnvs
from benchmarks.work.stepping import describe, make, versions
from benchmarks.work.thresholds import Learning


class Watch:
    """Watch that a contender calls at the end of every phase and every iteration.

    Args:
      work: work with the threshold.
      clock: clock of the run; it stops during evaluations.
    """

    def __init__(self, work: Learning, clock: Clock):
        self.phases: dict[str, float] = {}
        self._work, self._clock = work, clock
        self._steps = 0
        self._first: tuple[int, float] | None = None
        self._curve: list[tuple[int, float, float]] = []
        self._envs: EvaluationEnvs | None = None
        self._end: float | None = None
        self._reached = False

    def phase(self, name: str) -> None:
        """Record the seconds of a phase, since the end of the previous one."""
        self._end_phase(name, self._clock.seconds())

    def iteration(self, steps: int, act: Act) -> bool:
        """Record the end of an iteration; return whether the run must end.

        Args:
          steps: environment steps so far.
          act: function of greedy actions, see ``EvaluationEnvs.returns``.
        """
        work, before, self._steps = self._work, self._steps, steps
        self._end = self._clock.seconds()
        if self._first is None:
            self._end_phase("first_iteration", self._end)
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
        """Return the result of the run.

        Returns:
          ``reached``; ``seconds`` and ``steps`` to the threshold or to the end;
          ``curve`` of (steps, seconds, mean return); ``phases`` in seconds; ``rate``,
          env steps/s after the first iteration; ``same``, properties that must be equal
          for all contenders.
        """
        if self._first is None:
            raise RuntimeError("training ended before the end of its first iteration")
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
        if self._envs:
            self._envs.close()

    def _end_phase(self, name: str, now: float) -> None:
        self.phases[name] = now - sum(self.phases.values())

    def _evaluate(self, act: Act) -> float:
        with self._clock.pause():
            if self._envs is None:
                self._envs = EvaluationEnvs(self._work.env, self._work.episode_seeds())
            returns = self._envs.returns(act)
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
