"""Check what an environment declares: its spaces and the arguments of ``reset``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.envs.checking.findings import DEFECT, HINT, Place, Report, short
from tfagents_batch.errors import UserError

_RESET = "def reset(self, *, seed=None, options=None)"


def check_spaces(
    env: Any, report: Report
) -> tuple[gymnasium.Space | None, gymnasium.Space | None]:
    """Check both spaces.

    Returns:
      the observation space, None if it is not supported, and the action space, None if
      it is not a ``gymnasium.Space``.
    """
    for name in ("observation_space", "action_space"):
        space = getattr(env, name)
        report.facts[name] = short(space)
        try:
            if not spaces.is_empty(space):
                continue
            text = (
                f"{name} is {space}, without numbers; expected at least one: give it "
                "another shape"
            )
        except UserError as error:
            text = f"{name}: {error}"
        report.add(DEFECT, "unsupported", name, text, Place("constructor"))
    unsupported = [finding.field for finding in report.defects]
    observations = None if "observation_space" in unsupported else env.observation_space
    is_space = isinstance(env.action_space, gymnasium.Space)
    return observations, env.action_space if is_space else None


def check_signatures(env: Any, report: Report) -> bool:
    """Check the arguments of ``reset``, for every wrapper and the environment.

    Returns:
      whether all of them take a seed.
    """
    takes_seed = True
    for layer in _layers(env):
        try:
            signature = inspect.signature(layer.reset)
        except (TypeError, ValueError):  # not a Python function
            continue
        name = type(layer).__name__
        for keyword in ("seed", "options"):
            try:
                signature.bind_partial(**{keyword: None})
            except TypeError:
                takes_seed = takes_seed and keyword != "seed"
                text = f"reset() of {name} takes no {keyword}; expected {_RESET}: start"
                text += " with super().reset(seed=seed)"
                report.add(DEFECT, f"no {keyword}", "reset()", text, Place())
    return takes_seed


def hint_at_action_scale(space: gymnasium.Space, report: Report) -> None:
    """Add a hint about continuous actions with bounds other than [-1, 1]."""
    for leaf in spaces.leaves(space):
        box = leaf.space
        if not isinstance(box, gs.Box) or np.dtype(leaf.dtype).kind != "f":
            continue
        if ((box.low == -1) & (box.high == 1)).all():
            continue
        low, high = box.low.min(), box.high.max()
        fix = "wrap it in gymnasium.wrappers.RescaleAction(env, -1.0, 1.0)"
        if not np.isfinite([low, high]).all():
            fix = "give it bounds, and scale actions inside the environment"
        name = "action_space" + "".join(f"[{key!r}]" for key in leaf.path)
        report.add(
            HINT,
            "scale",
            name,
            f"{name} ranges from {low} to {high}; policies start around [-1, 1] and "
            f"learn best there: {fix}",
            Place(),
        )


def _layers(env: Any) -> Iterator[Any]:
    """Yield the wrappers from the outside in, then the environment."""
    while isinstance(env, gymnasium.Wrapper):
        yield env
        env = env.env
    yield env
