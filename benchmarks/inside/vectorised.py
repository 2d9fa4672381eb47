"""Create Stable-Baselines3's ``VecEnv``, in the same way for every contender."""

from __future__ import annotations

import functools
import multiprocessing
from collections.abc import Callable
from typing import Any

import gymnasium


def make(
    constructor: Callable[[], gymnasium.Env],
    count: int,
    vectorisation: str,
    monitor: bool = False,
) -> Any:
    """Create a batch of environments.

    Args:
      constructor: constructor of one environment.
      count: number of environments.
      vectorisation: "dummy" for this process, or the start method of one process per
        environment: "forkserver" or "spawn".
      monitor: wrap each in a ``Monitor``, which reports returns (see ``make_vec_env``).
    """
    from stable_baselines3.common import vec_env

    if monitor:
        constructor = functools.partial(_monitored, constructor)
    if vectorisation == "dummy":
        return vec_env.DummyVecEnv([constructor] * count)
    if vectorisation == "forkserver":
        # Otherwise every process would import PyTorch itself.
        preload = ["stable_baselines3.common.vec_env.subproc_vec_env"]
        multiprocessing.get_context("forkserver").set_forkserver_preload(preload)
    return vec_env.SubprocVecEnv([constructor] * count, start_method=vectorisation)


def _monitored(constructor: Callable[[], gymnasium.Env]) -> Any:
    from stable_baselines3.common.monitor import Monitor

    return Monitor(constructor())
