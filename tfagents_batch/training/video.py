"""Pictures to an MP4 file, one at a time; needs the extra ``video``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tfagents_batch.errors import SaveError, UserError

_BLOCK = 2  # pixels: sizes that H.264 takes are even


class Video:
    """A file that grows by a picture, and has its name only when it is whole.

    Args:
      path: to write in the end; it is ``<stem>.part<suffix>`` meanwhile.
      fps: pictures a second.

    Raises:
      UserError: without the extra.
    """

    def __init__(self, path: Path, fps: float):
        try:
            import imageio_ffmpeg
        except ImportError:
            raise UserError(
                'videos need imageio_ffmpeg: pip install "tfagents_batch[video]"'
            ) from None
        self._write = imageio_ffmpeg.write_frames
        self._path, self._fps = path, fps
        self._part = path.with_name(f"{path.stem}.part{path.suffix}")
        self._frames = None
        self._shape: tuple[int, ...] = ()

    def add(self, picture: np.ndarray) -> None:
        """Append a uint8 ``[height, width, 3]``; all of one size.

        Raises:
          UserError: if it is of another size.
          SaveError: if it cannot be written.
        """
        if self._frames is None:
            self._shape = picture.shape
            height, width = (size + size % _BLOCK for size in picture.shape[:2])
            size = width, height
            self._frames = self._write(
                str(self._part), size, fps=self._fps, macro_block_size=_BLOCK
            )
            self._frames.send(None)
        if picture.shape != self._shape:
            raise UserError(
                f"render returned {list(picture.shape)} after {list(self._shape)}; "
                "pictures of a video are of one size"
            )
        odd = [(0, size % _BLOCK) for size in picture.shape[:2]]
        even = np.pad(picture, [*odd, (0, 0)], mode="edge")
        try:
            self._frames.send(np.ascontiguousarray(even))
        except OSError as error:
            raise SaveError(f"video {self._path} cannot be written: {error}") from error

    def finish(self, path: Path | None = None) -> Path:
        """Close the file and give it its name, or another one; returns it."""
        self.abandon(keep=True)
        path = path or self._path
        try:
            self._part.replace(path)
        except OSError as error:
            raise SaveError(f"video {path} cannot be written: {error}") from error
        return path

    def abandon(self, keep: bool = False) -> None:
        """Close the file, and remove it unless it is to be kept; idempotent."""
        if self._frames is not None:
            self._frames.close()
            self._frames = None
        if not keep:
            self._part.unlink(missing_ok=True)
