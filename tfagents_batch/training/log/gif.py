"""Animated GIFs, which need no package for videos and play in every browser."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Iterable

import numpy as np

FASTEST = 50  # pictures per second; browsers slow down those that are faster


def encode(pictures: Iterable[np.ndarray], fps: float) -> bytes:
    """Return a GIF of 256 colors that repeats forever.

    Args:
      pictures: uint8 ``[height, width, 3]`` each; at least one.
      fps: pictures per second; above ``FASTEST`` some are left out.
    """
    from PIL import Image  # comes with TensorBoard; slow to import

    stride = max(math.ceil(fps / FASTEST), 1)
    shown = itertools.islice(pictures, 0, None, stride)
    first, *others = [Image.fromarray(picture).quantize() for picture in shown]
    # A GIF counts hundredths of a second, so pictures differ by one.
    times = [round(100 * stride * n / fps) for n in range(len(others) + 2)]
    options = {"save_all": True, "append_images": others, "loop": 0}
    options["duration"] = [10 * (y - x) for x, y in itertools.pairwise(times)]
    file = io.BytesIO()
    first.save(file, format="GIF", **options)
    return file.getvalue()
