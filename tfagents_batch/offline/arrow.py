"""Columns of Arrow as arrays of NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def numbers(column: Any) -> np.ndarray:
    """Return a column of numbers or flags, ``[N]``."""
    return column.combine_chunks().to_numpy(zero_copy_only=False)


def joined(columns: Sequence[Any]) -> np.ndarray:
    """Return columns of numbers side by side, f32 ``[N, len(columns)]``."""
    return np.stack([numbers(x) for x in columns], 1).astype(np.float32, copy=False)


def contained(column: Any, count: int) -> np.ndarray:
    """Return which numbers below ``count`` are in each list, bool ``[N, count]``."""
    contains, start = np.zeros([len(column), count], bool), 0
    for chunk in column.chunks:
        rows = np.repeat(np.arange(len(chunk)), chunk.value_lengths().fill_null(0))
        values = chunk.flatten()
        known = values.is_valid().to_numpy(zero_copy_only=False)
        contains[start + rows[known], values.drop_null()] = True
        start += len(chunk)
    return contains


def padded(columns: Sequence[Any]) -> np.ndarray:
    """Return columns of lists of numbers, padded with NaN, f32 ``[N, most, columns]``.

    The lists of a row have the same length.
    """
    lists = [column.combine_chunks() for column in columns]
    lengths = np.asarray(lists[0].value_lengths().fill_null(0))
    most = max(int(lengths.max(initial=0)), 1)
    numbers = np.full([len(lengths), most, len(columns)], np.nan, np.float32)
    used = np.arange(most) < lengths[:, np.newaxis]
    for i, values in enumerate(lists):
        numbers[..., i][used] = np.asarray(values.flatten())
    return numbers


def dense(column: Any, ids: Sequence[int], missing: float = 0.0) -> np.ndarray:
    """Return the values of some keys of maps, f32 ``[N, len(ids)]``.

    The work is that of the keys which are there, however many ids there are. An
    OverflowError is raised for a finite number beyond float32.

    Args:
      column: chunked array ``[N]`` of maps from int64 to double; NULL is an empty map.
      ids: the keys, ascending.
      missing: value where the key, or its value, is not there.
    """
    numbers = np.full([len(column), len(ids)], missing, np.float32)
    keys, start = np.asarray(ids, np.int64), 0
    for chunk in column.chunks if len(ids) else ():
        # The offsets of NULL are those of an empty map; a slice keeps all values.
        offsets = np.asarray(chunk.offsets)
        used = slice(offsets[0], offsets[-1])
        present = np.asarray(chunk.keys)[used]
        values = chunk.items.to_numpy(zero_copy_only=False)[used]
        rows = np.repeat(np.arange(len(chunk)), np.diff(offsets))
        place = np.minimum(np.searchsorted(keys, present), len(keys) - 1)
        known = keys[place] == present
        if chunk.items.null_count:
            known &= chunk.items.is_valid().to_numpy(zero_copy_only=False)[used]
        numbers[start + rows[known], place[known]] = _narrow(values[known])
        start += len(chunk)
    return numbers


def _narrow(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    beyond = np.isinf(narrow) & np.isfinite(values)
    if beyond.any():
        raise OverflowError(repr(values[beyond][0]))
    return narrow
