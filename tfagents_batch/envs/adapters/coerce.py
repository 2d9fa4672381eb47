"""Convert observations to the dtypes of their space, for lenient interfaces.

Gymnasium environments must match their spaces. Environments of older or other
interfaces return lists, Python numbers or float64 where the space says float32. These
are converted to arrays of the space's dtype, unless an integer would not fit.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs


def coerce(space: gymnasium.Space, value: Any) -> Any:
    """Convert an observation to the dtypes of its space.

    Numbers become floats of the space's width. Integers and bools become integers of
    another width if all values fit. Anything else stays unchanged, and the checks of
    the worker refuse it.
    """
    if isinstance(space, gs.Dict):
        if not isinstance(value, dict):
            return value
        known = space.spaces
        return {k: coerce(known[k], x) if k in known else x for k, x in value.items()}
    if isinstance(space, gs.Tuple):
        if not isinstance(value, (tuple, list)) or len(value) != len(space.spaces):
            return value
        return tuple(map(coerce, space.spaces, value))
    if isinstance(space, gs.Discrete):
        single = isinstance(value, np.ndarray) and value.size == 1
        if single and value.dtype.kind in "iub":
            return int(value.item())
        return int(value) if isinstance(value, np.bool_) else value
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        return value
    dtype = np.dtype(space.dtype)
    if array.dtype == dtype:
        return array
    if array.dtype.kind not in ("fiub" if dtype.kind == "f" else "iub"):
        return value
    with np.errstate(over="ignore"):  # infinity has its own check
        cast = array.astype(dtype)
    return cast if dtype.kind == "f" or (cast == array).all() else value
