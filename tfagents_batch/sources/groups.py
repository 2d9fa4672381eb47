"""Environments whose workers are stepped one by one, each a group of its own."""

from __future__ import annotations

from typing import Any

from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Env


def make(
    recipe: Any, num_envs: int, wait_for: int, name: str, options: dict[str, Any]
) -> Env:
    """Create environments whose workers need not wait for each other.

    Args:
      recipe: ``envs.recipe.EnvRecipe`` of the user's environment.
      num_envs: number of environments.
      wait_for: number that a step waits for.
      name: name of the setting that gives ``wait_for``, for an error.
      options: options of ``recipe.make``.

    Raises:
      UserError: for environments without workers, or numbers that do not fit.
    """
    if recipe.in_graph:
        raise UserError(
            f"{recipe.describe()} is written in TensorFlow, where all environments "
            "step at once; steps that do not wait for all of them need worker "
            "processes, use another environment"
        )
    workers = options["num_workers"]
    workers = num_envs if workers is None else workers
    _check(num_envs, workers, wait_for, name)
    options = options | {"num_workers": workers, "groups": workers}
    return recipe.make(num_envs, **options)


def _check(num_envs: int, workers: int, wait_for: int, name: str) -> None:
    """Refuse workers of different sizes, and waiting for a part of a worker."""
    if not workers or num_envs % workers:
        raise UserError(
            f"{num_envs} environments cannot share {workers} worker processes equally, "
            "which steps that do not wait for all environments need; leave num_workers "
            "out, or set it to a divisor"
        )
    size = num_envs // workers
    if not 1 <= wait_for <= num_envs or wait_for % size:
        raise UserError(
            f"{name} is {wait_for}; expected a multiple of the {size} environments "
            f"of a worker, up to {num_envs}, which are stepped together"
        )
