"""Maps of features, in Arrow, as matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def dense(column: Any, ids: Sequence[int], missing: float = 0.0) -> np.ndarray:
    """Return the values of some keys, f32 ``[N, len(ids)]``.

    The work is that of the keys which are there, however many ids there are.

    Args:
      column: chunked array ``[N]`` of maps from int64 to double; NULL is an empty map.
      ids: the keys, ascending.
      missing: value where the key, or its value, is not there.

    Raises:
      OverflowError: for a finite number beyond float32.
    """
    found = np.full([len(column), len(ids)], missing, np.float32)
    keys, start = np.asarray(ids, np.int64), 0
    for chunk in column.chunks if len(ids) else ():
        # The offsets of NULL are those of an empty map; a slice keeps all values.
        offsets = np.asarray(chunk.offsets)
        used = slice(offsets[0], offsets[-1])
        given = np.asarray(chunk.keys)[used]
        values = chunk.items.to_numpy(zero_copy_only=False)[used]
        rows = np.repeat(np.arange(len(chunk)), np.diff(offsets))
        place = np.minimum(np.searchsorted(keys, given), len(keys) - 1)
        known = keys[place] == given
        if chunk.items.null_count:
            known &= chunk.items.is_valid().to_numpy(zero_copy_only=False)[used]
        found[start + rows[known], place[known]] = _narrow(values[known])
        start += len(chunk)
    return found


def _narrow(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        found = values.astype(np.float32)
    beyond = np.isinf(found) & np.isfinite(values)
    if beyond.any():
        raise OverflowError(repr(values[beyond][0]))
    return found
