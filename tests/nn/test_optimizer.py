import keras
import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.errors import UserError
from tfagents_batch.nn.optimizer import Adam, Optimizer


def make(value=(1.0, -2.0), **options):
    weight = keras.Variable(np.array(value, np.float32))
    optimizer = Optimizer([weight], **{"clip_norm": None, **options})
    optimizer.set_learning_rate(tf.constant(0.1))
    return weight, optimizer


def test_first_step_of_adam_moves_by_the_learning_rate():
    weight, optimizer = make(epsilon=1e-12)
    metrics = optimizer.apply([tf.constant([3.0, -4.0])])
    np.testing.assert_allclose(weight.numpy(), [0.9, -1.9], rtol=1e-5)
    assert float(metrics["grad/norm"]) == pytest.approx(5)
    assert float(metrics["grad/skipped"]) == 0


def test_only_gradients_above_the_norm_are_scaled():
    _, optimizer = make(clip_norm=1.0)
    optimizer.apply([tf.constant([30.0, 40.0])])
    slot = optimizer.rule.variables[2].numpy()  # first moment, 0.1 of the gradient
    np.testing.assert_allclose(slot, [0.06, 0.08], rtol=1e-5)
    _, optimizer = make(clip_norm=100.0)
    optimizer.apply([tf.constant([3.0, 4.0])])
    np.testing.assert_allclose(optimizer.rule.variables[2], [0.3, 0.4], rtol=1e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_of_an_embedding_are_those_of_its_whole_table(compiled):
    table, optimizer = make(np.ones([5, 2]), epsilon=1e-12)
    optimizer.compiled = compiled

    @tf.function
    def train(rows):  # in a loop, where the shape of such a gradient is not known
        for _ in tf.range(1):
            optimizer.minimize(
                lambda: (tf.reduce_sum(tf.gather(table.value, rows)), ())
            )
        return optimizer.minimize(lambda: (tf.reduce_sum(table.value[:1]), ()))[1]

    train(tf.constant([1, 3, 3]))
    moved = table.numpy() != 1
    np.testing.assert_array_equal(moved[:, 0], [True, True, False, True, False])


@pytest.mark.parametrize(
    "returned, expected",
    [
        ((tf.zeros([64, 2]), {}), r"a loss of shape \[64, 2\]; expected a scalar"),
        ((0.0, {}), r"a float as loss; expected a scalar"),
        ({"loss/total": 0, "loss/value": 0}, "a dict; expected the scalar loss and"),
        ((tf.zeros([]),), "a tuple of 1; expected the scalar loss and"),
    ],
    ids=["rows", "number", "only metrics", "only a loss"],
)
def test_another_result_than_a_scalar_loss_and_more_is_one_line(returned, expected):
    def calm():
        return returned

    with pytest.raises(UserError, match=rf"calm returned {expected}"):
        make()[1].minimize(calm)


@pytest.mark.parametrize(
    "rule, bad, jit", [("adam", np.nan, True), ("rmsprop", np.inf, False)]
)
def test_a_gradient_that_is_not_finite_changes_nothing(rule, bad, jit):
    weight, optimizer = make(clip_norm=0.5, rule=rule)
    apply = tf.function(optimizer.apply, jit_compile=jit, autograph=False)
    apply([tf.constant([1.0, 1.0])])
    before = [v.numpy() for v in [weight, *optimizer.rule.variables]]
    metrics = apply([tf.constant([1.0, bad])])
    assert float(metrics["grad/skipped"]) == 1
    assert np.isfinite(metrics["grad/norm"])
    after = [v.numpy() for v in [weight, *optimizer.rule.variables]]
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_missing_gradient_counts_as_zero():
    weight, optimizer = make()
    metrics = optimizer.apply([None])
    np.testing.assert_array_equal(weight.numpy(), [1, -2])
    assert float(metrics["grad/norm"]) == 0


def test_optimizer_variables_exist_before_the_first_step():
    _, optimizer = make()
    assert len(optimizer.named_variables()) >= 4


@pytest.mark.parametrize("size", [100, 4096, 4100, 48_000])
def test_norm_is_that_of_all_gradients(size):
    gradient = np.random.default_rng(0).normal(size=size).astype(np.float32)
    _, optimizer = make(np.zeros(size), clip_norm=1.0)
    metrics = optimizer.apply([tf.constant(gradient)])
    assert float(metrics["grad/norm"]) == pytest.approx(np.linalg.norm(gradient), 1e-5)


def test_compiled_steps_equal_eager_ones():
    gradients = np.random.default_rng(0).normal(size=(3, 4096)).astype(np.float32)
    found = []
    for compiled in (False, True):
        weight, optimizer = make(np.zeros(4096), clip_norm=1.0)
        optimizer.compiled = compiled
        for gradient in gradients:
            optimizer.apply([tf.constant(gradient)])
        found.append([x.numpy() for x in [weight, *optimizer.rule.variables]])
    for eager, xla in zip(*found, strict=True):
        np.testing.assert_allclose(xla, eager, rtol=1e-4, atol=1e-6)


def adam_of(variable, rate, epsilon=1e-8, **settings):
    adam = Adam([variable], epsilon, **settings)
    adam.learning_rate.assign(rate)
    return adam


@pytest.mark.parametrize("epsilon, jit", [(1e-8, True), (1e-2, False)])
def test_steps_follow_algorithm_1_of_the_paper(epsilon, jit):
    random = np.random.default_rng(0)
    gradients = random.normal(size=(200, 3)) * [1e-4, 1e-2, 1.0]
    weight, rate, beta_1, beta_2 = np.array([1.0, -2.0, 3.0]), 1e-2, 0.9, 0.999
    variable = keras.Variable(weight, dtype="float32")
    adam = adam_of(variable, rate, epsilon)

    @tf.function(jit_compile=jit, autograph=False)
    def step(gradient):
        adam.step([gradient])

    mean, square = np.zeros(3), np.zeros(3)
    for t, gradient in enumerate(gradients, 1):
        step(tf.constant(gradient, tf.float32))
        mean = beta_1 * mean + (1 - beta_1) * gradient
        square = beta_2 * square + (1 - beta_2) * gradient**2
        corrected = mean / (1 - beta_1**t), square / (1 - beta_2**t)
        weight = weight - rate * corrected[0] / (np.sqrt(corrected[1]) + epsilon)
        np.testing.assert_allclose(variable.numpy(), weight, 1e-4, 1e-5)


@pytest.mark.parametrize("beta_1, decay, jit", [(0.5, 0.1, True), (0.0, 1.0, False)])
def test_decoupled_decay_follows_algorithm_2_of_its_paper(beta_1, decay, jit):
    """Loshchilov and Hutter 2019, with the schedule multiplier as learning rate."""
    random = np.random.default_rng(0)
    gradients = random.normal(size=(50, 3))
    weight, beta_2, epsilon = np.array([1.0, -2.0, 3.0]), 0.999, 1e-8
    variable, number = keras.Variable(weight, dtype="float32"), keras.Variable(2.0)
    settings = {"beta_1": beta_1, "weight_decay": tf.Variable(decay), "kept": [number]}
    adam = Adam([variable, number], epsilon, **settings)
    plain = adam_of(twin := keras.Variable(2.0), 0.0, beta_1=beta_1)

    @tf.function(jit_compile=jit, autograph=False)
    def step(gradient, rate):
        for rule, gradients in (adam, [gradient, gradient[0]]), (plain, [gradient[0]]):
            rule.learning_rate.assign(rate)
            rule.step(gradients, compiled=jit)

    mean, square = np.zeros(3), np.zeros(3)
    for t, gradient in enumerate(gradients, 1):
        rate = 1e-2 / t
        step(tf.constant(gradient, tf.float32), tf.constant(rate, tf.float32))
        mean = beta_1 * mean + (1 - beta_1) * gradient
        square = beta_2 * square + (1 - beta_2) * gradient**2
        unbiased = mean / (1 - beta_1**t)
        moved = rate * unbiased / (np.sqrt(square / (1 - beta_2**t)) + epsilon)
        weight = weight - moved - rate * decay * weight
        np.testing.assert_allclose(variable.numpy(), weight, 1e-5, 1e-5)
        found = adam.mean_gradients()[0]
        np.testing.assert_allclose(found, unbiased, 1e-4, 1e-5)
    assert number.numpy() == twin.numpy()  # it is kept from decaying


def test_steps_equal_those_of_keras_for_a_tiny_epsilon():
    weights = [keras.Variable([1.0, 2.0]) for _ in range(2)]
    ours = adam_of(weights[0], 0.1, 1e-30)
    theirs = keras.optimizers.Adam(0.1, epsilon=1e-30)
    for gradient in ([0.1, -1.0], [0.3, 0.2], [-2.0, 0.0]):
        ours.step([tf.constant(gradient)])
        theirs.apply([tf.constant(gradient)], [weights[1]])
    np.testing.assert_allclose(weights[0].numpy(), weights[1].numpy(), 1e-5)


def test_mean_gradients_are_corrected_for_starting_at_zero():
    adam = adam_of(keras.Variable([1.0, 2.0]), 0.1)
    np.testing.assert_array_equal(adam.mean_gradients()[0], [0, 0])
    for _ in range(3):
        adam.step([tf.constant([0.5, -2.0])])
        np.testing.assert_allclose(adam.mean_gradients()[0], [0.5, -2.0], rtol=1e-5)


@pytest.mark.parametrize(
    ("rule", "start", "root"),
    [
        ("rmsprop", 0.0, lambda square: np.sqrt(square) + 0.1),  # as in PyTorch
        ("rmsprop_tf", 1.0, lambda square: np.sqrt(square + 0.1)),
    ],
)
def test_ten_steps_are_those_of_the_equation(rule, start, root):
    weight = keras.Variable([1.0, -2.0])
    optimizer = Optimizer([weight], None, epsilon=0.1, rule=rule)
    optimizer.set_learning_rate(0.01)
    x, square = np.array([1.0, -2.0]), np.full(2, start)
    for step in range(10):
        gradient = np.array([0.3, -4.0]) * (step + 1)
        optimizer.apply([tf.constant(gradient, tf.float32)])
        square = 0.99 * square + 0.01 * gradient**2
        x -= 0.01 * gradient / root(square)
        np.testing.assert_allclose(weight, x, rtol=1e-5)
