"""Mean return of d3rlpy's algorithms after gradient steps on logged rows."""

from __future__ import annotations

import pathlib

from benchmarks.inside import session
from benchmarks.logged import d3rlpy_agent
from benchmarks.work.logged import HIDDEN, LEARNERS, Played


def measure(work: Played) -> dict[str, float]:
    """Return the mean return of the trained agent."""
    import d3rlpy
    import gymnasium
    import numpy as np

    d3rlpy.seed(work.seed)
    path = pathlib.Path(work.arrays)
    agent, fit = d3rlpy_agent.create(LEARNERS[work.learner], path, HIDDEN)
    fit(work.steps)
    returns = []
    with gymnasium.make(work.env, max_episode_steps=work.episode_steps) as env:
        for episode in range(work.episodes):
            observation, _ = env.reset(seed=1000 + episode)
            total, over = 0.0, False
            while not over:
                batch = np.asarray(observation, np.float32)[np.newaxis]
                action = agent.predict(batch)[0]
                observation, reward, terminated, truncated, _ = env.step(action)
                total += float(reward)
                over = terminated or truncated
            returns.append(total)
    return {"mean_return": float(np.mean(returns))}


if __name__ == "__main__":
    session.figures(lambda: None, measure, Played)
