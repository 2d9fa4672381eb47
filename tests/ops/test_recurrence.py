"""The recurrence of all steps at once against loops over the steps."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfagents_batch.ops import returns


def block(seed, time, ends=0.2):
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
        factor, term = block(time, time, ends)
        found = run(tf.constant(factor), tf.constant(term))
        np.testing.assert_allclose(found, in_turn(factor, term), rtol=1e-5, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(1, 25))
def test_n_rounds_from_a_start_equal_n_passes_over_the_steps(seed, time, n):
    factor, term = block(seed, time)
    start = block(seed + 1, time)[1]
    found = returns.reverse_linear(*map(tf.constant, (factor, term, start)), n)
    expected = in_rounds(factor, term, start, n)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 20), st.data())
def test_nothing_passes_a_factor_of_zero(seed, time, data):
    end = data.draw(st.integers(0, time - 2))
    factor, term = block(seed, time)
    factor[end] = 0
    clean = returns.reverse_linear(tf.constant(factor), tf.constant(term))
    term[end + 1 :] = np.nan
    found = returns.reverse_linear(tf.constant(factor), tf.constant(term))
    np.testing.assert_array_equal(found[: end + 1], clean[: end + 1])
