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
    """
    from PIL import Image  # comes with TensorBoard, and takes its time

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
