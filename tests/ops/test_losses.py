import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.ops import losses

NAN = float("nan")
ALL = tf.constant([True, True])


def gradients(function, *inputs):
    inputs = [tf.constant(x) for x in inputs]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = function(*inputs)
    return float(loss), tape.gradient(loss, inputs)


def test_importance_surrogate_is_the_mean_of_ratio_times_advantage():
    loss, (score, behavior, advantage) = gradients(
        lambda p, b, a: losses.importance_surrogate(p, b, a, ALL),
        np.float32(np.log([0.4, 0.1])),
        np.float32(np.log([0.2, 0.2])),
        [1.0, -3.0],
    )
    assert loss == pytest.approx(-(2 * 1 - 0.5 * 3) / 2)
    np.testing.assert_allclose(score, [-1.0, 0.75], rtol=1e-6)
    assert behavior is None and advantage is None


@pytest.mark.parametrize(
    ("ratio", "advantage", "value", "flows"),
    [
        (1.5, 2.0, 1.2 * 2, False),  # a larger ratio would not reduce the loss
        (1.5, -2.0, 1.5 * -2, True),  # the ratio has to decrease
        (0.5, 2.0, 0.5 * 2, True),
        (0.5, -2.0, 0.8 * -2, False),
        (1.1, 2.0, 1.1 * 2, True),
    ],
)
def test_clipped_surrogate_takes_the_pessimistic_side(ratio, advantage, value, flows):
    def loss(log_prob):
        return losses.clipped_surrogate(
            log_prob, tf.zeros([1]), tf.constant([advantage]), 0.2, ALL[:1]
        ).loss

    result, (gradient,) = gradients(loss, np.float32([np.log(ratio)]))
    assert result == pytest.approx(-value, rel=1e-5)
    expected = -ratio * advantage if flows else 0.0
    np.testing.assert_allclose(gradient, [expected], rtol=1e-5)


def test_clip_fraction_counts_valid_rows_outside():
    ratio = tf.constant([1.5, 1.1, 0.7, 9.0])
    result = losses.clipped_surrogate(
        tf.math.log(ratio),
        tf.zeros([4]),
        tf.ones([4]),
        0.2,
        tf.constant([True, True, True, False]),
    )
    assert float(result.clip_fraction) == pytest.approx(2 / 3)


def test_value_loss_is_half_the_squared_error():
    loss, (prediction, target) = gradients(
        lambda v, g: losses.value(v, g, ALL), [1.0, 5.0], [3.0, 4.0]
    )
    assert loss == pytest.approx((4 + 1) / 4)
    np.testing.assert_allclose(prediction, [-1.0, 0.5])
    assert target is None


def test_value_clipping_takes_the_larger_error():
    loss, (prediction, old) = gradients(
        lambda v, old: losses.value(v, tf.constant([3.0, 0.0]), ALL, old, 0.5),
        [2.0, 2.0],
        [0.0, 1.0],
    )
    # 2 -> 0.5: error 2.5 instead of 1; 2 -> 1.5: error 2 instead of 1.5
    assert loss == pytest.approx((2.5**2 + 2**2) / 4)
    np.testing.assert_allclose(prediction, [0.0, 1.0])
    assert old is None


def test_value_clipping_needs_old_values():
    with pytest.raises(ValueError, match="old_value"):
        losses.value(tf.ones([2]), tf.ones([2]), ALL, clip=0.1)


def test_entropy_bonus_rewards_entropy():
    loss, (gradient,) = gradients(
        lambda h: losses.entropy_bonus(h, 0.1, ALL), [1.0, 3.0]
    )
    assert loss == pytest.approx(-0.2)
    np.testing.assert_allclose(gradient, [-0.05, -0.05])


