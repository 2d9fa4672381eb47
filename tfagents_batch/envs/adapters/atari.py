"""Atari games of ale-py with the standard preprocessing.

An ``ALE/...`` id is made with ``frameskip=1`` and wrapped, from the inside out:

    1 to 30 no-ops after a reset, drawn from the environment's generator
    an action is repeated for 4 frames; the last two are joined by their maximum
    84 x 84 pixels, gray
    FIRE after a reset, in games that wait for it
    the last 4 frames, as channels: uint8 [84, 84, 4]

(Mnih et al. 2015, Methods; Machado et al. 2018, section 5.) Sticky actions (with
probability 0.25 the previous action is repeated), the smallest set of actions and the
limit of 108 000 frames are those of ALE's ids. Rewards stay raw, so that the returns of
episodes are the scores of the game: they are scaled where they are learned from.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import (
    AtariPreprocessing,
    FrameStackObservation,
    TimeLimit,
    TransformObservation,
)

from tfagents_batch.errors import UserError
from tfagents_batch.suggest import closest

EXTRA = 'pip install "tfagents_batch[atari]"'
_CONTROL = ("preprocess", "max_episode_steps", "disable_env_checker")


def preprocess(
    env: gymnasium.Env,
    *,
    noop_max: int = 30,
    frame_skip: int = 4,
    screen_size: int | tuple[int, int] = 84,
    grayscale_obs: bool = True,
    frame_stack: int = 4,
    fire_reset: bool = True,
    terminal_on_life_loss: bool = False,
) -> gymnasium.Env:
    """The standard preprocessing.

    Args:
      env: of ale-py, made with ``frameskip=1``.
      noop_max: most no-ops after a reset, at least one; 0 for none.
      frame_skip: frames an action is repeated for.
      screen_size: pixels a side, or width and height.
      grayscale_obs: else three channels a frame.
      frame_stack: frames of an observation; the oldest is the first channel.
      fire_reset: press FIRE after a reset where the game has it as its second action.
      terminal_on_life_loss: a lost life ends the episode, and the game starts anew.

    Returns:
      an environment that observes uint8 ``[height, width, channels]``.

    Raises:
      ValueError: if ``env`` skips frames itself.
    """
    size = tuple(screen_size) if isinstance(screen_size, list) else screen_size
    env = AtariPreprocessing(
        env,
        noop_max=noop_max,
        frame_skip=frame_skip,
        screen_size=size,
        terminal_on_life_loss=terminal_on_life_loss,
        grayscale_obs=grayscale_obs,
        grayscale_newaxis=True,
    )
    discrete = isinstance(env.action_space, gymnasium.spaces.Discrete)
    waits = env.unwrapped.get_action_meanings()[1:2] == ["FIRE"]
    if fire_reset and discrete and waits:
        env = FireReset(env)
    env = FrameStackObservation(env, frame_stack)
    height, width, colors = env.observation_space.shape[1:]
    shape = (height, width, frame_stack * colors)
    space = gymnasium.spaces.Box(0, 255, shape, np.uint8)

    def channels_last(frames):
        return frames.transpose(1, 2, 0, 3).reshape(shape)

    return TransformObservation(env, channels_last, space)


class FireReset(gymnasium.Wrapper):
    """Presses FIRE once after a reset: some games wait for it, others do not mind."""

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        self.env.reset(seed=seed, options=options)
        observation, _, terminated, truncated, info = self.env.step(1)
        if terminated or truncated:
            return self.env.reset(options=options)
        return observation, info


def make(spec: EnvSpec, kwargs: dict[str, Any]) -> gymnasium.Env:
    """A game by its registration; runs in workers.

    Args:
      spec: of an id that ale-py registered.
      kwargs: of ``preprocess`` and of ALE; ``preprocess`` itself says whether to, by
        default of ids that begin with ``ALE/`` (older ones say how they skip);
        ``max_episode_steps`` counts actions, not frames.
    """
    kwargs = {"disable_env_checker": True, **kwargs}
    ale_py = importlib.import_module("ale_py")
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # without its banner
    if not kwargs.pop("preprocess", spec.id.startswith("ALE/")):
        return gymnasium.make(spec, **kwargs)
    options = {name: kwargs.pop(name) for name in _options() if name in kwargs}
    limit = kwargs.pop("max_episode_steps", None)
    frames = {**spec.kwargs, **kwargs}.get("max_num_frames_per_episode")
    base = gymnasium.make(spec, **{**kwargs, "frameskip": 1})
    env = preprocess(base, **options)
    if limit is None and frames:
        # ALE truncates not later; this one is for those who ask for the limit.
        skip = options.get("frame_skip", _options()["frame_skip"].default)
        limit = math.ceil(frames / skip)
    return env if limit is None else TimeLimit(env, limit)


def is_ale(spec: EnvSpec) -> bool:
    """Whether ale-py makes it."""
    return str(spec.entry_point).startswith("ale_py.")


def check(name: str, spec: EnvSpec, kwargs: dict[str, Any]) -> None:
    """Refuse, in the learner, arguments that cannot be.

    Raises:
      UserError: naming the argument, or what is not installed.
    """
    wanted = kwargs.get("preprocess", spec.id.startswith("ALE/"))
    if wanted and importlib.util.find_spec("cv2") is None:
        raise UserError(
            f"environment {name!r} needs cv2 for its preprocessing: {EXTRA}, or pass "
            "preprocess=false in env_kwargs"
        )
    ale = inspect.signature(importlib.import_module("ale_py.env").AtariEnv).parameters
    options = _options()
    known = {*ale, *_CONTROL, *(options if wanted else ())} - {"game"}
    for key in kwargs:
        if key not in known:
            close = closest(key, known)
            hint = f"did you mean {close!r}?" if close else f"known: {sorted(known)}"
            if key in options:
                hint = "it belongs to the preprocessing, which is off"
            elif "reward" in key:
                hint = (
                    "rewards stay raw, so that episode returns are scores; the "
                    "algorithm scales them"
                )
            raise UserError(
                f"env_kwargs has {key!r}, which {name!r} does not take; {hint}"
            )
    if wanted:
        _check_preprocessed(name, kwargs)


def _check_preprocessed(name: str, kwargs: dict[str, Any]) -> None:
    wrong = None
    if kwargs.get("frameskip", 1) != 1:
        wrong = "frameskip", "pass frame_skip, which joins frames as it skips them"
    elif kwargs.get("obs_type", "rgb") == "ram":
        wrong = "obs_type", "memory is no picture"
    elif kwargs.get("sound_obs"):
        wrong = "sound_obs", "sound is no picture"
    elif kwargs.get("continuous") and kwargs.get("noop_max", 1) > 0:
        wrong = "continuous", "no-ops are discrete: pass noop_max=0 too"
    if wrong is not None:
        key, why = wrong
        raise UserError(
            f"env_kwargs[{key!r}] is {kwargs[key]!r}, which the preprocessing of "
            f"{name!r} does not take: {why}; or pass preprocess=false"
        )


def _options() -> dict[str, inspect.Parameter]:
    parameters = dict(inspect.signature(preprocess).parameters)
    del parameters["env"]
    return parameters
