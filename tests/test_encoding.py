import gymnasium.spaces as gs
import numpy as np
import pytest

from tfagents_batch import encoding

OF_ROW = np.broadcast_to(np.float32([1, 2, 3]), (8, 8, 3))


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (gs.Box(0, 255, (84, 84), np.uint8), "image"),
        (gs.Box(0, 255, (7, 7, 3), np.uint8), "image"),
        (gs.Box(0, 1, (8, 8, 2), np.uint8), "image"),
        (gs.Box(0, 255, (4, 64, 64, 3), np.uint8), "image"),
        (gs.Box(0, 1, (64, 64, 3), np.float32), "image"),
        (gs.Box(0, 1, (4, 64, 64, 3), np.float64), "image"),
        (gs.Box(0, 65_535, (64, 64, 1), np.uint16), "image"),
        (gs.Box(0, 255, (7, 84), np.uint8), "integers"),
        (gs.Box(0, 255, (4, 7, 7, 3), np.uint8), "integers"),
        (gs.Box(-(2**31), 2**31 - 1, (64, 64, 1), np.int32), "integers"),
        (gs.Box(-np.inf, np.inf, (64, 64, 3), np.float32), "floats"),
        (gs.Box(-1e30, 1e30, (64, 64, 3), np.float32), "floats"),
        (gs.Box(-OF_ROW, OF_ROW), "floats"),
        (gs.Box(0, 1, (7, 7, 3), np.float32), "floats"),
        (gs.Box(0, 1, (84, 84), np.float32), "floats"),
        (gs.Box(0, 1, (10, 10, 4), bool), "flags"),
        (gs.MultiBinary([10, 10, 4]), "flags"),
        (gs.Discrete(4), "one-hot"),
        (gs.MultiDiscrete([[2, 3]]), "one-hot"),
    ],
    ids=str,
)
def test_each_space_has_one_kind(space, expected):
    assert encoding.kind(space) == expected


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((84, 80), 0),
        ((84, 80, 3), 0),
        ((3, 84, 80), 1),
        ((4, 84, 80, 3), 1),
        ((4, 3, 84, 80), 2),
        ((84, 80, 3, 4), 0),
        ((9, 9, 9, 9), 1),
    ],
)
def test_the_rows_of_an_image_are_found_by_its_longest_axes(shape, axis):
    assert encoding.rows_axis(shape) == axis


def test_numbers_have_a_scale_if_their_range_is_at_most_2_to_the_24():
    assert encoding.has_scale(gs.Box(0, 2**24, (1,), np.int64))
    assert not encoding.has_scale(gs.Box(0, 2**24 + 1, (1,), np.int64))
    largest = np.finfo(np.float64).max
    assert not encoding.has_scale(gs.Box(-largest, largest, (1,), np.float64))


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (gs.Box(-np.inf, np.inf, (64, 48, 3), np.float32), "as 9,216 numbers"),
        (gs.Box(-OF_ROW, OF_ROW), "declare one lowest and one highest value"),
        (gs.Box(-np.inf, np.inf, (4, 8, 8, 3), np.float32), "like an image"),
        (gs.Box(0, 1, (84, 84), np.float32), "(84, 84, 1)"),
        (gs.Box(0, 1, (84, 84, 1), np.float32), ""),
        (gs.Box(-np.inf, np.inf, (31, 84), np.float32), ""),
        (gs.Box(-np.inf, np.inf, (7, 84, 3), np.float32), ""),
        (gs.Box(0, 1, (10, 10, 4), bool), ""),
        (gs.MultiDiscrete(np.full((10, 10, 4), 2)), ""),
    ],
)
def test_numbers_that_look_like_an_image_have_a_reason_why_they_are_none(space, text):
    reason = encoding.missed_image(space)
    assert text in reason
    assert bool(reason) == bool(text)
