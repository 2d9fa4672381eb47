"""Films of the agent while it is trained, for TensorBoard and trackers.

One episode, played greedily in an environment of its own, in this process, with a seed
of its own, between two iterations. Training sees nothing of it: weights and statistics
stand still, and its environments and random numbers are others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tfagents_batch import seeds
from tfagents_batch.envs.wrappers import named
from tfagents_batch.errors import Stopped
from tfagents_batch.interfaces import Actor
from tfagents_batch.schedules import Every
from tfagents_batch.training.log.logger import Logger
from tfagents_batch.training.video.film import Camera, player

LARGEST = 320  # pixels, of a picture's longer side
MOST = 200  # pictures of a clip
LONGEST = 3000  # steps of a clip
NAME = "video/episode"


class Clips:
    """Plays episodes of an agent and takes their pictures.

    Args:
      env: as of the training: name, callable, or an environment written in TensorFlow.
      env_kwargs: of the environment.
      actor: plays its mode.
      wrappers: of the environment.

    Attributes:
      fps: pictures a second as they are to be shown.

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
        self._play, self.fps = player(self._camera, actor), self._camera.fps

    def __call__(
        self, seed: int, stop: Callable[[], bool] = lambda: False
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Play one episode, from its first state to its last or to where it is cut off.

        Args:
          seed: of the environment.
          stop: asked at every step; the clip is cut off there.

        Returns:
          frames: uint8 ``[n, height, width, 3]``, at most ``MOST`` of at most
            ``LARGEST`` pixels; of a longer episode every second, fourth, ... picture.
          facts: ``return``, the undiscounted sum of raw rewards; ``length`` in steps;
            ``ended``, whether the episode came to its end.

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
        return np.stack(frames), {
            "return": float(step.info["episode_return"][0]),
            "length": int(step.info["episode_length"][0]),
            "ended": bool(step.last[0]),
        }

    def close(self) -> None:
        """Close the environment."""
        self._camera.env.close()


def filming(
    clips: Clips | None,
    logger: Logger,
    every: int,
    run_seed: int,
    warn: Callable[[str], None],
    stop: Callable[[], bool] = lambda: False,
) -> Callable[[int], None]:
    """Return a function of the step that logs a clip from time to time.

    No failure ever stops training: filming ends with one warning.

    Args:
      clips: to play; None for no films.
      logger: to write to.
      every: steps between clips; the first one is of the first call.
      run_seed: of the run.
      warn: takes a line of text.
      stop: asked at every step of an episode; a clip is cut off there.
    """
    due = Every(every, first=True)

    def film(step: int) -> None:
        nonlocal clips
        if clips is None or not due(step):
            return
        try:
            seed = seeds.iteration_seed(run_seed, step, "video")
            frames, facts = clips(seed, stop)
        except Stopped:
            return
        except Exception as error:  # also what the environment's own code raised
            clips = None
            warn(f"warning: filming ends, training goes on: {error}")
            return
        logger.video(NAME, frames, step, clips.fps)
        logger.event("video", step, **facts)

    return film


def smaller(picture: np.ndarray, largest: int) -> np.ndarray:
    """Return a picture of at most so many pixels a side, each the mean of k x k.

    Args:
      picture: uint8 ``[height, width, 3]``.
      largest: pixels.
    """
    from PIL import Image  # comes with TensorBoard, and takes its time

    k = -(-max(picture.shape[:2]) // largest)
    return picture if k <= 1 else np.asarray(Image.fromarray(picture).reduce(k))