def test_approx_kl_is_unbiased_and_never_negative():
    rng = np.random.default_rng(0)
    behavior, policy = np.array([0.7, 0.2, 0.1]), np.array([0.5, 0.2, 0.3])
    action = rng.choice(3, 200_000, p=behavior)
    log_prob, recorded = np.log(policy)[action], np.log(behavior)[action]
    estimate = losses.approx_kl(
        tf.constant(np.float32(log_prob)),
        tf.constant(np.float32(recorded)),
        tf.fill([len(action)], True),
    )
    exact = np.sum(behavior * np.log(behavior / policy))
    assert float(estimate) == pytest.approx(exact, rel=0.02)
    one = losses.approx_kl(tf.constant([1e-3, -0.5]), tf.zeros([2]), ALL)
    assert float(one) > 0


def test_explained_variance_of_known_predictions():
    target = tf.constant([1.0, 2.0, 3.0, NAN])
    mask = tf.constant([True, True, True, False])

    def explained(prediction):
        return float(losses.explained_variance(tf.constant(prediction), target, mask))

    assert explained([1.0, 2.0, 3.0, 9.0]) == 1.0
    assert explained([6.0, 7.0, 8.0, 9.0]) == 1.0  # an offset has no variance
    assert explained([2.0, 2.0, 2.0, 9.0]) == pytest.approx(0.0)
    assert explained([3.0, 2.0, 1.0, 9.0]) == pytest.approx(-3.0)
    flat = losses.explained_variance(tf.ones([2]), tf.ones([2]), ALL)
    assert float(flat) == 0.0


def surrogates(log_prob, behavior, advantage, mask):
    return (
        losses.importance_surrogate(log_prob, behavior, advantage, mask)
        + losses.clipped_surrogate(log_prob, behavior, advantage, 0.2, mask).loss
        + losses.value(log_prob, advantage, mask, behavior, 0.1)
        + losses.entropy_bonus(log_prob, 0.1, mask)
    )


@pytest.mark.parametrize("poison", [NAN, np.inf, -np.inf])
@pytest.mark.parametrize("where", [0, 1, 2])
def test_masked_nan_reaches_neither_loss_nor_gradient(poison, where):
    columns = [[-0.1, -0.2], [-0.3, -0.1], [1.0, 2.0]]
    mask = tf.constant([True, False])
    clean = gradients(lambda x, b, a: surrogates(x, b, a, mask), *columns)
    columns[where][1] = poison
    loss, (gradient, _, _) = gradients(
        lambda x, b, a: surrogates(x, b, a, mask), *columns
    )
    assert loss == clean[0]
    np.testing.assert_array_equal(gradient, clean[1][0])
    assert gradient[1] == 0


def test_an_empty_mask_gives_no_loss_and_no_gradient():
    mask = tf.constant([False, False])
    loss, (gradient, _, _) = gradients(
        lambda x, b, a: surrogates(x, b, a, mask), [1.0, NAN], [1.0, 1.0], [1.0, 1.0]
    )
    assert loss == 0 and not np.any(gradient)


def test_an_extreme_ratio_gives_a_finite_loss_and_gradient():
    loss, (gradient, _, _) = gradients(
        lambda x, b, a: surrogates(x, b, a, ALL), [500.0, 0.0], [-500.0, 0.0], [-1.0, 0]
    )
    assert np.isfinite(loss) and np.isfinite(gradient).all()


def test_compiled_losses_agree_with_eager_ones():
    rng = np.random.default_rng(1)
    columns = [tf.constant(rng.normal(size=50), tf.float32) for _ in range(3)]
    mask = tf.constant(rng.random(50) < 0.7)
    eager = surrogates(*columns, mask)
    for jit in (False, True):
        function = tf.function(surrogates, jit_compile=jit, autograph=False)
        np.testing.assert_allclose(function(*columns, mask), eager, rtol=1e-5)


def test_the_policy_gradient_is_that_of_the_log_likelihood():
    log_prob, advantage = tf.constant([0.1, NAN, -2.0]), tf.constant([3.0, 1.0, -1.0])
    mask = tf.constant([True, False, True])
    with tf.GradientTape() as tape:
        tape.watch(log_prob)
        loss = losses.policy_gradient(log_prob, advantage, mask)
    np.testing.assert_allclose(tape.gradient(loss, log_prob), [-1.5, 0, 0.5])
