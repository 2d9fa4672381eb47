"""The sum tree compared with a list, and importance weights with their formula."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfagents_batch import seeds
from tfagents_batch.sources import prioritized

TREES = {size: prioritized.SumTree(size) for size in (5, 16, 300)}
compiled = tf.function(
    lambda tree, index, weight: tree.write(index, weight),
    jit_compile=True,
    autograph=False,
)


@pytest.mark.parametrize("size", sorted(TREES))
@given(data=st.data())
@settings(deadline=None, max_examples=20)
def test_the_tree_is_the_list_of_its_weights(size, data):
    tree, weights = TREES[size], np.zeros(size, np.float32)
    for level in tree.named_variables().values():
        level.assign(tf.zeros_like(level))
    pairs = st.tuples(st.integers(0, size - 1), st.integers(0, 9))
    for _ in range(3):
        drawn = data.draw(st.lists(pairs, min_size=4, max_size=4))
        index, weight = (np.array(x) for x in zip(*drawn, strict=True))
        compiled(tree, tf.constant(index, tf.int32), tf.constant(weight, tf.float32))
        for i, w in drawn:
            weights[i] = w
    total = weights.sum()
    assert float(tree.total()) == total
    np.testing.assert_array_equal(tree.read(tf.range(size)), weights)
    if total:
        part = (np.arange(int(total)) + 0.5) / total
        expected = np.searchsorted(np.cumsum(weights), part * total, side="right")
        np.testing.assert_array_equal(tree.find(tf.constant(part)), expected)


def test_a_part_of_almost_1_finds_the_last_leaf_with_a_weight():
    tree = prioritized.SumTree(300)
    tree.write(tf.constant([3, 40, 270]), tf.constant([0.1, 1e-6, 0.7]))
    part = tf.constant([0.0, 1 - 2.0**-40, 1 - 2.0**-53], tf.float64)
    np.testing.assert_array_equal(tree.find(part), [3, 270, 270])


def test_strata_have_one_number_each():
    found = prioritized.strata(50, seeds.key(3, "test")).numpy()
    np.testing.assert_array_equal(np.floor(found * 50), range(50))


def test_importance_weights_are_those_of_the_formula():
    weight, valid = np.array([1, 4, 2, 0], np.float32), [True, True, True, False]
    found = prioritized.importance(
        tf.constant(weight), tf.constant(20.0), tf.constant(6), tf.constant(0.7), valid
    )
    expected = (6 * weight[:3] / 20) ** -0.7
    np.testing.assert_allclose(found, [*expected / expected.max(), 0], rtol=1e-6)


def test_integers_are_exact_and_cover_large_ranges_evenly():
    high = 10**7 + 3
    found = seeds.indices(100_000, seeds.key(1, "test"), tf.constant(high)).numpy()
    assert found.min() >= 0 and found.max() < high
    counts = np.bincount(found * np.int64(10) // high, minlength=10)
    assert (abs(counts - 10_000) < 500).all()
    assert len({*(found % 2)}) == 2
    small = seeds.indices(100, seeds.key(1, "test"), tf.constant(1)).numpy()
    assert not small.any()
