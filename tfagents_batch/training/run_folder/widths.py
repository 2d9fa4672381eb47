"""Integers that were saved with another width.

Variables of a GPU hold integers as int64, see ``graph.state``, and those of the host
hold them as they are. A run may be saved on one and continue on the other.
"""

from __future__ import annotations

import numpy as np

# Integers that become int64 on a GPU; uint8 does not.
_INTEGERS = "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"


def fit(saved: str, wanted: str) -> bool:
    """Return whether values of a saved dtype can be read into a variable.

    Args:
      saved: name of the dtype of the values, which is not trusted.
      wanted: name of the dtype of the variable.
    """
    return saved == wanted or (saved in _INTEGERS and wanted in _INTEGERS)


def cast(values: np.ndarray, dtype: type[np.generic], name: str) -> np.ndarray:
    """Return saved values with the dtype of a variable.

    Args:
      values: an array of any shape, with a dtype that fits.
      dtype: dtype of the variable.
      name: name of the variable, for the error.

    Raises:
      ValueError: if the variable cannot hold one of the values.
    """
    values = np.asarray(values)
    if values.dtype == dtype:
        return values
    found = values.astype(dtype)
    # Compared as a GPU holds them, which is exact for uint64 too.
    lost = found.astype(np.int64) != values.astype(np.int64)
    if lost.any():
        wanted = np.dtype(dtype).name
        raise ValueError(f"{name} has the value {values[lost][0]}; expected {wanted}")
    return found
