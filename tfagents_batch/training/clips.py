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
from tfagents_batch.envs.wrappers import named
from tfagents_batch.errors import Stopped
from tfagents_batch.interfaces import Actor
from tfagents_batch.schedules import Every
from tfagents_batch.training.logger import Logger
from tfagents_batch.training.visualize import Camera, player

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
        self._camera = Camera(env, env_kwargs, wrappers)
        self._play = player(self._camera, actor)

    def __call__(self, seed: int, stop: Callable[[], bool] = lambda: False) -> Clip:
        """Play one episode.

        Args:
          seed: of the environment.
          stop: asked at every step; the clip is cut off there.

        Raises:
          EnvError: if the environment failed.
          UserError: if it shows nothing.
        """
        frames: list[np.ndarray] = []
        stride = 1
        for taken, (picture, step) in enumerate(self._play(seed)):
            if taken % stride == 0:
                frames.append(smaller(picture, LARGEST))
                if len(frames) > MOST:
                    frames, stride = frames[::2], 2 * stride
            if step.last[0] or taken >= LONGEST or stop():
                break
        return Clip(
            np.stack(frames),
            self._camera.fps,
            float(step.info["episode_return"][0]),
            int(step.info["episode_length"][0]),
            bool(step.last[0]),
        )

    def close(self) -> None:
        """Close the environment."""
        self._camera.env.close()


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
    k = -(-max(picture.shape[:2]) // largest)
    height, width = (size // k for size in picture.shape[:2])
    if k <= 1 or not height or not width:
        return picture
    total = np.zeros([height, width, 3], np.uint32)
    for i in range(k):  # of slices, which is ten times faster than the mean of blocks
        for j in range(k):
            total += picture[i : height * k : k, j : width * k : k]
    return (total // k**2).astype(np.uint8)
