import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.support import python
from tfagents_batch import seeds

DRAWS = {
    "uniform": lambda key: seeds.uniform([1000], key),
    "normal": lambda key: seeds.normal([1000], key),
    "words": lambda key: seeds.words([1000], key),
    "fold": lambda key: seeds.normal([10], seeds.fold(key, tf.constant(3))),
    "split": lambda key: tf.stack(seeds.split(key, 3)),
    "integers": lambda key: seeds.integers([1000], key, 7),
    "bernoulli": lambda key: seeds.bernoulli([1000], key, 0.3),
}


def draw(key):
    return {name: function(key) for name, function in DRAWS.items()}


def assert_alike(found, expected):
    for name, values in expected.items():
        tolerance = 1e-5 if name in ("normal", "fold") else 0
        np.testing.assert_allclose(found[name], values, tolerance, tolerance, name)


def test_compiled_graph_and_eager_draws_agree():
    def program(seed):
        return draw(seeds.key(seed, "test"))

    seed = tf.constant(seeds.iteration_seed(1, 2))
    for jit_compile in (False, True):
        found = tf.function(program, jit_compile=jit_compile, autograph=False)(seed)
        assert_alike(found, program(seed))


def test_many_keys_at_once_draw_the_numbers_of_each_key():
    """The slow fallback, one key after the other, would be an error here."""
    keys = [seeds.key(seed, "test") for seed in range(5)]
    found = tf.vectorized_map(draw, tf.stack(keys), fallback_to_while_loop=False)
    for row, key in enumerate(keys):
        assert_alike({name: x[row] for name, x in found.items()}, draw(key))


def test_a_draw_is_few_operations_of_a_program():
    key = tf.TensorSpec([2], tf.int32)
    draw = tf.function(lambda key: seeds.words([3], key), [key], autograph=False)
    assert len(draw.get_concrete_function().graph.get_operations()) < 30


def test_draws_before_tensorflow_has_started_are_the_same():
    code = """
import tensorflow as tf
from tfagents_batch import seeds, tracing

with tf.Graph().as_default() as graph:
    words = seeds.words([5], tf.constant([3, 4]))
    assert not tracing.has_run()
    with tf.compat.v1.Session() as session:
        found = session.run(words)
tf.debugging.assert_equal(found, seeds.words([5], tf.constant([3, 4])))
tf.debugging.assert_equal(found, seeds.words([9], tf.constant([3, 4]))[:5])
"""
    python.run(code, timeout=120)


@pytest.mark.parametrize(
    "key, counter, expected",
    [
        # Known answers from Random123, the authors' implementation.
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((2**32 - 1,) * 2, (2**32 - 1,) * 2, (0x1CB996FC, 0xBB002BE7)),
        (
            (0x13198A2E, 0x03707344),
            (0x243F6A88, 0x85A308D3),
            (0xC4923A9C, 0x483DF7A0),
        ),
    ],
)
def test_words_match_the_published_threefry(key, counter, expected):
    key, counter = (tf.constant(pair, tf.uint32) for pair in (key, counter))
    found = seeds.threefry(tf.unstack(key), tf.unstack(counter))
    assert tuple(int(word) for word in found) == expected


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (5, 2)])
def test_a_longer_draw_begins_with_the_shorter_one(shape):
    key = seeds.key(7, "test")
    found = seeds.words(shape, key)
    assert found.shape == shape
    flat = found.numpy().ravel()
    np.testing.assert_array_equal(flat, seeds.words([20], key)[: flat.size])


def test_integers_and_bernoulli_draws_have_the_right_frequencies():
    count = 100_000
    faces = np.bincount(seeds.integers([count], seeds.key(1, "test"), 6), minlength=6)
    assert len(faces) == 6
    sigma = np.sqrt(count / 6 * 5 / 6)
    assert np.abs(faces - count / 6).max() < 5 * sigma
    hits = seeds.bernoulli([count], seeds.key(2, "test"), 0.2).numpy().sum()
    assert abs(hits - 0.2 * count) < 5 * np.sqrt(count * 0.2 * 0.8)


def test_a_seed_may_be_a_number_or_a_tensor():
    key = seeds.key(7, "test")
    assert key.dtype == tf.int32 and key.shape == [2]
    for seed in (np.int64(7), tf.constant(7), tf.constant(7, tf.int64)):
        np.testing.assert_array_equal(seeds.key(seed, "test"), key)


