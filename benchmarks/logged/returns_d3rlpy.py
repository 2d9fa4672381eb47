"""Mean return of d3rlpy's algorithms after gradient steps on logged rows."""

from __future__ import annotations

import pathlib

from benchmarks.inside import session
from benchmarks.logged import d3rlpy_agent
from benchmarks.logged.play import play
from benchmarks.work.logged import HIDDEN, LEARNERS, Played


def measure(work: Played) -> dict[str, float]:
    """Return the mean return of the trained agent, and its error."""
    import d3rlpy

    d3rlpy.seed(work.seed)
    path = pathlib.Path(work.arrays)
    agent, fit = d3rlpy_agent.create(LEARNERS[work.learner], path, HIDDEN)
    fit(work.steps)
    return play(lambda observation: agent.predict(observation[None])[0], work)


if __name__ == "__main__":
    session.figures(lambda: None, measure, Played)
