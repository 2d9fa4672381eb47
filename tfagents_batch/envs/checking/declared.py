"""What an environment declares: its spaces, and what ``reset`` takes."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.envs.checking.findings import DEFECT, HINT, Place, Report, short
from tfagents_batch.errors import UserError

_SPACES = ("observation_space", "action_space")
_RESET = "def reset(self, *, seed=None, options=None)"


class Spaces:
    """The spaces of an environment, and whether they stay what they are.

    Attributes:
      observation_space: a copy; None if it is not supported.
      action_space: a copy; None if it is no space at all.
      supported: whether both are.
      texts: of both, by name.
    """

    def __init__(self, env: Any, report: Report):
        self._env = env
        self._report = report
        self._objects = {name: getattr(env, name) for name in _SPACES}
        self._json: dict[str, Any] = {}
        for name, space in self._objects.items():
            try:
                self._json[name] = spaces.to_json(space)
            except UserError as error:
                text = f"{name}: {error}"
                report.add(DEFECT, "unsupported", name, text, Place("constructor"))
        self.texts = {name: short(space) for name, space in self._objects.items()}
        self.supported = len(self._json) == len(_SPACES)
        # Copies, lest they change under us.
        observation_space, action_space = copy.deepcopy([*self._objects.values()])
        known = "observation_space" in self._json
        self.observation_space = observation_space if known else None
        is_space = isinstance(action_space, gymnasium.Space)
        self.action_space = action_space if is_space else None

    def look_again(self, place: Place, thorough: bool) -> None:
        """Find a change; only where ``thorough`` also inside of the same object."""
        for name, before in self._json.items():
            space = getattr(self._env, name)
            if space is self._objects[name] and not thorough:
                continue
            try:
                changed = spaces.to_json(space) != before
            except UserError:
                changed = True
            if changed:
                self._report.add(
                    DEFECT,
                    "changed",
                    name,
                    f"{name} was {self.texts[name]} and became {short(space)}; "
                    "expected the same as long as the environment lives: set it in "
                    "__init__ alone",
                    place,
                )


def check_signatures(env: Any, report: Report) -> bool:
    """Check what ``reset`` takes, of every wrapper and of the environment.

    Returns:
      whether all of them take a seed.
    """
    takes_seed = True
    for layer in _layers(env):
        try:
            signature = inspect.signature(layer.reset)
        except (TypeError, ValueError):  # no Python function
            continue
        name = type(layer).__name__
        for keyword in ("seed", "options"):
            try:
                signature.bind_partial(**{keyword: None})
            except TypeError:
                takes_seed = takes_seed and keyword != "seed"
                text = f"reset() of {name} takes no {keyword}; expected {_RESET}: begin"
                text += " it with super().reset(seed=seed)"
                report.add(DEFECT, f"no {keyword}", "reset()", text, Place())
        try:
            signature.bind()
        except TypeError as error:
            text = (
                f"reset() of {name} cannot be called alone: {error}; expected {_RESET}"
            )
            report.add(DEFECT, "required", "reset()", text, Place())
    return takes_seed


def hint_at_action_scale(space: gymnasium.Space, report: Report) -> None:
    """Name the bounds of continuous actions, where they are not -1 and 1."""
    try:
        found = spaces.leaves(space)
    except UserError:  # a defect already
        return
    for leaf in found:
        box = leaf.space
        if not isinstance(box, gs.Box) or np.dtype(leaf.dtype).kind != "f":
            continue
        if not box.low.size or ((box.low == -1) & (box.high == 1)).all():
            continue
        low, high = box.low.min(), box.high.max()
        fix = "wrap it in gymnasium.wrappers.RescaleAction(env, -1.0, 1.0)"
        if not np.isfinite([low, high]).all():
            fix = "bound it, and scale actions inside the environment"
        name = "action_space" + "".join(f"[{key!r}]" for key in leaf.path)
        report.add(
            HINT,
            "scale",
            name,
            f"{name} goes from {low} to {high}; policies begin around [-1, 1] and "
            f"learn best there: {fix}",
            Place(),
        )


def _layers(env: Any) -> Iterator[Any]:
    """Wrappers from the outside in, then the environment, whatever that holds."""
    while isinstance(env, gymnasium.Wrapper):
        yield env
        env = env.env
    yield env
