"""Returns against slow loops over single streams, written from the definitions."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfagents_batch.ops import returns

NAN = float("nan")


def block(seed, time=None, batch=3):
    """Return random rewards, discounts, values and masks with ends and restarts."""
    rng = np.random.default_rng(seed)
    time = time or int(rng.integers(1, 14))
    terminated = rng.random((time, batch)) < 0.15
    truncated = rng.random((time, batch)) < 0.15
    mask = np.ones((time, batch), bool)
    for t in range(1, time):
        ended = (terminated | truncated)[t - 1] & mask[t - 1]
        mask[t] = ~ended
        terminated[t] &= mask[t]
    reward = np.where(mask, rng.normal(size=(time, batch)), 0)
    discount = 0.9 * ~terminated
    value = rng.normal(size=(time + 1, batch))
    return (*(x.astype(np.float32) for x in (reward, discount, value)), mask)


def recursion(reward, discount, value, mask, lambda_):
    """Return G_t: V(s_t) at a restart, else the recursion of the lambda return."""
    result = np.array(value, np.float64)
    for t in reversed(range(len(reward))):
        follow = (1 - lambda_) * value[t + 1] + lambda_ * result[t + 1]
        result[t] = np.where(mask[t], reward[t] + discount[t] * follow, value[t])
    return result[:-1]


def slow_n_step(reward, discount, value, n, mask):
    time, batch = reward.shape
    result = np.zeros((time, batch))
    for start in range(time):
        for b in range(batch):
            t, weight = start, 1.0
            while t < min(start + n, time) and mask[t, b]:
                result[start, b] += weight * reward[t, b]
                weight *= discount[t, b]
                t += 1
            result[start, b] += weight * value[t, b]
    return result


def tensors(*arrays):
    return [tf.constant(array) for array in arrays]


def test_gae_of_three_steps_by_hand():
    reward, discount, value, mask = tensors(
        [[1.0], [2.0], [3.0]],
        [[0.5], [0.5], [0.0]],
        [[10.0], [20.0], [30.0], [NAN]],  # the value of a terminal state is not read
        [[True], [True], [True]],
    )
    # deltas: 1 + 10 - 10 = 1; 2 + 15 - 20 = -3; 3 + 0 - 30 = -27
    result = returns.gae(reward, discount, value, 0.5, mask)
    np.testing.assert_allclose(result[:, 0], [1 - 0.25 * 9.75, -9.75, -27])


def test_truncation_bootstraps_the_last_state_and_nothing_after_it():
    reward, discount, value, mask = tensors(
        [[1.0], [1.0], [0.0], [100.0]],
        [[0.5], [0.5], [0.5], [0.5]],
        [[7.0], [7.0], [8.0], [1000.0], [1000.0]],
        [[True], [True], [False], [True]],  # s_2 was cut off; a_2 restarts
    )
    result = returns.discounted(reward, discount, value, mask)
    np.testing.assert_allclose(result[:3, 0], [1 + 0.5 * 5, 1 + 0.5 * 8, 8])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 1))
def test_lambda_returns_gae_and_discounted_returns_follow_the_recursion(seed, lambda_):
    reward, discount, value, mask = data = block(seed)
    close = {"rtol": 1e-4, "atol": 1e-5}
    expected = recursion(*data, lambda_)
    target = returns.lambda_return(*tensors(reward, discount, value), lambda_, mask)
    np.testing.assert_allclose(target, expected, **close)
    advantage = returns.gae(*tensors(reward, discount, value), lambda_, mask)
    np.testing.assert_allclose(advantage, mask * (expected - value[:-1]), **close)
    total = returns.discounted(*tensors(*data))
    np.testing.assert_allclose(total, recursion(*data, 1.0), **close)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 20))
def test_n_step_returns_equal_sums_of_n_rewards(seed, n):
    reward, discount, value, mask = block(seed)
    result = returns.n_step(*tensors(reward, discount, value), n, tf.constant(mask))
    expected = slow_n_step(reward, discount, value, n, mask)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_an_empty_window_is_refused():
    with pytest.raises(ValueError, match="n=0"):
        returns.n_step(*tensors(*block(0)[:3]), 0, tf.constant(block(0)[3]))


def everything(reward, discount, value, mask):
    return [
        returns.discounted(reward, discount, value, mask),
        returns.n_step(reward, discount, value, 3, mask),
        returns.lambda_return(reward, discount, value, 0.9, mask),
        returns.gae(reward, discount, value, 0.9, mask),
    ]


def test_padding_and_nan_after_an_end_change_nothing():
    reward, discount, value, mask = block(3, 9)
    mask[8] = False
    clean = everything(*tensors(reward, discount, value, mask))
    pad = ((0, 4), (0, 0))
    mask = np.pad(mask, pad)
    poisoned = everything(
        *tensors(
            np.pad(reward, pad, constant_values=NAN),
            np.pad(discount, pad, constant_values=NAN),
            np.pad(value, pad, constant_values=NAN),
            mask,
        )
    )
    for x, y in zip(clean, poisoned, strict=True):
        np.testing.assert_allclose(y[:8], x[:8], rtol=1e-6, atol=1e-6)


def test_no_gradient_flows_through_any_result():
    inputs = tensors(*block(4, 6))
    with tf.GradientTape(persistent=True) as tape:
        watched = inputs[:3]
        tape.watch(watched)
        results = everything(*inputs)
    for result in results:
        assert tape.gradient(result, watched) == [None] * 3


def test_compiled_and_eager_agree():
    inputs = tensors(*block(6, 21, 4))
    compiled = tf.function(everything, jit_compile=True, autograph=False)
    for x, y in zip(everything(*inputs), compiled(*inputs), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("time", [1, 2, 127, 128, 1000])
def test_long_undiscounted_sums_keep_their_precision(time):
    rng = np.random.default_rng(0)
    reward = (1 + rng.random((time, 2))).astype(np.float32)
    ones, value = np.ones_like(reward), np.ones((time + 1, 2), np.float32)
    mask = np.ones((time, 2), bool)
    total = returns.discounted(*tensors(reward, ones, value, mask))
    exact = np.cumsum(reward[::-1].astype(np.float64), 0)[::-1] + 1
    np.testing.assert_allclose(total, exact, rtol=1e-4)
    advantage = returns.gae(*tensors(reward, ones, value), 1.0, mask)
    np.testing.assert_allclose(advantage, exact - 1, rtol=1e-4)


def slow_vtrace(reward, discount, value, ratio, mask, rho_max, c_max, lambda_):
    """Return advantages and targets by the recursion of Espeholt et al. 2018."""
    rho, c = np.minimum(ratio, rho_max), lambda_ * np.minimum(ratio, c_max)
    target, advantage = np.array(value, np.float64), np.zeros(reward.shape)
    for t in reversed(range(len(reward))):
        change = target[t + 1] - value[t + 1]
        delta = rho[t] * (reward[t] + discount[t] * value[t + 1] - value[t])
        new = value[t] + delta + discount[t] * c[t] * change
        mixed = value[t + 1] + lambda_ * change
        gain = rho[t] * (reward[t] + discount[t] * mixed - value[t])
        target[t] = np.where(mask[t], new, value[t])
        advantage[t] = np.where(mask[t], gain, 0)
    return advantage, target[:-1]


@given(st.integers(0, 2**31), st.floats(0.5, 2), st.floats(0.5, 2), st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_vtrace_is_its_slow_recursion(seed, rho_max, c_max, lambda_):
    reward, discount, value, mask = block(seed)
    log_ratio = np.random.default_rng(seed).normal(size=mask.shape).astype(np.float32)
    limits = {"rho_max": rho_max, "c_max": c_max, "lambda_": lambda_}
    found = returns.vtrace(*tensors(reward, discount, value, log_ratio, mask), **limits)
    ratio = np.exp(log_ratio)
    expected = slow_vtrace(reward, discount, value, ratio, mask, **limits)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
    plain, _ = returns.vtrace(
        *tensors(reward, discount, value, log_ratio, mask), **limits, weighted=False
    )
    weighted = np.where(mask, np.minimum(ratio, rho_max) * plain, 0)
    np.testing.assert_allclose(weighted, expected[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lambda_", [0.0, 0.7, 1.0])
def test_vtrace_of_equal_policies_is_gae_and_the_lambda_return(lambda_):
    for seed in range(5):
        reward, discount, value, mask = tensors(*block(seed, time=9))
        zeros = tf.zeros_like(reward)
        advantage, target = returns.vtrace(
            reward, discount, value, zeros, mask, lambda_=lambda_
        )
        common = reward, discount, value, lambda_, mask
        np.testing.assert_allclose(advantage, returns.gae(*common), atol=1e-6)
        np.testing.assert_allclose(target, returns.lambda_return(*common), atol=1e-6)


def test_vtrace_is_finite_for_masked_nan_and_enormous_ratios():
    reward, discount, value, mask = block(3, time=9)
    assert not mask.all()
    reward = np.where(mask, reward, NAN)
    log_ratio = np.where(mask, np.float32(1e4), np.float32(NAN))
    found = returns.vtrace(*tensors(reward, discount, value, log_ratio, mask))
    assert all(np.isfinite(x).all() for x in found)


def factors(seed, time, ends=0.2):
    """Return factors in [-1, 1], of which some are 0, and terms."""
    random = np.random.default_rng(seed)
    factor = random.uniform(-1, 1, (time, 3)) * (random.random((time, 3)) >= ends)
    return factor.astype(np.float32), random.normal(size=(time, 3)).astype(np.float32)


def in_turn(factor, term):
    """Return y_t = term_t + factor_t y_{t+1} by a loop over the steps, in float64."""
    y = np.zeros((len(term) + 1, *term.shape[1:]))
    for t in reversed(range(len(term))):
        y[t] = term[t] + factor[t].astype(np.float64) * y[t + 1]
    return y[:-1]


def in_rounds(factor, term, start, n):
    """Return y after n rounds y_t <- term_t + factor_t y_{t+1}, in float64."""
    y = start.astype(np.float64)
    for _ in range(n):
        y = term + factor * np.concatenate([y[1:], np.zeros_like(y[:1])])
    return y


@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])
@pytest.mark.parametrize("time", [1, 2, 3, 16, 33])
def test_all_steps_at_once_equal_a_loop_over_the_steps(time, jit_compile):
    run = tf.function(returns.reverse_linear, jit_compile=jit_compile, autograph=False)
    for ends in (0, 0.3, 1):
        factor, term = factors(time, time, ends)
        found = run(tf.constant(factor), tf.constant(term))
        np.testing.assert_allclose(found, in_turn(factor, term), rtol=1e-5, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(1, 25))
def test_n_rounds_from_a_start_equal_n_passes_over_the_steps(seed, time, n):
    factor, term = factors(seed, time)
    start = factors(seed + 1, time)[1]
    found = returns.reverse_linear(*map(tf.constant, (factor, term, start)), n)
    expected = in_rounds(factor, term, start, n)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 20), st.data())
def test_nothing_passes_a_factor_of_zero(seed, time, data):
    end = data.draw(st.integers(0, time - 2))
    factor, term = factors(seed, time)
    factor[end] = 0
    clean = returns.reverse_linear(tf.constant(factor), tf.constant(term))
    term[end + 1 :] = np.nan
    found = returns.reverse_linear(tf.constant(factor), tf.constant(term))
    np.testing.assert_array_equal(found[: end + 1], clean[: end + 1])
