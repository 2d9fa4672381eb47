"""Helpers that write each tuned preset as one entry of a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tfagents_batch.algorithms import ppo
from tfagents_batch.config import replace
from tfagents_batch.training.run_config import Config

Preset = Callable[[], Config]


def tuned(
    task: tuple[str, int, int, int],
    update: tuple[float, int, int],
    run: dict[str, Any] | None = None,
    **settings: Any,
) -> Preset:
    """Return a preset that trains PPO with a step size that falls to 0.

    Args:
      task: environment, steps of training, environments and steps of a rollout.
      update: step size at the start, epochs and transitions of a minibatch.
      run: fields of the Config that differ beside those.
      **settings: of PPO that differ beside those.
    """
    env, steps, num_envs, rollout_length = task
    start, epochs, minibatch_size = update

    def preset() -> Config:
        changes = {"learning_rate": f"linear({start}, 0)", "epochs": epochs}
        changes |= {"minibatch_size": minibatch_size, **settings}
        made = {"env": env, "steps": steps, "num_envs": num_envs}
        made |= {"rollout_length": rollout_length, **(run or {})}
        return replace(Config(settings=replace(ppo.Config(), changes)), made)

    return preset


def like(other: Preset, **changes: Any) -> Preset:
    """Return a preset that differs from another one in fields of its Config."""
    return lambda: dataclasses.replace(other(), **changes)
