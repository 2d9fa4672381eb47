import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs
from hypothesis import given, settings
from hypothesis import strategies as st

from tfagents_batch.ops import branches, td

SPACES = [
    gs.Discrete(3, start=-1),
    gs.MultiDiscrete([4]),
    gs.MultiDiscrete([3, 2, 4], start=[5, 0, -2]),
    gs.MultiDiscrete([[2, 3], [3, 2]]),
    gs.MultiBinary(3),
    gs.MultiBinary([2, 2]),
]
rows = st.sampled_from(SPACES), st.integers(0, 2**31), st.booleans()


def parts(found: branches.Branches) -> list[slice]:
    """Return the slice of each branch in the choices of all branches."""
    ends = np.cumsum(found.sizes)
    return [slice(end - n, end) for end, n in zip(ends, found.sizes, strict=True)]


@given(*rows)
@settings(max_examples=60, deadline=None)
def test_the_best_action_takes_the_best_valid_choice_of_each_branch(space, seed, masks):
    found, generator = branches.of(space), np.random.default_rng(seed)
    q = generator.normal(size=(5, found.size)).astype(np.float32)
    mask = generator.random(q.shape) < 0.4 if masks else np.ones(q.shape, bool)
    given_mask = tf.constant(mask) if masks else None
    action = found.best(tf.constant(q), given_mask).numpy()
    expected = np.zeros((5, len(found.sizes)), int)
    for row in range(5):
        for branch, part in enumerate(parts(found)):
            valid = mask[row, part] | ~mask[row, part].any()
            expected[row, branch] = np.argmax(np.where(valid, q[row, part], -np.inf))
    expected = expected.reshape(5, *found.shape) + found.start
    np.testing.assert_array_equal(action, expected)
    assert all(space.contains(x.astype(space.dtype)) for x in action)
    # The rows of branches have the values of the choices of actions.
    chosen = td.chosen(found.rows(tf.constant(q)), found.index(action))
    index = (expected - found.start).reshape(5, -1)
    of_loop = [[q[i, part][index[i, k]] for k, part in enumerate(parts(found))]
               for i in range(5)]  # fmt: skip
    np.testing.assert_array_equal(tf.reshape(chosen, [5, -1]), of_loop)
    np.testing.assert_allclose(found.mean(chosen), np.mean(of_loop, -1), rtol=1e-6)


@given(*rows)
@settings(max_examples=30, deadline=None)
def test_advantages_have_a_mean_of_zero_over_the_valid_choices_of_a_branch(
    space, seed, masks
):
    found, generator = branches.of(space), np.random.default_rng(seed)
    x = generator.normal(size=(4, found.size, 2)).astype(np.float32)
    mask = generator.random(x.shape[:2]) < 0.5 if masks else np.ones(x.shape[:2], bool)
    centered = found.centered(tf.constant(x), tf.constant(mask) if masks else None)
    for row in range(4):
        for part in parts(found):
            valid = mask[row, part] | ~mask[row, part].any()
            expected = x[row, part] - x[row, part][valid].mean(0)
            np.testing.assert_allclose(centered[row, part], expected, atol=1e-6)


def test_rows_of_branches_keep_further_axes_and_repeat_states():
    found = branches.of(gs.MultiDiscrete([2, 3]))
    x = tf.reshape(tf.range(20.0), [2, 5, 2])
    padded = found.rows(x).numpy()
    assert padded.shape == (4, 3, 2)
    np.testing.assert_array_equal(padded[2, :2], x[1, :2])
    assert (padded[2, 2] < -1e8).all()  # a choice that it does not have
    np.testing.assert_array_equal(padded[3], x[1, 2:])
    valid = found.valid(tf.constant([[False, True, True, False, True]]))
    assert valid.numpy().tolist() == [[False, True, False], [True, False, True]]
    assert found.repeat(tf.constant([1, 2])).numpy().tolist() == [1, 1, 2, 2]
    joined = found.together(tf.constant([[1, 2], [3, 4], [5, 6], [7, 8]]))
    assert joined.numpy().tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]


@pytest.mark.parametrize("space", [gs.Box(0, 1), gs.Tuple([gs.Discrete(2)])], ids=str)
def test_other_spaces_have_no_branches(space):
    assert branches.of(space) is None
