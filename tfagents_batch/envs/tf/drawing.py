"""Pictures of environments: a few shapes on a NumPy array, without extra packages.

Arguments are in world coordinates, with y upwards.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

WHITE, BLACK, GRAY = (255, 255, 255), (0, 0, 0), (128, 128, 128)
_SAMPLES = 2  # samples per pixel in each direction, for smooth edges

Color = tuple[int, int, int]
Point = Sequence[float]


class Canvas:
    """A picture of the world between two corners.

    Args:
      low, high: corners ``(x, y)`` of the visible part of the world.
      width: width of the picture in pixels; its height follows from the corners.
      background: background color.

    Attributes:
      x: f64 ``[columns]``, world coordinates of the columns.
    """

    def __init__(
        self, low: Point, high: Point, width: int = 400, background: Color = WHITE
    ):
        (left, bottom), (right, top) = low, high
        columns = width * _SAMPLES
        self._scale = columns / (right - left)
        # Video codecs need even sizes.
        rows = _SAMPLES * 2 * round(width * (top - bottom) / (right - left) / 2)
        self._pixels = np.empty([rows, columns, 3], np.uint8)
        self._pixels[:] = background
        self.x = left + (np.arange(columns) + 0.5) / self._scale
        self._y = (top - (np.arange(rows) + 0.5) / self._scale)[:, np.newaxis]

    def disc(self, center: Point, radius: float, color: Color) -> None:
        """Draw a filled circle."""
        x, y = center
        self._fill((self.x - x) ** 2 + (self._y - y) ** 2 <= radius**2, color)

    def polygon(self, corners: Sequence[Point], color: Color) -> None:
        """Draw a filled convex polygon, with its corners in either direction."""
        inside = []
        for (x, y), (x2, y2) in zip(corners, [*corners[1:], corners[0]], strict=True):
            inside.append((x2 - x) * (self._y - y) - (y2 - y) * (self.x - x))
        left = np.all([side >= 0 for side in inside], 0)
        self._fill(left | np.all([side <= 0 for side in inside], 0), color)

    def bar(self, start: Point, end: Point, thickness: float, color: Color) -> None:
        """Draw a straight line with flat ends."""
        start, end = np.asarray(start, float), np.asarray(end, float)
        along = end - start
        across = np.array([-along[1], along[0]]) * thickness / (2 * np.hypot(*along))
        self.polygon(
            [start + across, end + across, end - across, start - across], color
        )

    def below(self, heights: np.ndarray, color: Color) -> None:
        """Draw the ground, up to the height of every column; see ``x``."""
        self._fill(self._y <= heights, color)

    def picture(self) -> np.ndarray:
        """Return the picture, uint8 ``[height, width, 3]``."""
        rows, columns, _ = self._pixels.shape
        blocks = self._pixels.reshape(
            [rows // _SAMPLES, _SAMPLES, columns // _SAMPLES, _SAMPLES, 3]
        )
        return blocks.mean((1, 3)).astype(np.uint8)

    def _fill(self, where: np.ndarray, color: Color) -> None:
        self._pixels[where] = color


def cells(colors: np.ndarray, size: int = 20) -> np.ndarray:
    """Return a picture of squares with the colors uint8 ``[rows, columns, 3]``."""
    return np.kron(colors, np.ones([size, size, 1], np.uint8))
