"""Pictures as an animated GIF, which TensorBoard and trackers show as it is."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

FASTEST = 20  # milliseconds a picture: browsers show what is faster more slowly


def encode(frames: np.ndarray | Sequence[np.ndarray], fps: float) -> bytes:
    """Encode a film that is played again and again.

    Args:
      frames: uint8 ``[n, height, width, 3]``, at least one.
      fps: pictures a second; 50 at most are shown.

    Raises:
      ValueError: for anything else.
    """
    from PIL import Image  # comes with TensorBoard, and takes its time

    frames = np.asarray(frames)
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[3] != 3:
        raise ValueError(
            f"frames are {frames.dtype} {list(frames.shape)}; expected uint8 "
            "[n, height, width, 3]"
        )
    if not frames.size or not fps > 0:
        raise ValueError(f"there are {len(frames)} frames at {fps} a second")
    first, *others = [Image.fromarray(frame) for frame in frames]
    file = io.BytesIO()
    first.save(
        file,
        "GIF",
        save_all=True,
        append_images=others,
        duration=max(FASTEST, round(1000 / fps)),
        loop=0,
    )
    return file.getvalue()
