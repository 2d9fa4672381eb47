import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfagents_batch.nn.normalizers import Moments


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=5),
    offset=st.sampled_from([0.0, 1e6]),
)
def test_any_split_into_batches_gives_the_moments_of_numpy(seed, sizes, offset):
    random = np.random.default_rng(seed)
    batches = [offset + random.normal(size=(n, 3)) for n in sizes]
    moments = Moments([3])
    for x in batches:
        moments.update(tf.constant(x), tf.ones([len(x)], tf.bool))
    x = np.concatenate(batches)
    np.testing.assert_allclose(moments.mean, x.mean(0), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        moments.sum_of_squares, np.square(x - x.mean(0)).sum(0), rtol=1e-8, atol=1e-9
    )


def test_masked_samples_do_not_count_even_when_nan():
    moments = Moments([])
    x = tf.constant([1.0, np.nan, 3.0, 100.0])
    moments.update(x, tf.constant([True, False, True, False]))
    assert float(moments.count) == 2
    assert float(moments.mean) == 2
    assert float(moments.std()) == pytest.approx(np.std([1, 3], ddof=1))


def test_an_empty_batch_changes_nothing():
    moments = Moments([2])
    moments.update(tf.ones([4, 2]), tf.ones([4], tf.bool))
    before = [x.numpy() for x in moments.named_variables().values()]
    moments.update(tf.ones([4, 2]) * 7, tf.zeros([4], tf.bool))
    for a, b in zip(before, moments.named_variables().values(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_std_is_one_below_two_samples_and_has_a_floor_above():
    moments = Moments([])
    assert float(moments.std()) == 1
    moments.update(tf.constant([5.0]), tf.constant([True]))
    assert float(moments.std()) == 1
    moments.update(tf.constant([5.0]), tf.constant([True]))
    assert float(moments.std(floor=1e-3)) == pytest.approx(1e-3)


def test_an_epsilon_is_added_to_the_variance_as_batch_ppo_does():
    moments = Moments([])
    moments.update(tf.constant([1.0, 3.0]), tf.ones([2], tf.bool))
    assert float(moments.std(epsilon=7.0)) == pytest.approx(3)
    moments = Moments([])
    moments.update(tf.ones([5]), tf.ones([5], tf.bool))
    assert float(moments.std(epsilon=1e-4)) == pytest.approx(0.01)
    assert float(moments.scale(epsilon=1e-4)) == 1  # equal samples are not scaled


def test_compiled_and_eager_updates_agree():
    plain, compiled = Moments([3]), Moments([3])
    x, mask = tf.random.stateless_normal([5, 4, 3], [1, 2]), tf.ones([5, 4], tf.bool)
    plain.update(x, mask)
    tf.function(compiled.update, jit_compile=True)(x, mask)
    np.testing.assert_allclose(
        plain.sum_of_squares, compiled.sum_of_squares, rtol=1e-12
    )


def test_equal_rewards_are_divided_by_one():
    moments = Moments([])
    assert float(moments.scale()) == 1
    moments.update(tf.constant([0.1] * 5), tf.ones([5], tf.bool))
    assert float(moments.scale()) == 1
    moments.update(tf.constant([0.3]), tf.constant([True]))
    assert float(moments.scale()) == float(moments.std()) < 1


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_rewards_that_differ_by_rounding_are_equal(unit):
    moments = Moments([])
    reward = unit * tf.constant([1.0, 1 + 2**-23, 1 - 2**-24])
    moments.update(reward, tf.ones([3], tf.bool))
    assert float(moments.scale()) == 1
