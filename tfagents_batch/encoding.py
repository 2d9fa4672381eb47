"""Rules by which the built-in networks read each part of an observation.

Networks, normalizers and ``check_env`` follow them. Nothing here needs TensorFlow.
"""

from __future__ import annotations

import math
from typing import Literal

import gymnasium
import numpy as np
from gymnasium import spaces as gs

Kind = Literal["image", "flags", "one-hot", "integers", "floats"]
WIDEST = 2**24  # largest range to scale by its bounds: float32 has all its integers
PIXELS = 8  # smallest side of an image that is not uint8 of rank 3
MATRIX = 32  # smallest side of a matrix that may be a gray image


def kind(space: gymnasium.Space) -> Kind:
    """Return the kind of one leaf of an observation space.

    * image: goes through the CNN, scaled by its bounds. It is a Box of uint8, or of
      other numbers that all have the same finite bounds, see ``is_image``.
    * flags: bool.
    * one-hot: Discrete, MultiDiscrete.
    * integers, floats: any other Box.
    """
    if isinstance(space, (gs.Discrete, gs.MultiDiscrete)):
        return "one-hot"
    dtype = np.dtype(space.dtype)
    if not isinstance(space, gs.Box) or dtype.kind == "b":
        return "flags"
    if is_image(space):
        return "image"
    return "floats" if dtype.kind == "f" else "integers"


def is_image(space: gymnasium.Space) -> bool:
    """Return whether a leaf of a space is an image, or a stack of images.

    True for uint8 of rank 3, ``[H, W, C]`` or ``[C, H, W]``; of rank 2 with ``PIXELS``
    or more on each side; and of rank 4, stacks of images. True for other numbers of
    rank 3 and 4 if each side has ``PIXELS`` or more and all bounds are the same.
    """
    if not isinstance(space, gs.Box) or np.dtype(space.dtype).kind == "b":
        return False
    rank = len(space.shape)
    if space.dtype == np.uint8:
        return rank == 3 or (rank in (2, 4) and side(space.shape) >= PIXELS)
    shaped = rank in (3, 4) and side(space.shape) >= PIXELS
    return shaped and bounds_are_alike(space) and has_scale(space)


def is_planes(space: gymnasium.Space) -> bool:
    """Return whether a leaf has planes of flags, as in MinAtar, or a stack of them."""
    return kind(space) == "flags" and len(space.shape) in (3, 4)


def missed_image(space: gymnasium.Space) -> str:
    """Return why numbers that look like an image are not read as one; "" if they are.

    The text is an advice that follows the name of the numbers.
    """
    if kind(space) not in ("floats", "integers"):
        return ""
    shape = space.shape or ()
    rank = len(shape)
    text = f" has shape {shape}, like an image, but "
    if rank == 2 and side(shape) >= MATRIX:
        text += "no axis of channels"
        fix = f"give it one, {(*shape, 1)}, and the same finite bounds for all pixels"
    elif rank in (3, 4) and side(shape) >= PIXELS:
        text += "its bounds are not finite, not the same for all pixels or too wide"
        fix = "declare one lowest and one highest value, such as 0 and 1"
    else:
        return ""
    return (
        f"{text}; it goes flattened, as {math.prod(shape):,} numbers, to dense layers "
        f"instead of a CNN: {fix}, or pass your own network"
    )


def rows_axis(shape: tuple[int, ...]) -> int:
    """Return the axis of an image's rows; that of its columns follows.

    All other axes are channels. In a shape of rank 3 the first axis has the channels
    if it is the shortest one. Of a stack, ``[n, H, W, C]`` or ``[n, C, H, W]``, the two
    neighbors that are longest are rows and columns.
    """
    if len(shape) == 2:
        return 0
    if len(shape) == 3:
        return int(shape[0] < min(shape[1:]))
    return max((1, 2, 0), key=lambda axis: min(shape[axis : axis + 2]))


def side(shape: tuple[int, ...]) -> int:
    """Return the length of an image's shorter side."""
    axis = rows_axis(shape)
    return min(shape[axis : axis + 2])


def has_scale(space: gs.Box) -> bool:
    """Return whether numbers are scaled by their bounds: at most ``WIDEST`` apart."""
    if not space.low.size:
        return False
    low, high = (bound.astype(np.float64) for bound in (space.low, space.high))
    with np.errstate(over="ignore"):
        return bool(np.all(high - low <= WIDEST))


def bounds_are_alike(space: gs.Box) -> bool:
    """Return whether all entries have the same bounds, low < high."""
    low, high = space.low, space.high
    if not low.size or low.flat[0] >= high.flat[0]:
        return False
    return bool(np.all(low == low.flat[0]) and np.all(high == high.flat[0]))


def features(space: gymnasium.Space) -> int:
    """Return the number of inputs of a leaf that is not an image."""
    if isinstance(space, gs.Discrete):
        return int(space.n)
    if isinstance(space, gs.MultiDiscrete):
        return int(np.sum(space.nvec, dtype=np.int64))
    return math.prod(space.shape)
