"""Episodes of an agent, whose first states are the same for every library."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from benchmarks.work.logged import Logged

_SEED = 1000  # of the first episode; each next one has the next


def play(act: Callable[[np.ndarray], Any], work: Logged) -> dict[str, float]:
    """Return the mean return of a function of observations, and its standard error."""
    returns = []
    with gymnasium.make(work.env, max_episode_steps=work.episode_steps) as env:
        for seed in range(_SEED, _SEED + work.episodes):
            observation, _ = env.reset(seed=seed)
            total, over = 0.0, False
            while not over:
                observation, reward, terminated, truncated, _ = env.step(
                    act(np.asarray(observation, np.float32))
                )
                total += float(reward)
                over = terminated or truncated
            returns.append(total)
    error = np.std(returns, ddof=1) / math.sqrt(len(returns))
    return {"mean_return": float(np.mean(returns)), "standard_error": float(error)}
