"""Animated GIFs, which need no package for videos and play in every browser."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image  # TensorBoard needs it too

from tfagents_batch.errors import SaveError

_FASTEST = 50  # pictures per second; browsers slow down those that are faster


@contextlib.contextmanager
def gif(path: Path, fps: float) -> Iterator[Callable[[np.ndarray], None]]:
    """Write a GIF of 256 colors, unless the context raises an exception.

    Args:
      path: path of the file.
      fps: pictures per second; of faster ones some are left out.

    Yields:
      A function that appends a picture, uint8 ``[height, width, 3]``; at least one.

    Raises:
      SaveError: if the file cannot be written.
    """
    images: list[Image.Image] = []
    stride = max(math.ceil(fps / _FASTEST), 1)
    given = 0

    def add(picture: np.ndarray) -> None:
        nonlocal given
        if given % stride == 0:
            images.append(Image.fromarray(picture).quantize())
        given += 1

    yield add
    # A GIF counts hundredths of a second, so pictures differ by one.
    times = [round(100 * stride * n / fps) for n in range(len(images) + 1)]
    options = {"save_all": True, "append_images": images[1:], "loop": 0}
    options["duration"] = [10 * (y - x) for x, y in itertools.pairwise(times)]
    try:
        images[0].save(path, format="GIF", **options)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise SaveError(f"video {path} cannot be written: {error}") from error
