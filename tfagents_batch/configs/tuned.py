"""Helpers to write each tuned preset as one entry of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfagents_batch.config import replace
from tfagents_batch.training.config import RunConfig, with_options

Preset = Callable[[], RunConfig]
# For presets that were tuned with actions in the units of the environment.
RAW_ACTIONS = {"scale_actions": False}


def tuned(
    task: tuple[str, int, int, int],
    update: tuple[float, int, int],
    run: dict[str, Any] | None = None,
    **settings: Any,
) -> Preset:
    """Return a preset that trains PPO with a learning rate that decreases to 0.

    Args:
      task: environment, training steps, number of environments, rollout length.
      update: initial learning rate, epochs, minibatch size.
      run: other options that differ, see ``config.with_options``.
      **settings: other settings of PPO that differ from the defaults.
    """
    env, steps, num_envs, rollout_length = task
    start, epochs, minibatch_size = update
    settings = {"learning_rate": f"linear({start}, 0)", "epochs": epochs} | settings
    settings = {"minibatch_size": minibatch_size} | settings
    source = {"length": rollout_length}
    return trained_by("ppo", (env, steps, num_envs, source), run, **settings)


def like(other: Preset, **changes: Any) -> Preset:
    """Return a preset that differs from another one in fields of its RunConfig."""
    return lambda: with_options(other(), changes)


def trained_by(
    algorithm: str,
    task: tuple[str, int, int, dict[str, Any]],
    run: dict[str, Any] | None = None,
    **settings: Any,
) -> Preset:
    """Return a preset of any algorithm.

    Args:
      algorithm: name of the algorithm.
      task: environment, training steps, number of environments, and settings of the
        algorithm's source of experience.
      run: other options, see ``config.with_options``.
      **settings: settings of the algorithm that differ from the defaults.
    """
    env, steps, num_envs, source = task

    def preset() -> RunConfig:
        # Imported here because it imports TensorFlow, which names do not need.
        from tfagents_batch.algorithms import REGISTRY

        _, defaults = REGISTRY[algorithm]
        changed = replace(defaults(), settings)
        config = RunConfig(algorithm=algorithm, settings=changed, env=env)
        options = {"steps": steps, "num_envs": num_envs, config.source.name: source}
        return with_options(config, options | (run or {}))

    return preset
