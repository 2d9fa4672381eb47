"""Learning up to a threshold: evaluate a run, record its curve, and end it."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np

from benchmarks.inside import session
from benchmarks.work.works import Learning, described, make

Act = Callable[[np.ndarray], np.ndarray]  # observations [n, ...] to actions [n, ...]


def main(load: Callable[..., Any], train: Callable[..., dict[str, Any]]) -> None:
    """Run a learning contender and print its result as one line of JSON.

    Args:
      load: function of the contender's options that imports large packages.
      train: function of the work, the watch and the contender's options that trains
        until the watch ends the run, and returns ``own`` and ``versions``.
    """
    with session.result_line() as result:
        work, options = session.flags(Learning)
        if work.cache_home:
            os.environ["XDG_CACHE_HOME"] = work.cache_home
        watch = Watch(work)
        load(**options)
        watch.phase("import")
        try:
            figures = train(work, watch, **options)
        finally:
            watch.close()
        result.update(watch.result() | figures)


class Watch:
    """Watch that a contender calls at the end of every phase and every iteration.

    Its clock starts with the launch of the process, and stops during evaluations.

    Args:
      work: work with the threshold, and the ``time.time()`` of the launch.
    """

    def __init__(self, work: Learning):
        self.phases: dict[str, float] = {}
        self._work = work
        self._launched = self._zero = time.perf_counter() - time.time() + work.launched
        self._steps = 0
        self._first: tuple[int, float] | None = None
        self._curve: list[tuple[int, float, float]] = []
        self._envs: EvaluationEnvs | None = None
        self._end: float | None = None
        self._reached = False

    def seconds(self) -> float:
        """Return the seconds since the launch, without pauses."""
        return time.perf_counter() - self._zero

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Stop the clock within the context."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._zero += time.perf_counter() - start

    def phase(self, name: str) -> None:
        """Record the seconds of a phase, since the end of the previous one."""
        self.phases[name] = self.seconds() - sum(self.phases.values())

    def iteration(self, steps: int, act: Act) -> bool:
        """Record the end of an iteration; return whether the run must end.

        Args:
          steps: environment steps so far.
          act: function of greedy actions, see ``EvaluationEnvs.returns``.
        """
        work, before, self._steps = self._work, self._steps, steps
        self._end = self.seconds()
        if self._first is None:
            self.phases["first_iteration"] = self._end - sum(self.phases.values())
            self._first = (steps, self._end)
        if work.seconds is not None:
            return self._end - self._first[1] >= work.seconds
        wall = time.perf_counter() - self._launched
        spent = steps >= work.steps or wall >= work.deadline
        every = work.eval_every
        if every and (spent or steps // every > before // every):
            self._reached = self._evaluate(act) >= work.threshold
        return spent or self._reached

    def result(self) -> dict[str, Any]:
        """Return the result of the run.

        Returns:
          ``reached``; ``seconds`` and ``steps`` to the threshold or to the end;
          ``curve`` of (steps, seconds, mean return); ``phases`` in seconds; ``value``,
          the speed with which the run would take all of its steps; ``same``, properties
          that must be equal for all contenders.
        """
        if self._first is None:
            raise RuntimeError("training ended before the end of its first iteration")
        first_steps, first_end = self._first
        training = self._end - first_end
        seconds_per_step = training / max(1, self._steps - first_steps)
        whole = first_end + seconds_per_step * (self._work.steps - first_steps)
        return {
            "reached": self._reached,
            "seconds": self._end,
            "steps": self._steps,
            "curve": self._curve,
            "phases": self.phases | {"training": training},
            "value": self._work.steps / whole,
            "unit": session.UNIT,
            "same": self._same(),
        }

    def close(self) -> None:
        """Close the evaluation's environments."""
        if self._envs:
            self._envs.close()

    def _evaluate(self, act: Act) -> float:
        with self.pause():
            if self._envs is None:
                self._envs = EvaluationEnvs(self._work.env, self._work.episode_seeds())
            mean = float(np.mean(self._envs.returns(act)))
        self._curve.append((self._steps, round(self._end, 4), mean))
        return mean

    def _same(self) -> dict[str, Any]:
        return described(
            functools.partial(make, self._work.env, {}),
            threshold=self._work.threshold,
            eval_every=self._work.eval_every,
            episodes=self._work.episodes,
        )


class EvaluationEnvs:
    """Environments for greedy episodes, the same for all contenders.

    Args:
      env: Gymnasium id.
      seeds: seeds of the episodes, the same in every evaluation.
    """

    def __init__(self, env: str, seeds: Sequence[int]):
        self._seeds = seeds
        self._envs = [make(env, {}) for _ in seeds]

    def returns(self, act: Act) -> np.ndarray:
        """Play one episode in each environment; return the undiscounted returns.

        Args:
          act: function from observations ``[n, ...]`` to actions ``[n, ...]`` for n
            episodes; actions of finished episodes are ignored.
        """
        pairs = zip(self._envs, self._seeds, strict=True)
        observations = np.stack([env.reset(seed=seed)[0] for env, seed in pairs])
        returns, running = np.zeros(len(self._envs)), dict(enumerate(self._envs))
        while running:
            actions = act(observations)
            for i, env in [*running.items()]:
                action = _valid(actions[i], env.action_space)
                observations[i], reward, terminated, truncated, _ = env.step(action)
                returns[i] += reward
                if terminated or truncated:
                    del running[i]
        return returns

    def close(self) -> None:
        """Close the environments."""
        for env in self._envs:
            env.close()


def _valid(action: np.ndarray, space: gymnasium.Space) -> Any:
    if isinstance(space, gymnasium.spaces.Box):
        return np.clip(action, space.low, space.high)
    return int(action)
