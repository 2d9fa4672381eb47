"""Atari games of ale-py with the standard preprocessing.

An ``ALE/...`` id is created with ``frameskip=1`` and wrapped, from the inside out:

    1 to 30 no-ops after a reset, drawn from the environment's generator
    each action is repeated for 4 frames; the maximum of the last two is observed
    84 x 84 pixels, gray
    FIRE after a reset, in games that wait for it
    the last 4 frames, as channels: uint8 [84, 84, 4]

(Mnih et al. 2015, Methods; Machado et al. 2018, section 5.) Sticky actions (with
probability 0.25 the previous action is repeated), the minimal action set and the limit
of 108 000 frames come from ALE's ids. Rewards stay raw, so that episode returns are
scores of the game; the algorithm scales them. ``preprocess="ga3c"`` gives the frames of
GA3C instead, without no-ops, maximum and FIRE, see ``GA3CFrames``.
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
from tfagents_batch.settings.suggest import hint

EXTRA = 'pip install "tfagents_batch[atari]"'
_CONTROL = ("preprocess", "max_episode_steps", "disable_env_checker")
_GA3C = "ga3c"  # value of preprocess


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
    """Add the standard preprocessing to an Atari game.

    Args:
      env: environment of ale-py, created with ``frameskip=1``.
      noop_max: maximum number of no-ops after a reset (the minimum is 1); 0 for none.
      frame_skip: number of frames for which an action is repeated.
      screen_size: pixels per side, or width and height.
      grayscale_obs: observe gray; False gives three channels per frame.
      frame_stack: frames per observation; the oldest is the first channel.
      fire_reset: press FIRE after a reset if it is the second action of the game.
      terminal_on_life_loss: end the episode after a lost life and restart the game.

    Returns:
      an environment that observes uint8 ``[height, width, channels]``.

    Raises:
      ValueError: if ``env`` skips frames itself.
    """
    size: Any = tuple(screen_size) if isinstance(screen_size, list) else screen_size
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
    has_fire = env.unwrapped.get_action_meanings()[1:2] == ["FIRE"]
    if fire_reset and discrete and has_fire:
        env = FireReset(env)
    return _stacked(env, frame_stack)


def preprocess_ga3c(
    env: gymnasium.Env, *, frame_skip: int = 4, frame_stack: int = 4
) -> gymnasium.Env:
    """Add the preprocessing of GA3C to an Atari game that observes RGB.

    The game is created with the same frame skip. Observations become uint8
    ``[84, 84, frame_stack]``; the oldest frame is the first channel.
    """
    del frame_skip  # of ALE, which observes the last frame
    return _stacked(GA3CFrames(env), frame_stack)


def _stacked(env: gymnasium.Env, frame_stack: int) -> gymnasium.Env:
    """Observe the last frames as channels."""
    env = FrameStackObservation(env, frame_stack)
    stacked = env.observation_space.shape
    assert stacked is not None  # of a Box
    height, width, colors = stacked[1:]
    shape = (height, width, frame_stack * colors)
    space = gymnasium.spaces.Box(0, 255, shape, np.uint8)

    def channels_last(frames):
        return frames.transpose(1, 2, 0, 3).reshape(shape)

    return TransformObservation(env, channels_last, space)


class FireReset(gymnasium.Wrapper):
    """Press FIRE once after a reset, because some games wait for it."""

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        self.env.reset(seed=seed, options=options)
        observation, _, terminated, truncated, info = self.env.step(1)
        if terminated or truncated:
            return self.env.reset(options=options)
        return observation, info


def make(spec: EnvSpec, kwargs: dict[str, Any]) -> gymnasium.Env:
    """Create a game from the spec of an id that ale-py registered; runs in workers.

    The arguments are those of ``preprocess`` and of ALE. The key ``preprocess`` turns
    the preprocessing on or off, or is "ga3c"; by default it is on for ids that begin
    with ``ALE/`` (older ids skip frames themselves). ``max_episode_steps`` counts
    actions.
    """
    kwargs = {"disable_env_checker": True, **kwargs}
    ale_py = importlib.import_module("ale_py")
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # print no banner
    kind = kwargs.pop("preprocess", spec.id.startswith("ALE/"))
    if not kind:
        return gymnasium.make(spec, **kwargs)
    known = _options(kind)
    options = {name: kwargs.pop(name) for name in known if name in kwargs}
    limit = kwargs.pop("max_episode_steps", None)
    frames = {**spec.kwargs, **kwargs}.get("max_num_frames_per_episode")
    skip = options.get("frame_skip", known["frame_skip"].default)
    skipped = skip if kind == _GA3C else 1
    base = gymnasium.make(spec, **{**kwargs, "frameskip": skipped})
    env = (preprocess_ga3c if kind == _GA3C else preprocess)(base, **options)
    if limit is None and frames:
        # ALE truncates at this step or earlier; the wrapper makes the limit readable.
        limit = math.ceil(frames / skip)
    return env if limit is None else TimeLimit(env, limit)


def is_ale(spec: EnvSpec) -> bool:
    """Return whether ale-py creates this id."""
    return str(spec.entry_point).startswith("ale_py.")


def check(name: str, spec: EnvSpec, kwargs: dict[str, Any]) -> None:
    """Refuse invalid arguments in the learner.

    Raises:
      UserError: with the name of the argument or of the missing package.
    """
    wanted = kwargs.get("preprocess", spec.id.startswith("ALE/"))
    if wanted not in (True, False, _GA3C):
        raise UserError(
            f"env_kwargs['preprocess'] of {name!r} is {wanted!r}; expected true, false "
            f'or "{_GA3C}"'
        )
    if wanted is True and importlib.util.find_spec("cv2") is None:
        raise UserError(
            f"environment {name!r} needs cv2 for its preprocessing: {EXTRA}, or pass "
            "preprocess=false in env_kwargs"
        )
    ale = inspect.signature(importlib.import_module("ale_py.env").AtariEnv).parameters
    options = _options(wanted) if wanted else {}
    known = {*ale, *_CONTROL, *options} - {"game"}
    for key in kwargs:
        if key not in known:
            given = f"env_kwargs has {key!r}, which {name!r} does not take"
            raise UserError(f"{given} with preprocess={wanted!r}; {hint(key, known)}")
    if wanted:
        _check_preprocessed(name, kwargs)


def _check_preprocessed(name: str, kwargs: dict[str, Any]) -> None:
    wrong, ga3c = None, kwargs.get("preprocess") == _GA3C
    if kwargs.get("frameskip", 1) != 1:
        wrong = "frameskip", "pass frame_skip"
    elif kwargs.get("obs_type", "rgb") == "ram":
        wrong = "obs_type", "RAM is not an image"
    elif kwargs.get("sound_obs"):
        wrong = "sound_obs", "sound is not an image"
    elif ga3c and kwargs.get("obs_type", "rgb") != "rgb":
        wrong = "obs_type", "GA3C computes gray values itself"
    elif kwargs.get("continuous") and kwargs.get("noop_max", 0 if ga3c else 1) > 0:
        wrong = "continuous", "no-ops are discrete: pass noop_max=0 too"
    if wrong is not None:
        key, why = wrong
        raise UserError(
            f"env_kwargs[{key!r}] is {kwargs[key]!r}, which the preprocessing of "
            f"{name!r} does not take: {why}; or pass preprocess=false"
        )


def _options(kind: bool | str) -> dict[str, inspect.Parameter]:
    """Return the arguments of a preprocessing."""
    function = preprocess_ga3c if kind == _GA3C else preprocess
    parameters = dict(inspect.signature(function).parameters)
    del parameters["env"]
    return parameters


SIZE = 84
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


class GA3CFrames(gymnasium.ObservationWrapper):
    """Observe screens as uint8 ``[84, 84, 1]``.

    Gray values of each frame are stretched from their own range to 0 to 255, because
    the original resizes with a function of SciPy that does so (Babaeizadeh et al. 2017,
    arXiv:1611.06256, and its code). It resizes by linear interpolation whose width
    grows with the reduction, like Pillow's.
    """

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        screen = env.observation_space.shape
        assert screen is not None  # of a Box
        height, width, _ = screen
        self._rows, self._columns = _linear(height, SIZE), _linear(width, SIZE).T
        self.observation_space = gymnasium.spaces.Box(0, 255, (SIZE, SIZE, 1), np.uint8)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        gray = observation.astype(np.float32) @ _LUMA
        low, high = gray.min(), gray.max()
        stretched = np.rint((gray - low) * (255 / max(high - low, 1e-6)))
        reduced = self._rows @ stretched @ self._columns
        return np.rint(reduced).clip(0, 255).astype(np.uint8)[..., None]


def _linear(size: int, wanted: int) -> np.ndarray:
    """Return the matrix ``[wanted, size]`` that reduces a side."""
    scale = size / wanted
    centers = (np.arange(wanted)[:, None] + 0.5) * scale
    distance = np.abs(np.arange(size) + 0.5 - centers) / scale
    weights = np.maximum(1 - distance, 0)
    return (weights / weights.sum(1, keepdims=True)).astype(np.float32)
