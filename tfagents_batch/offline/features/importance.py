"""How much a feature says of the reward: their mutual information."""

from __future__ import annotations

import numpy as np

_BINS = 10


def mutual_information(values: np.ndarray, rewards: np.ndarray) -> float:
    """Return the mutual information of a feature and the reward, in bits.

    Both are numbers of a class: those of at most 10 values by value, others by decile.
    The bias of counts is subtracted (Miller 1955), so unrelated ones have about 0.

    Args:
      values, rewards: ``[n]``, of the same rows; rows without a reward are left out.

    Returns:
      At least 0, and 0 without rewards.
    """
    known = np.isfinite(rewards)
    if not known.any():
        return 0.0
    x, y = _classes(values[known]), _classes(rewards[known])
    size = y.max() + 1
    counts = np.bincount(x * size + y, minlength=(x.max() + 1) * size)
    joint = counts.reshape(-1, size) / len(x)
    apart = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    some = joint > 0
    found = np.sum(joint[some] * np.log2(joint[some] / apart[some]))
    bias = (joint.shape[0] - 1) * (joint.shape[1] - 1) / (2 * len(x) * np.log(2))
    return max(float(found - bias), 0.0)


def _classes(x: np.ndarray) -> np.ndarray:
    """Return the numbers of the classes of values, without gaps, i64 ``[n]``."""
    values, index = np.unique(x, return_inverse=True)
    if len(values) <= _BINS:
        return index
    bounds = np.quantile(x, np.arange(1, _BINS) / _BINS)
    return np.unique(np.searchsorted(bounds, x, "right"), return_inverse=True)[1]
