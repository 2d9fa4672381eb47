"""Distributions against those of TensorFlow Probability."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.ops import distributions as ds
from tfagents_batch.ops.gaussian import log_upper_tail

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tensorflow_probability import bijectors as tfb
    from tensorflow_probability import distributions as tfd

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(0)


def normal(*shape):
    return tf.constant(RNG.normal(size=shape), tf.float32)


def positive(*shape):
    return tf.constant(0.2 + RNG.random(shape), tf.float32)


def flat_blockwise(logits, nvec):
    parts = tf.split(logits, nvec, -1)
    return tfd.JointDistributionSequential([tfd.Categorical(part) for part in parts])


CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def agree(ours, theirs, action):
    (p, q), (p_, q_) = ours, theirs
    np.testing.assert_allclose(p.log_prob(action), p_.log_prob(action), **CLOSE)
    np.testing.assert_allclose(p.entropy(), p_.entropy(), **CLOSE)
    np.testing.assert_allclose(p.kl(q), p_.kl_divergence(q_), **CLOSE)


def test_categorical_agrees_with_tensorflow_probability():
    logits = [3 * normal(6, 5) for _ in range(2)]
    ours = [ds.Categorical(x) for x in logits]
    theirs = [tfd.Categorical(x) for x in logits]
    agree(ours, theirs, tf.constant([0, 1, 2, 3, 4, 4]))
    np.testing.assert_array_equal(ours[0].mode(), theirs[0].mode())
    expected = theirs[0].probs_parameter()
    np.testing.assert_allclose(ours[0].probabilities(), expected, **CLOSE)


@pytest.mark.parametrize("nvec", [[2, 4, 3], [3, 3]])
def test_multi_categorical_agrees_with_tensorflow_probability(nvec):
    logits = [3 * normal(6, sum(nvec)) for _ in range(2)]
    p, q = (ds.MultiCategorical(x, nvec) for x in logits)
    p_, q_ = (flat_blockwise(x, nvec) for x in logits)
    action = np.stack([RNG.integers(0, n, 6) for n in nvec], -1).astype(np.int32)
    parts = list(np.moveaxis(action, -1, 0))
    log_prob = p.log_prob(tf.constant(action))
    np.testing.assert_allclose(log_prob, p_.log_prob(parts), **CLOSE)
    pairs = list(zip(p_.model, q_.model, strict=True))
    entropy = sum(a.entropy() for a, _ in pairs)
    np.testing.assert_allclose(p.entropy(), entropy, **CLOSE)
    kl = sum(a.kl_divergence(b) for a, b in pairs)
    np.testing.assert_allclose(p.kl(q), kl, **CLOSE)
    mode = np.stack([a.mode() for a, _ in pairs], -1)
    np.testing.assert_array_equal(p.mode(), mode)


def test_bernoulli_agrees_with_tensorflow_probability():
    logits = [3 * normal(6, 4) for _ in range(2)]
    ours = [ds.Bernoulli(x) for x in logits]
    theirs = [tfd.Independent(tfd.Bernoulli(x), 1) for x in logits]
    agree(ours, theirs, tf.constant(RNG.integers(0, 2, (6, 4)), tf.int32))


@pytest.mark.parametrize("event_ndims", [0, 1, 2])
def test_diag_normal_agrees_with_tensorflow_probability(event_ndims):
    params = [(normal(6, 2, 3), positive(6, 2, 3)) for _ in range(2)]
    ours = [ds.DiagNormal(*p, event_ndims) for p in params]
    theirs = [tfd.Independent(tfd.Normal(*p), event_ndims) for p in params]
    agree(ours, theirs, normal(6, 2, 3))


def squashed(mean, std, low, high):
    scale = tfb.Chain([tfb.Shift((low + high) / 2), tfb.Scale((high - low) / 2)])
    bijector = tfb.Chain([scale, tfb.Tanh()])
    return tfd.Independent(tfd.TransformedDistribution(tfd.Normal(mean, std), bijector))


def test_tanh_normal_density_agrees_with_tensorflow_probability():
    low, high = np.float32([-1, 0]), np.float32([1, 5])
    params = normal(6, 2), positive(6, 2)
    ours, theirs = ds.TanhNormal(*params, low, high), squashed(*params, low, high)
    action = ours.sample(ds.normal_noise((6, 2), 0))
    np.testing.assert_allclose(
        ours.log_prob(action), theirs.log_prob(action), rtol=1e-3, atol=1e-3
    )


def test_the_upper_tail_of_a_normal_agrees_with_tensorflow_probability():
    z = np.linspace(-8, 40, 481)
    expected = tfd.Normal(0.0 * z, 1).log_survival_function(z)
    for jit in (False, True):
        tail = tf.function(log_upper_tail, jit_compile=jit, autograph=False)
        found = tail(tf.constant(z, tf.float32))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=2e-7)


def test_gradients_of_kl_agree_with_tensorflow_probability():
    std = positive(4, 3)
    for ours, theirs in [
        (lambda x: ds.Categorical(x), lambda x: tfd.Categorical(x)),
        (lambda x: ds.Bernoulli(x), lambda x: tfd.Independent(tfd.Bernoulli(x), 1)),
        (
            lambda x: ds.DiagNormal(x, std),
            lambda x: tfd.Independent(tfd.Normal(x, std), 1),
        ),
    ]:
        x, y = normal(4, 3), normal(4, 3)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([x, y])
            mine = ours(x).kl(ours(y))
            other = theirs(x).kl_divergence(theirs(y))
        for mine_, other_ in zip(
            tape.gradient(mine, [x, y]), tape.gradient(other, [x, y]), strict=True
        ):
            np.testing.assert_allclose(mine_, other_, rtol=1e-3, atol=1e-5)
