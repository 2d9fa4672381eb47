"""Play episodes and film them."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.envs import registry
from tfagents_batch.envs.adapters.adapt import adapt
from tfagents_batch.envs.tf.batch import TensorBatch
from tfagents_batch.envs.wrappers import named
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Actor, Env
from tfagents_batch.training.evaluate import LONGEST
from tfagents_batch.training.video import Video

FPS = 30  # where an environment does not say
_MODE = "render_mode"


class Episode(NamedTuple):
    """One that was filmed.

    Attributes:
      path: of the video.
      return_: undiscounted sum of raw rewards.
      length: steps.
    """

    path: Path
    return_: float
    length: int


class Camera:
    """Makes one environment in this process, and takes pictures of it.

    Args:
      env: name or callable, as ``make_env`` takes it.
      env_kwargs: of the environment; it is asked for pictures by ``render_mode``
        where it takes that.
      wrappers: of the environment.
    """

    def __init__(
        self, env: Any, env_kwargs: dict[str, Any], wrappers: named.Wrappers = ()
    ):
        kwargs = dict(env_kwargs)
        if _MODE not in kwargs and _takes_mode(env):
            kwargs[_MODE] = "rgb_array"
        self._make = named.wrapped(registry.constructor(env, kwargs), wrappers)
        self._env: gymnasium.Env | None = None

    def __call__(self) -> gymnasium.Env:
        """The constructor, for ``make_env``."""
        self._env = adapt(self._make())
        return self._env

    def picture(self) -> np.ndarray:
        """uint8 ``[height, width, 3]`` of how things are now."""
        found = self._env.render()
        if found is None:
            raise UserError(
                "the environment shows nothing; make it with "
                'render_mode="rgb_array", for example by env_kwargs'
            )
        return found

    @property
    def fps(self) -> float:
        return (self._env.metadata or {}).get("render_fps") or FPS


def film(
    env: Env,
    actor: Actor,
    camera: Camera | None,
    outdir: str | os.PathLike,
    episodes: int,
    seed: int,
) -> list[Episode]:
    """Play exactly ``episodes`` episodes, greedily, each into a video of its own.

    Args:
      env: a batch of one.
      actor: plays its mode.
      camera: that made the environment; None for one written in TensorFlow.
      outdir: folder of the videos, ``episode-000-return-<return>.mp4`` and so on; made
        if missing.
      episodes: to play.
      seed: of the environment.

    Raises:
      UserError: if there is nothing to see, or an episode does not end.
    """
    folder = Path(outdir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot make the folder {folder}: {error.strerror}; pass an --outdir that "
            "is a writable folder"
        ) from error
    if camera is None:
        check_drawn(env)
    fps = frames_a_second(env, camera)
    act = greedy(actor, seed)
    state, step = env.init(seed)
    acting = actor.initial_state(1)
    found: list[Episode] = []
    limit = env.spec.max_episode_steps or LONGEST
    while len(found) < episodes:
        video = Video(folder / f"episode-{len(found):03d}.mp4", fps)
        with contextlib.ExitStack() as stack:
            stack.callback(video.abandon)
            while True:
                video.add(picture(env, state, camera))
                if step.last[0]:
                    break
                if int(step.info["episode_length"][0]) > limit:
                    raise UserError(
                        f"an episode did not end within {limit} steps; give the "
                        "environment a time limit (gymnasium.wrappers.TimeLimit)"
                    )
                action, acting = act(step, acting)
                state, step = env.step(state, action)
            return_ = float(step.info["episode_return"][0])
            length = int(step.info["episode_length"][0])
            name = f"episode-{len(found):03d}-return-{return_:g}.mp4"
            found.append(Episode(video.finish(folder / name), return_, length))
        action, acting = act(step, acting)  # ignored: this step opens an episode
        state, step = env.step(state, action)
    return found


def greedy(actor: Actor, seed: int) -> Callable:
    """``(timestep, state) -> (action, state)`` of an actor that plays its mode."""

    @tf.function(autograph=False)
    def act(timestep, state):
        noise = nest.map(lambda x: x[0], actor.noise((1, 1), seed))
        action, _, state = actor.act(timestep, state, noise, False)
        return action, state

    return act


def picture(env: Env, state: Any, camera: Camera | None) -> np.ndarray:
    """uint8 ``[height, width, 3]`` of the only row of a batch; arguments as of film."""
    if camera is not None:
        return camera.picture()
    row = nest.map(lambda x: x[0].numpy(), state.inner)
    return env.env.render(row)


def frames_a_second(env: Env, camera: Camera | None) -> float:
    """How fast an environment is to be shown; arguments as of film."""
    return getattr(env.env, "render_fps", FPS) if camera is None else camera.fps


def check_drawn(env: TensorBatch) -> None:
    """Refuse an environment written in TensorFlow that cannot be seen.

    Raises:
      UserError: naming what it needs.
    """
    if not hasattr(env.env, "render"):
        raise UserError(
            f"{type(env.env).__name__} has no render(state), which would return a "
            "picture"
        )


def _takes_mode(env: Any) -> bool:
    """Ids do; of the user's own code only what has such an argument."""
    if isinstance(env, str):
        env = registry.attribute(env)
        if env is None:
            return True
    try:
        return _MODE in inspect.signature(env).parameters
    except (TypeError, ValueError):
        return False
