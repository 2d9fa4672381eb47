"""Grid of ten by ten cells: rows count downwards, columns to the right."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

SIZE = 10
ROWS = np.arange(SIZE, dtype=np.int32)[:, np.newaxis]
COLUMNS = np.arange(SIZE, dtype=np.int32)
NOOP, LEFT, UP, RIGHT, DOWN, FIRE = range(6)  # actions


def cell(y: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Return bool ``[10, 10]``, true in one cell; all false if it is outside."""
    return (y == ROWS) & (x == COLUMNS)


def cells(present: tf.Tensor, y: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Return bool ``[10, 10]``, true where one of ``[n]`` things is present."""
    row = y[:, np.newaxis, np.newaxis] == ROWS
    column = x[:, np.newaxis, np.newaxis] == COLUMNS
    return tf.reduce_any(present[:, np.newaxis, np.newaxis] & row & column, 0)


def at(grid: tf.Tensor, y: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Return bool ``[]``, the value of a bool grid in one cell; false outside."""
    return tf.reduce_any(grid & cell(y, x))


def down(grid: tf.Tensor, rows: int) -> tf.Tensor:
    """Return a grid moved by some rows; cells that leave it are lost."""
    return _moved(grid, rows, 0)


def right(grid: tf.Tensor, columns: int) -> tf.Tensor:
    """Return a grid moved by some columns; cells that leave it are lost."""
    return _moved(grid, columns, 1)


def direction(action: tf.Tensor, plus: int, minus: int) -> tf.Tensor:
    """Return int32 ``[]``: 1 for the action ``plus``, -1 for ``minus``, else 0."""
    return tf.cast(action == plus, tf.int32) - tf.cast(action == minus, tf.int32)


def count(flags: tf.Tensor) -> tf.Tensor:
    """Return int32 ``[]``, the number of true flags."""
    return tf.reduce_sum(tf.cast(flags, tf.int32))


def inside(x: tf.Tensor) -> tf.Tensor:
    """Return bool, whether a column is inside the grid."""
    return (x >= 0) & (x < SIZE)


def _moved(grid: tf.Tensor, by: int, axis: int) -> tf.Tensor:
    padding = [[0, 0], [0, 0]]
    padding[axis] = [max(by, 0), max(-by, 0)]
    padded = tf.pad(grid, padding)  # tf.roll and a mask take longer
    start = max(-by, 0)
    if axis == 0:
        return padded[start : start + SIZE]
    return padded[:, start : start + SIZE]
