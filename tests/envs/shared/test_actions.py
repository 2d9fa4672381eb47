import gymnasium.spaces as gs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfagents_batch import spaces
from tfagents_batch.envs.shared import actions

NONE_IGNORED = np.zeros(2, bool)
SPACES = {
    "discrete": gs.Discrete(3, start=5),
    "multi": gs.MultiDiscrete([3, 2], start=[1, -1]),
    "binary": gs.MultiBinary([2, 2]),
    "box": gs.Box(-2, 2, (3,), np.float32),
    "wide": gs.Box(-0.1, 0.1, (2,), np.float64),
    "scalar": gs.Box(-1, 1, (), np.float32),
    "unbounded": gs.Box(-np.inf, np.inf, (1,), np.float32),
    "integers": gs.Box(0, 10, (2,), np.int64),
    "nested": gs.Dict({"b": gs.Discrete(2), "a": gs.Tuple([gs.Box(0, 1, (2,))])}),
}


def writer_and_reader(space, rows=2):
    arrays = [np.zeros((rows, *x.shape), x.dtype) for x in spaces.leaves(space)]
    return actions.ActionWriter(space, arrays), actions.ActionReader(space, arrays)


def batch(space, values):
    """Return leaves ``[B, ...]`` as a graph passes them."""
    columns = zip(*[spaces.flatten(space, value) for value in values], strict=True)
    leaves = spaces.leaves(space)
    return [np.array(x, leaf.dtype) for x, leaf in zip(columns, leaves, strict=True)]


@pytest.mark.parametrize("name", SPACES)
@settings(max_examples=25)
@given(seed=st.integers(0, 1000))
def test_actions_keep_value_and_dtype_on_the_way_to_a_worker(name, seed):
    space = SPACES[name]
    space.seed(seed)
    sent = [space.sample(), space.sample()]
    writer, reader = writer_and_reader(space)
    writer.write(batch(space, sent), NONE_IGNORED)
    for want, got in zip(sent, reader.read(), strict=True):
        assert space.contains(got)
        for x, y in zip(
            spaces.flatten(space, want), spaces.flatten(space, got), strict=True
        ):
            np.testing.assert_allclose(x, y, rtol=1e-6)
            assert np.asarray(x).dtype == np.asarray(y).dtype


INVALID = {
    **{"discrete": [4, 8], "multi": [[0, 0], [1, 1]], "binary": [[[0, 1], [2, 0]]]},
    **{"box": [[0, np.nan, 0]], "unbounded": [[np.inf], [np.nan]], "scalar": [np.nan]},
}


@pytest.mark.parametrize(
    ("name", "row"), [(name, row) for name in INVALID for row in INVALID[name]]
)
def test_invalid_actions_are_refused_with_their_row(name, row):
    space = SPACES[name]
    (good,) = batch(space, [space.sample(), space.sample()])
    good[1] = row
    writer, _ = writer_and_reader(space)
    with pytest.raises(actions.InvalidAction) as caught:
        writer.write([good], NONE_IGNORED)
    assert caught.value.row == 1
    assert caught.value.action == str(np.asarray(row, good.dtype).tolist())


def test_wide_integers_do_not_wrap_into_range():
    writer, _ = writer_and_reader(gs.MultiBinary(2))
    with pytest.raises(actions.InvalidAction):
        writer.write([np.full((2, 2), 256, np.int32)], NONE_IGNORED)


@pytest.mark.parametrize("shape", [(3,), (1,), (2, 1), ()])
def test_wrong_batch_sizes_are_refused(shape):
    writer, _ = writer_and_reader(SPACES["discrete"])
    with pytest.raises(actions.InvalidAction, match="one row per environment"):
        writer.write([np.full(shape, 5, np.int32)], NONE_IGNORED)


@pytest.mark.parametrize("name", ["discrete", "multi", "binary", "integers"])
def test_float_actions_are_refused_for_integer_spaces(name):
    space = SPACES[name]
    (good,) = batch(space, [space.sample(), space.sample()])
    writer, _ = writer_and_reader(space)
    with pytest.raises(actions.InvalidAction, match="float32"):
        writer.write([good.astype(np.float32)], NONE_IGNORED)


def test_box_actions_are_clipped_and_counted_without_ignored_rows():
    writer, reader = writer_and_reader(SPACES["box"])
    action = np.array([[0, 3, -9], [5, 5, 5]], np.float32)
    writer.write([action], np.array([False, True]))
    assert reader.read()[0].tolist() == [0, 2, -2]
    assert (writer.clipped, writer.total) == (2, 3)
    assert action[0, 1] == 3  # the caller's array is unchanged


def test_clipped_actions_stay_within_float64_bounds():
    writer, reader = writer_and_reader(SPACES["wide"])
    writer.write([np.array([[1, -1], [0, 0]], np.float32)], NONE_IGNORED)
    assert all(SPACES["wide"].contains(action) for action in reader.read())


def test_environments_receive_copies_of_actions():
    writer, reader = writer_and_reader(SPACES["box"])
    writer.write([np.ones((2, 3), np.float32)], NONE_IGNORED)
    first = reader.read()[0]
    writer.write([np.zeros((2, 3), np.float32)], NONE_IGNORED)
    assert first.tolist() == [1, 1, 1]
