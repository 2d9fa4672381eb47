"""Films of the agent while it is trained, for TensorBoard and trackers.

One episode, played greedily in an environment of its own, in this process, with a seed
of its own, between two iterations. Training sees nothing of it: weights and statistics
stand still, and its environments and random numbers are others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tfagents_batch import seeds
from tfagents_batch.envs.make import is_made, make_env, tensor_env
from tfagents_batch.envs.wrappers import named
from tfagents_batch.errors import Stopped, UserError
from tfagents_batch.interfaces import Actor
from tfagents_batch.schedules import Every
from tfagents_batch.training import visualize
from tfagents_batch.training.logger import Logger

LARGEST = 320  # pixels, of a picture's longer side
MOST = 200  # pictures of a clip
LONGEST = 3000  # steps of a clip
NAME = "video/episode"


class Clip(NamedTuple):
    """One episode, from its first state to its last or to where it was cut off.

    Attributes:
      frames: uint8 ``[n, height, width, 3]``, at most ``MOST`` of at most ``LARGEST``
        pixels; of a longer episode every second, fourth, ... picture.
      fps: pictures a second as they are to be shown.
      return_: undiscounted sum of raw rewards, as far as it was played.
      length: steps.
      ended: whether the episode came to its end.
    """

    frames: np.ndarray
    fps: float
    return_: float
    length: int
    ended: bool


class Clips:
    """Plays episodes of an agent and takes their pictures.

    Args:
      env: as of the training: name, callable, or an environment written in TensorFlow.
      env_kwargs: of the environment.
      actor: plays its mode.
      wrappers: of the environment.

    Raises:
      UserError: if such an environment cannot be filmed.
      EnvError: if it cannot be made.
    """

    def __init__(
        self,
        env: Any,
        env_kwargs: dict[str, Any],
        actor: Actor,
        wrappers: named.Wrappers = (),
    ):
        if is_made(env):
            raise UserError(
                f"env is one {type(env).__name__}, made already, of which no other one "
                "can be made to be filmed; pass a name or a function that makes an "
                "environment, or leave out --log_video_every"
            )
        if isinstance(env, (list, tuple)):
            env = env[0]
        self._camera = None
        if tensor_env(env, env_kwargs) is None:
            self._camera = visualize.Camera(env, env_kwargs, wrappers)
            self._env = make_env(self._camera, 1, 0)
        else:
            self._env = make_env(env, 1, env_kwargs=env_kwargs, wrappers=wrappers)
            visualize.check_drawn(self._env)
        self._actor = actor
        self._act = visualize.greedy(actor, 0)

    def __call__(self, seed: int, stop: Callable[[], bool] = lambda: False) -> Clip:
        """Play one episode.

        Args:
          seed: of the environment.
          stop: asked at every step; the clip is cut off there.

        Raises:
          EnvError: if the environment failed.
          UserError: if it shows nothing.
        """
        env, stride, taken = self._env, 1, 0
        frames: list[np.ndarray] = []
        state, step = env.init(seed)
        acting = self._actor.initial_state(1)
        while True:
            if taken % stride == 0:
                picture = visualize.picture(env, state, self._camera)
                frames.append(smaller(picture, LARGEST))
                if len(frames) > MOST:
                    frames, stride = frames[::2], 2 * stride
            taken += 1
            if step.last[0] or taken > LONGEST or stop():
                break
            action, acting = self._act(step, acting)
            state, step = env.step(state, action)
        return Clip(
            np.stack(frames),
            visualize.frames_a_second(env, self._camera),
            float(step.info["episode_return"][0]),
            int(step.info["episode_length"][0]),
            bool(step.last[0]),
        )

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


class Filming:
    """Puts a clip into the log from time to time; no failure ever stops training.

    Args:
      clips: to play.
      logger: to write to.
      every: steps between clips; the first one is of the first call.
      run_seed: of the run.
      warn: takes a line of text, once, when filming has to be given up.
      stop: asked at every step of an episode; a clip is cut off there.
    """

    def __init__(
        self,
        clips: Clips,
        logger: Logger,
        every: int,
        run_seed: int,
        warn: Callable[[str], None],
        stop: Callable[[], bool] = lambda: False,
    ):
        self._clips: Clips | None = clips
        self._logger, self._run_seed, self._warn = logger, run_seed, warn
        self._due, self._stop = Every(every, first=True), stop

    def __call__(self, step: int) -> None:
        """Film, if it is time."""
        if self._clips is None or not self._due(step):
            return
        seed = seeds.iteration_seed(self._run_seed, step, "video")
        try:
            clip = self._clips(seed, self._stop)
        except Stopped:
            return
        except Exception as error:  # also what the environment's own code raised
            self.close()
            self._warn(f"warning: filming ends, training goes on: {error}")
            return
        self._logger.video(NAME, clip.frames, step, fps=clip.fps)
        told = {"return": clip.return_, "length": clip.length, "ended": clip.ended}
        self._logger.event("video", step, **told)

    def close(self) -> None:
        """Close the environment; idempotent."""
        if self._clips is not None:
            self._clips.close()
            self._clips = None


def smaller(picture: np.ndarray, largest: int) -> np.ndarray:
    """A picture of at most so many pixels a side: each the mean of k x k.

    Args:
      picture: uint8 ``[height, width, 3]``.
      largest: pixels.

    Returns:
      uint8; edges that fill no k x k are cut off.
    """
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
        raise UserError(
            f"render returned {picture.dtype} {list(picture.shape)}; expected a "
            "picture, uint8 [height, width, 3]"
        )
    k = -(-max(picture.shape[:2]) // largest)
    height, width = (size // k for size in picture.shape[:2])
    if k <= 1 or not height or not width:
        return picture
    total = np.zeros([height, width, 3], np.uint32)
    for i in range(k):  # of slices, which is ten times faster than the mean of blocks
        for j in range(k):
            total += picture[i : height * k : k, j : width * k : k]
    return (total // k**2).astype(np.uint8)