def test_seeds_purposes_and_indices_give_independent_numbers():
    keys = [seeds.key(seed, name) for seed in (0, 1, 2) for name in ("act", "shuffle")]
    keys += [seeds.fold(keys[0], tf.constant(index)) for index in (1, 2, 3)]
    draws = [seeds.uniform([2000], key).numpy() for key in keys]
    for one, other in itertools.combinations(draws, 2):
        # Independent draws have a correlation above 0.11 once in 1e6 cases.
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.15


def test_indices_and_seeds_give_distinct_keys():
    found = {
        tuple(seeds.fold(seeds.key(seed, "test"), tf.constant(index)).numpy())
        for seed in (*range(20), 2**31 - 1)
        for index in range(50)
    }
    assert len(found) == 21 * 50
    key = seeds.key(7, "test")
    np.testing.assert_array_equal(seeds.fold(key, tf.constant(0)), key)


def test_numbers_are_uniform_within_their_bounds_and_normal():
    key, size = seeds.key(1, "test"), [100_000]
    uniform, normal = seeds.uniform(size, key).numpy(), seeds.normal(size, key).numpy()
    assert uniform.dtype == normal.dtype == np.float32
    assert uniform.min() >= 0 and uniform.max() < 1
    wide = seeds.uniform(size, key, -3.0, 5.0).numpy()
    assert -3 <= wide.min() < -2.99 and 4.99 < wide.max() < 5
    narrow = seeds.uniform(size, key, 1000.0, 1000.001).numpy()
    assert narrow.min() >= 1000 and narrow.max() < np.float32(1000.001)
    # Five standard errors of each estimate.
    assert abs(uniform.mean() - 0.5) < 5 * np.sqrt(1 / 12 / 1e5)
    assert abs(normal.mean()) < 5 * np.sqrt(1 / 1e5)
    assert abs(normal.var() - 1) < 5 * np.sqrt(2 / 1e5)


def test_iteration_seeds_are_the_same_in_a_graph():
    runs, steps = (0, 5, 2**31 - 1), (0, 1, 2048, 2**32 - 1, 2**32, 2**40 + 7)
    pairs = list(itertools.product(runs, steps))
    expected = [seeds.iteration_seed(*pair) for pair in pairs]
    runs, steps = zip(*pairs, strict=True)
    runs, steps = tf.constant(runs), tf.constant(steps, tf.int64)
    compiled = tf.function(seeds.iteration_seed, jit_compile=True, autograph=False)
    for function in (compiled, seeds.iteration_seed):
        np.testing.assert_array_equal(function(runs, steps), expected)


def test_iterations_have_different_seeds():
    streams = ("train", "evaluate")
    found = [
        seeds.iteration_seed(run, step, stream)
        for run in range(10)
        for step in range(0, 2048 * 20, 2048)
        for stream in streams
    ]
    assert all(type(seed) is int and 0 <= seed < 2**31 for seed in found)
    assert len(set(found)) == len(found)
    assert seeds.iteration_seed(3, 4096) == seeds.iteration_seed(3, 4096, "train")


def test_coins_are_fair_and_of_their_own_in_each_place_and_for_each_key():
    keys = seeds.split(seeds.key(7, "coins"), 3)
    shape = [4, 250, 300]
    draws = np.array([seeds.coins(shape, key, 0.3).numpy() for key in keys], float)
    error = np.sqrt(0.3 * 0.7)
    for axes in [(1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)]:
        number = np.prod([draws.shape[axis] for axis in axes])
        assert np.all(np.abs(draws.mean(axes) - 0.3) < 5 * error / np.sqrt(number))
    centered = draws.reshape([3, -1]) - 0.3
    correlation = centered @ centered.T / centered.shape[1] / 0.21
    assert np.abs(correlation - np.eye(3)).max() < 0.01
    for lag in (1, 2, 8, 300, 75_000):
        product = centered[:, lag:] * centered[:, :-lag]
        assert abs(product.mean()) < 5 * 0.21 / np.sqrt(product.size)


def test_coins_are_the_same_in_a_program():
    key = seeds.key(3, "coins")
    program = tf.function(
        lambda key: seeds.coins([3, 5, 7], key, 0.4), jit_compile=True, autograph=False
    )
    found = seeds.coins([3, 5, 7], key, 0.4)
    np.testing.assert_array_equal(found, program(key))
    assert int(tf.reduce_sum(tf.cast(found, tf.int32))) == 46
