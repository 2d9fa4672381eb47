"""Default number of worker processes, chosen by the time that environments need.

The learner and a worker exchange messages at each step of the batch. That takes as long
as the steps of a few small environments. Then one worker, which polls, is faster than
one per core. The number does not change results.

Only small environments of Gymnasium are measured, which have no effects outside.
Another copy of one is stepped in this process. A user's environment may start a
simulator or move a robot, so it is never stepped for this.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from tfagents_batch.envs.shared import arguments, cpus
from tfagents_batch.envs.wrappers.adapt import create

BATCH_MICROSECONDS = 100  # if a batch needs less for its steps, one worker is faster
_MEASURED = ("gymnasium.envs.classic_control", "gymnasium.envs.toy_text")
_STEPS = 200
_SECONDS = 0.02  # for all of them


class Choice(NamedTuple):
    """Number of workers."""

    num_workers: int | None  # None means the default of ``ProcessEnv``, one per core
    reason: str  # why; empty if nothing was measured


def choose(
    env: Any,
    make: Callable[[], Any],
    num_envs: int,
    groups: int = 1,
    env_kwargs: dict[str, Any] | None = None,
) -> Choice:
    """Choose the number of workers of ``num_envs`` environments that ``make`` creates.

    Several groups need as many workers, and an environment that draws is not measured.
    """
    several = min(len(cpus.available()), num_envs) > 1 and arguments.has_workers()
    draws = "render_mode" in (env_kwargs or {})
    spec = gymnasium.registry.get(env) if isinstance(env, str) else None
    measured = spec is not None and str(spec.entry_point).startswith(_MEASURED)
    if groups > 1 or draws or not several or not measured:
        return Choice(None, "")
    try:
        batch = num_envs * step_microseconds(make)
    except Exception:  # the worker's error will say more
        return Choice(None, "")
    text = f"a step of all takes {batch:.0f} us"
    if batch < BATCH_MICROSECONDS:
        return Choice(1, f"they are quick, {text}")
    return Choice(None, f"they are slow, {text}")


def step_microseconds(make: Callable[[], Any]) -> float:
    """Return the median time of a step with random actions."""
    env = create(make)
    try:
        env.action_space.seed(0)
        env.reset(seed=0)
        times, end = [], time.perf_counter() + _SECONDS
        while not times or (len(times) < _STEPS and time.perf_counter() < end):
            action = env.action_space.sample()
            begin = time.perf_counter()
            _, _, terminated, truncated, _ = env.step(action)
            times.append(time.perf_counter() - begin)
            if terminated or truncated:
                env.reset()
        return 1e6 * float(np.median(times))
    finally:
        env.close()
