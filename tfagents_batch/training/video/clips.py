"""Videos of the agent during training, for TensorBoard and trackers.

Between two iterations, one episode is played greedily in a separate environment in this
process, with a separate seed. It does not affect training: weights and statistics do
not change, and training uses other environments and random numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.interfaces import Actor
from tfagents_batch.training.video.film import Camera, player

LARGEST = 320  # pixels of a picture's longer side, at most
MOST = 200  # pictures of a clip, at most
LONGEST = 3000  # steps of a clip, at most
NAME = "video/episode"


class Clips:
    """Plays episodes of an agent and records their pictures.

    Args:
      recipe: the training environment.
      actor: policy that selects actions; its mode is played.
      refresh: called before an episode.

    Attributes:
      fps: pictures per second for playback.

    Raises:
      UserError: if the environment cannot be recorded.
      EnvError: if it cannot be created.
    """

    def __init__(
        self,
        recipe: EnvRecipe,
        actor: Actor,
        refresh: Callable[[], None] | None = None,
    ):
        self._camera, self._refresh = Camera(recipe), refresh
        self._play, self.fps = player(self._camera, actor), self._camera.fps

    def __call__(
        self, seed: int, stop: Callable[[], bool] = lambda: False
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Play one episode from its first to its last state, or until it is cut off.

        Args:
          seed: seed of the environment.
          stop: called at every step; the clip ends if it returns True.

        Returns:
          frames: uint8 ``[n, height, width, 3]``, at most ``MOST`` pictures of at most
            ``LARGEST`` pixels; for a longer episode every second, fourth, ... picture.
          facts: ``return``, the undiscounted sum of raw rewards; ``length`` in steps;
            ``ended``, whether the episode ended.

        Raises:
          EnvError: if the environment failed.
          UserError: if it renders nothing.
        """
        frames: list[np.ndarray] = []
        taken, stride = 0, 1
        if self._refresh is not None:
            self._refresh()
        played = self._play(seed)
        while True:
            picture, step = next(played)
            if taken % stride == 0:
                frames.append(smaller(picture, LARGEST))
                if len(frames) > MOST:
                    frames, stride = frames[::2], 2 * stride
            if step.last[0] or taken >= LONGEST or stop():
                break
            taken += 1
        return np.stack(frames), {
            "return": float(step.info["episode_return"][0]),
            "length": int(step.info["episode_length"][0]),
            "ended": bool(step.last[0]),
        }

    def close(self) -> None:
        """Close the environment."""
        self._camera.env.close()


def smaller(picture: np.ndarray, largest: int) -> np.ndarray:
    """Shrink a picture to at most ``largest`` pixels a side, by means over k x k.

    Args:
      picture: uint8 ``[height, width, 3]``.
      largest: pixels of the longer side, at most.
    """
    from PIL import Image  # comes with TensorBoard; slow to import

    k = -(-max(picture.shape[:2]) // largest)
    return picture if k <= 1 else np.asarray(Image.fromarray(picture).reduce(k))
