import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfagents_batch.ops import returns, td


def test_the_value_of_the_chosen_action_is_selected():
    q = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    np.testing.assert_array_equal(td.chosen(q, tf.constant([2, 0])), [3, 4])


def test_the_target_has_no_value_behind_a_terminal_state():
    reward, factor = tf.constant([5.0, 1.0]), tf.constant([0.0, 0.5])
    found = td.target(reward, factor, tf.constant([np.nan, 10.0]))
    np.testing.assert_array_equal(found, [5, 6])
    found = td.target(reward, factor, tf.constant([[np.nan, 1.0], [10.0, 2.0]]))
    np.testing.assert_array_equal(found, [[5, 5], [6, 2]])


def test_no_gradient_flows_into_the_target():
    value = tf.constant([2.0])
    with tf.GradientTape() as tape:
        tape.watch(value)
        loss = tf.reduce_sum(td.target(tf.ones([1]), tf.ones([1]), value))
    assert tape.gradient(loss, value) is None


@pytest.mark.parametrize(
    "kind, expected",
    [("squared", (0.125 + 2 * 2) / 2), ("huber", (0.125 + 2 * 1.5) / 2)],
)
def test_losses_are_weighted_means_over_the_mask(kind, expected):
    error = tf.constant([0.5, -2.0, np.nan])
    mask, weight = tf.constant([True, True, False]), tf.constant([1.0, 2.0, 1.0])
    losses = td.error_loss(error, kind)
    assert float(td.loss(losses, mask, weight)) == pytest.approx(expected)


def test_the_gradient_of_the_huber_loss_is_the_clipped_error():
    error = tf.constant([0.5, -2.0, 7.0, 0.0])
    with tf.GradientTape() as tape:
        tape.watch(error)
        loss = tf.reduce_sum(td.error_loss(error))
    np.testing.assert_allclose(tape.gradient(loss, error), [0.5, -1, 1, 0])


def test_a_soft_policy_gives_the_log_sum_of_values():
    q = tf.constant([[1.0, 2.0, 9.0], [0.5, 0.5, -3.0]])
    valid = tf.constant([[True, True, False], [True, True, True]])
    values, chance = td.soft_returns(
        q[..., tf.newaxis], tf.ones([2, 3, 1]), q, 0.3, valid
    )
    # sum_a pi (q - tau ln pi) = tau ln sum_a exp(q / tau)
    expected = [0.3 * np.logaddexp(1 / 0.3, 2 / 0.3)]
    expected += [0.3 * np.log(np.sum(np.exp(np.array(q[1]) / 0.3)))]
    np.testing.assert_allclose(tf.reduce_sum(values * chance, -1), expected, rtol=1e-5)
    np.testing.assert_allclose(tf.reduce_sum(chance, -1), 1, rtol=1e-5)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 5), st.integers(0, 10_000))
def test_n_step_sums_and_the_value_of_one_state_give_n_step_returns(n, seed):
    random = np.random.default_rng(seed)
    shape = (n, 7)
    reward = tf.constant(random.normal(size=shape), tf.float32)
    terminal, cut = random.random((2, *shape)) < 0.2
    discount = tf.constant(np.where(terminal, 0, 0.9), tf.float32)
    # A state that ends its episode is followed by a masked transition.
    ended = np.vstack([random.random((1, 7)) < 0.1, (terminal | cut)[:-1]])
    mask = tf.constant(~ended)
    value = tf.constant(random.normal(size=(n + 1, 7)), tf.float32)
    expected = returns.n_step(reward, discount, value, n, mask)[0]
    total, factor, reached = returns.n_step_sum(reward, discount, mask)
    found = total + factor * value.numpy()[reached, np.arange(7)]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_the_conservative_gap_is_large_where_other_valid_actions_have_large_values():
    q, valid = tf.constant([[0.0, 9.0, 50.0]] * 2), [[True, True, False]] * 2
    found = td.conservative_gap(q, tf.constant([0, 1]), tf.constant(valid))
    np.testing.assert_allclose(found, np.log1p(np.exp(9.0)) - [0, 9], atol=1e-5)
