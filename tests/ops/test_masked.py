import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfagents_batch.ops import masked

NAN = float("nan")


def compiled(function, *args):
    return tf.function(function, jit_compile=True, autograph=False)(*args)


def test_statistics_use_only_valid_entries():
    x = tf.constant([[1.0, NAN], [3.0, 8.0], [np.inf, -NAN]])
    mask = tf.constant([[True, False], [True, True], [False, False]])
    mean, variance = masked.moments(x, mask)
    assert float(masked.sum(x, mask)) == 12.0
    assert float(masked.mean(x, mask)) == 4.0
    assert float(mean) == 4.0
    assert float(variance) == pytest.approx((9 + 1 + 16) / 3)


def test_a_mask_of_leading_axes_covers_the_trailing_axes():
    x = tf.constant([[1.0, 2.0, 6.0], [NAN, NAN, NAN]])
    assert float(masked.mean(x, tf.constant([True, False]))) == 3.0
    np.testing.assert_array_equal(
        masked.safe(x, tf.constant([True, False]), 7.0), [[1, 2, 6], [7, 7, 7]]
    )


@pytest.mark.parametrize("run", [lambda f, *a: f(*a), compiled])
def test_without_valid_entries_everything_is_zero(run):
    x, mask = tf.constant([NAN, 2.0]), tf.constant([False, False])
    assert float(run(masked.mean, x, mask)) == 0.0
    assert [float(m) for m in run(masked.moments, x, mask)] == [0.0, 0.0]
    np.testing.assert_array_equal(
        run(lambda x, m: masked.standardize(x, m, 1e-8), x, mask), [0, 0]
    )


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(-1e3, 1e3, width=32), st.booleans()), min_size=1, max_size=9
    )
)
def test_standardized_entries_have_mean_0_and_std_1(pairs):
    x = np.array([pair[0] for pair in pairs], np.float32)
    mask = np.array([pair[1] for pair in pairs])
    result = masked.standardize(tf.constant(x), tf.constant(mask), 1e-3).numpy()
    valid = x[mask].astype(np.float64)
    assert not result[~mask].any()
    if valid.size:
        expected = (valid - valid.mean()) / max(valid.std(), 1e-3)
        np.testing.assert_allclose(result[mask], expected, rtol=1e-3, atol=2e-3)


def test_rescaled_entries_have_a_mean_square_of_1_and_keep_their_signs():
    x, mask = tf.constant([3.0, 4.0, NAN]), tf.constant([True, True, False])
    root = np.sqrt(12.5)
    np.testing.assert_allclose(masked.rescale(x, mask, 1e-8), [3 / root, 4 / root, 0])
    np.testing.assert_array_equal(masked.rescale(0 * x, mask, 1e-8), [0, 0, 0])


@pytest.mark.parametrize("constant", [0.1, 1e6 + 0.1, -3e-7])
def test_equal_entries_have_no_variance_despite_rounding(constant):
    x, mask = tf.fill([1000], tf.constant(constant)), tf.fill([1000], True)
    assert float(masked.moments(x, mask)[1]) < 1e-12 * constant**2
    assert float(tf.reduce_max(tf.abs(masked.standardize(x, mask, 1e-8)))) < 1e-3


def test_masked_nan_reaches_no_gradient():
    x = tf.constant([1.0, NAN, 4.0])
    mask = tf.constant([True, False, True])
    for function in (
        lambda: masked.mean(x, mask),
        lambda: masked.moments(x, mask)[1],
        lambda: masked.standardize(x, mask, 1e-8)[0],
        lambda: tf.reduce_sum(tf.math.log(masked.safe(x, mask, 1.0))),
    ):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function()
        gradient = tape.gradient(y, x).numpy()
        assert np.isfinite(gradient).all() and gradient[1] == 0


def test_standardize_of_equal_entries_has_a_finite_gradient():
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = masked.standardize(x, tf.constant([True, True]), 1e-3)[0]
        return tape.gradient(y, x)

    x = tf.constant([2.0, 2.0])
    for result in (gradient(x), compiled(gradient, x)):
        np.testing.assert_allclose(result, [500.0, -500.0], rtol=1e-5)


def test_invalid_logits_have_probability_exactly_zero():
    logits = tf.constant([[50.0, -50.0, 0.0], [1.0, 2.0, 3.0]])
    mask = np.array([[0, 1, 1], [0, 0, 0]], np.int8)
    result = masked.logits(logits, tf.constant(mask))
    assert np.isfinite(result).all()
    assert tf.nn.softmax(result)[0, 0] == 0.0
    np.testing.assert_array_equal(result[1], logits[1])  # no valid one: all are valid


def test_means_over_time_are_computed_per_column():
    x = tf.constant([[1.0, np.nan, 5.0], [3.0, 4.0, np.inf]])
    mask = tf.constant([[True, False, False], [True, True, False]])
    np.testing.assert_array_equal(masked.mean_over_time(x, mask), [2, 4, 0])
