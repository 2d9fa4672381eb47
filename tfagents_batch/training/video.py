"""Videos of an agent: films of a trained one, and clips during training.

A clip is one episode that is played greedily between two iterations, in a separate
environment in this process, with a separate seed. It does not affect training: weights
and statistics do not change, and training uses other environments and random numbers.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np
import tensorflow as tf
from gymnasium.error import DependencyNotInstalled

from tfagents_batch import importing, nest
from tfagents_batch.devices import placement
from tfagents_batch.envs import make
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.errors import SaveError, UserError, no_folder
from tfagents_batch.interfaces import Actor
from tfagents_batch.tracing import anew
from tfagents_batch.training.evaluate import LONGEST
from tfagents_batch.training.log import console
from tfagents_batch.training.log.tensorboard import gif
from tfagents_batch.types import TimeStep

Format = Literal["mp4", "gif"]
"""Format of a video; MP4 needs the extra ``video``."""
FPS = 30  # default for environments without metadata
CLIP = "video/episode"  # name in the log
CLIP_SIZE = 320  # pixels of the longer side of a clip's picture, at most
CLIP_PICTURES = 200  # at most
CLIP_STEPS = 3000  # at most
_MODE = "render_mode"
_BLOCK = 2  # pixels: H.264 needs even sizes


class Episode(NamedTuple):
    """A recorded episode.

    Attributes:
      path: path of the video.
      return_: undiscounted sum of raw rewards.
      length: length in steps.
    """

    path: Path
    return_: float
    length: int


class Camera:
    """An environment in this process that renders pictures: ``env``, a batch of one.

    ``render_mode="rgb_array"`` is added to its arguments if it has this one. Options
    are those of ``make_env``. Videos have ``fps`` pictures per second.

    Raises:
      UserError: if the environment cannot render pictures.
      EnvError: if it cannot be created.
    """

    def __init__(self, recipe: EnvRecipe, **options: Any):
        if recipe.exists:
            raise UserError(
                f"cannot record videos: env is one {type(recipe.env).__name__} "
                "instance, and a second instance cannot be created; pass a name or a "
                "function that creates an environment, or leave out --log_video_every"
            )
        recipe = recipe.first()
        self._inner: gymnasium.Env | None = None
        if recipe.in_graph:
            self.env = recipe.make(1, **options)
            inner = self.env.env
            if not hasattr(inner, "render"):
                raise UserError(
                    f"{type(inner).__name__} has no render(state); add this method, "
                    "which returns a picture"
                )
            self.fps = getattr(inner, "render_fps", FPS)
            return
        wanted = {_MODE: "rgb_array"} if recipe.has_argument(_MODE) else {}
        constructor = recipe.constructor(**wanted | dict(recipe.env_kwargs))

        def construct() -> gymnasium.Env:
            self._inner = constructor()
            return self._inner

        self.env = make.make_env(construct, 1, 0, **options)
        self.fps = (self._inner.metadata or {}).get("render_fps") or FPS

    def picture(self, state: Any) -> np.ndarray:
        """Render a state of the environment: uint8 ``[height, width, 3]``."""
        if self._inner is not None:
            try:
                picture = self._inner.render()
            except DependencyNotInstalled as error:
                raise UserError(
                    f"pictures of this environment need another package: {error}; for "
                    "Gymnasium's classic control, toy text and Box2D, pip install "
                    '"tfagents_batch[video]"'
                ) from None
            except NotImplementedError:
                name = type(self._inner.unwrapped).__name__
                raise UserError(
                    f"environment {name} has no render(); implement render() for "
                    f'{_MODE}="rgb_array", which returns a picture, uint8 '
                    "[height, width, 3]"
                ) from None
        else:
            row = nest.map(lambda x: x[0].numpy(), state.inner)
            picture = self.env.env.render(row)
        if picture is None:
            raise UserError(
                "the environment renders nothing; create it with "
                'render_mode="rgb_array", for example by env_kwargs'
            )
        picture = np.asarray(picture)
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
            raise UserError(
                f"render returned {picture.dtype} {list(picture.shape)}; expected a "
                "picture, uint8 [height, width, 3]"
            )
        return picture


def player(
    camera: Camera, actor: Actor
) -> Callable[[int], Iterator[tuple[np.ndarray, TimeStep]]]:
    """Return a function of a seed that plays episode after episode greedily.

    It yields each picture with its time step.
    """
    env = camera.env

    @tf.function(autograph=False)
    @anew
    def act(timestep, state):
        noise = nest.map(lambda x: x[0], actor.noise((1, 1), 0))
        action, _, state = actor.act(
            timestep, state, noise, tf.constant(0, tf.int64), False
        )
        return action, state

    def play(seed: int) -> Iterator[tuple[np.ndarray, TimeStep]]:
        state, step = env.init(seed)
        actor_state = actor.initial_state(1)
        while True:
            yield camera.picture(state), step
            # After a last step the action is ignored and a new episode starts.
            with placement.host():
                action, actor_state = act(step, actor_state)
            state, step = env.step(state, action)

    return play


def film(
    camera: Camera,
    actor: Actor,
    outdir: str | os.PathLike,
    episodes: int,
    seed: int,
    format: Format = "mp4",
) -> list[Episode]:
    """Play exactly ``episodes`` episodes greedily and write a video of each.

    They are ``episode-000-return-<return>.mp4`` and so on in the folder, which is
    created if missing. The format "mp4" needs the extra ``video``.

    Raises:
      UserError: if the environment renders nothing, an episode does not end, or the
        extra ``video`` is missing.
      SaveError: if a video cannot be written.
    """
    folder = Path(outdir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise no_folder(folder, error, "--outdir") from error
    limit = camera.env.spec.max_episode_steps or LONGEST
    recorded: list[Episode] = []
    played = player(camera, actor)(seed)
    ends: list[TimeStep] = []  # last steps of the episodes

    def pictures() -> Iterator[np.ndarray]:
        """Yield the pictures of one episode."""
        for picture, step in played:
            yield picture
            if step.last[0]:
                ends.append(step)
                return
            if step.info["episode_length"][0] > limit:
                raise UserError(
                    f"an episode did not end within {limit} steps; give the "
                    "environment a time limit (gymnasium.wrappers.TimeLimit)"
                )

    while len(recorded) < episodes:
        name = f"episode-{len(recorded):03d}"
        part = folder / f"{name}.part.{format}"
        try:
            with console.doing(f"filming episode {len(recorded) + 1} of {episodes}"):
                _WRITERS[format](part, camera.fps, pictures())
            return_ = float(ends[-1].info["episode_return"][0])
            path = folder / f"{name}-return-{return_:g}.{format}"
            with _saving(path):
                part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        length = int(ends[-1].info["episode_length"][0])
        recorded.append(Episode(path, return_, length))
    return recorded


def write_mp4(path: Path, fps: float, pictures: Iterable[np.ndarray]) -> None:
    """Write pictures, uint8 ``[height, width, 3]`` each, to an MP4 file.

    Raises:
      UserError: if the extra ``video`` is missing or pictures differ in size.
      SaveError: if the file cannot be written.
    """
    imageio_ffmpeg = importing.ffmpeg()
    with contextlib.ExitStack() as stack:
        writer, shape = None, None
        for picture in pictures:
            padding = [(0, size % _BLOCK) for size in picture.shape[:2]]
            padded = np.pad(picture, [*padding, (0, 0)], mode="edge")
            if writer is None:
                shape, (height, width) = picture.shape, padded.shape[:2]
                writer = imageio_ffmpeg.write_frames(
                    str(path), (width, height), fps=fps, macro_block_size=_BLOCK
                )
                stack.callback(writer.close)
                writer.send(None)
            if picture.shape != shape:
                raise UserError(
                    f"render returned {list(picture.shape)} after {list(shape)}; all "
                    "pictures of a video need the same size"
                )
            with _saving(path):
                writer.send(np.ascontiguousarray(padded))


def write_gif(path: Path, fps: float, pictures: Iterable[np.ndarray]) -> None:
    """Write a GIF, see ``write_mp4``."""
    data = gif(pictures, fps)
    with _saving(path):
        path.write_bytes(data)


@contextlib.contextmanager
def _saving(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SaveError(f"video {path} cannot be written: {error}") from error


_WRITERS = {"mp4": write_mp4, "gif": write_gif}


class Clips:
    """Plays episodes of an agent, in its mode, and records their pictures.

    ``refresh`` is called before an episode; videos have ``fps`` pictures per second.

    Raises:
      UserError: if the environment cannot be recorded.
      EnvError: if it cannot be created.
    """

    def __init__(
        self, recipe: EnvRecipe, actor: Actor, refresh: Callable[[], None] | None = None
    ):
        self._camera, self._refresh = Camera(recipe), refresh
        self._play, self.fps = player(self._camera, actor), self._camera.fps

    def __call__(
        self, seed: int, stop: Callable[[], bool] = lambda: False
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Play one episode from its first to its last state, or until it is cut off.

        It also ends if ``stop``, which is called at every step, returns True.

        Returns:
          frames: uint8 ``[n, height, width, 3]``, at most ``CLIP_PICTURES`` of at most
            ``CLIP_SIZE`` pixels a side; of a longer episode every second, fourth, ...
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
                frames.append(smaller(picture, CLIP_SIZE))
                if len(frames) > CLIP_PICTURES:
                    frames, stride = frames[::2], 2 * stride
            if step.last[0] or taken >= CLIP_STEPS or stop():
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
    """Shrink a picture, uint8 ``[height, width, 3]``, by means over k x k.

    Its longer side gets ``largest`` pixels at most.
    """
    from PIL import Image  # comes with TensorBoard; slow to import

    k = -(-max(picture.shape[:2]) // largest)
    return picture if k <= 1 else np.asarray(Image.fromarray(picture).reduce(k))
