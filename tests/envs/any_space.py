"""Hypothesis strategy of spaces, for properties that hold for all spaces."""

import gymnasium.spaces as gs
import numpy as np
from hypothesis import strategies as st


def any_space(depth=2):
    """Return a strategy of spaces that are nested at most ``depth`` times."""
    leaf = st.one_of(
        st.builds(
            lambda shape, dtype: gs.Box(0, 100, tuple(shape), dtype),
            st.lists(st.integers(1, 3), max_size=2),
            st.sampled_from([np.float32, np.float64, np.uint8, np.int64]),
        ),
        st.builds(gs.Discrete, st.integers(1, 5), start=st.integers(-3, 3)),
        st.builds(gs.MultiDiscrete, st.lists(st.integers(1, 4), min_size=1)),
        st.builds(gs.MultiBinary, st.integers(1, 4)),
    )
    if depth == 0:
        return leaf
    children = any_space(depth - 1)
    keys = st.sampled_from(["a", "b", "c"])
    return st.one_of(
        leaf,
        st.builds(gs.Dict, st.dictionaries(keys, children, min_size=1)),
        st.builds(gs.Tuple, st.lists(children, min_size=1, max_size=3)),
    )
