import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfagents_batch import seeds
from tfagents_batch.graph import epochs


def order(size, count, seed):
    key = seeds.key(seed, "test")
    return epochs.random_order(size, tf.constant(count), key).numpy()


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(1, 300), st.integers(0, 2**31 - 1))
def test_an_order_contains_every_number_below_the_count_once(data, size, seed):
    count = data.draw(st.integers(0, size))
    found = order(size, count, seed)
    assert found.dtype == np.int32 and found.shape == (size,)
    assert sorted(found[:count]) == list(range(count))
    assert ((found >= 0) & (found < 2 * size)).all() or size == 1


def test_different_seeds_give_different_orders():
    first, again, other = order(500, 500, 1), order(500, 500, 1), order(500, 500, 2)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any() and (first != np.arange(500)).any()


@pytest.mark.parametrize("jit", [False, True])
def test_compiled_graph_and_eager_orders_agree(jit):
    @tf.function(jit_compile=jit, autograph=False)
    def program(count):
        return epochs.random_order(40, count, seeds.key(3, "test"))

    for count in (1, 2, 33, 40):
        found = program(tf.constant(count))
        np.testing.assert_array_equal(found[:count], order(40, count, 3)[:count])


@pytest.mark.parametrize("size", [13, 16])
def test_positions_and_neighbors_are_uniform(size):
    draws = 20_000

    @tf.function(jit_compile=True, autograph=False)
    def count():
        def body(index, places, pairs):
            key = seeds.fold(seeds.key(5, "test"), index)
            found = epochs.random_order(size, tf.constant(size), key)
            hot = tf.one_hot(found, size)
            return index + 1, places + hot, pairs + hot[0][:, None] * hot[1]

        zeros = tf.zeros([size, size])
        return tf.while_loop(lambda i, *_: i < draws, body, (0, zeros, zeros))[1:]

    places, pairs = (x.numpy().astype(np.float64) for x in count())
    apart = ~np.eye(size, dtype=bool)
    cells = {"places": (places, (size - 1) ** 2), "pairs": (pairs[apart], None)}
    for name, (seen, freedom) in cells.items():
        freedom = freedom or seen.size - 1
        expected = seen.sum() / seen.size
        chi_square = (np.square(seen - expected) / expected).sum()
        # Five standard deviations of the statistic.
        assert abs(chi_square - freedom) < 5 * np.sqrt(2 * freedom), name


@settings(max_examples=60, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=70))
def test_true_first_lists_the_true_indices_of_a_mask(mask):
    found = epochs.true_first(tf.constant(mask)).numpy()
    expected = np.flatnonzero(mask)
    np.testing.assert_array_equal(found[: len(expected)], expected)
    np.testing.assert_array_equal(found[len(expected) :], len(mask))
