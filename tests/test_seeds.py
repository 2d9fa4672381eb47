import itertools

import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch import seeds

DRAWS = {
    "uniform": lambda key: seeds.uniform([1000], key),
    "normal": lambda key: seeds.normal([1000], key),
    "words": lambda key: seeds.words([1000], key),
    "fold": lambda key: seeds.normal([10], seeds.fold(key, tf.constant(3))),
}


@pytest.mark.parametrize("draw", DRAWS)
def test_compiled_graph_and_eager_draws_agree(draw):
    def program(seed):
        return DRAWS[draw](seeds.key(seed, "test"))

    seed = tf.constant(seeds.iteration_seed(1, 2))
    eager = program(seed)
    for jit_compile in (False, True):
        found = tf.function(program, jit_compile=jit_compile)(seed)
        tolerance = 1e-5 if draw in ("normal", "fold") else 0
        np.testing.assert_allclose(found, eager, tolerance, tolerance)


def test_a_seed_is_a_number_or_a_tensor():
    key = seeds.key(7, "test")
    assert key.dtype == tf.int32 and key.shape == [2]
    for seed in (np.int64(7), tf.constant(7), tf.constant(7, tf.int64)):
        np.testing.assert_array_equal(seeds.key(seed, "test"), key)


def test_seeds_purposes_and_indices_give_independent_numbers():
    keys = [seeds.key(seed, name) for seed in (0, 1, 2) for name in ("act", "shuffle")]
    keys += [seeds.fold(keys[0], tf.constant(index)) for index in (1, 2, 3)]
    draws = [seeds.uniform([2000], key).numpy() for key in keys]
    for one, other in itertools.combinations(draws, 2):
        # Of independent draws 1 in 1e6 correlates by more than 0.11.
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.15


def test_the_first_index_of_a_stream_is_the_stream():
    key = seeds.key(7, "test")
    np.testing.assert_array_equal(seeds.fold(key, tf.constant(0)), key)


def test_indices_and_seeds_of_a_stream_do_not_repeat():
    found = {
        tuple(seeds.fold(seeds.key(seed, "test"), tf.constant(index)).numpy())
        for seed in (*range(20), 2**31 - 1)
        for index in range(50)
    }
    assert len(found) == 21 * 50


def test_numbers_are_uniform_and_normal():
    uniform = seeds.uniform([100_000], seeds.key(1, "test")).numpy()
    normal = seeds.normal([100_000], seeds.key(1, "test")).numpy()
    assert uniform.dtype == normal.dtype == np.float32
    assert uniform.min() >= 0 and uniform.max() < 1
    # Five standard errors of each estimate.
    assert abs(uniform.mean() - 0.5) < 5 * np.sqrt(1 / 12 / 1e5)
    assert abs(normal.mean()) < 5 * np.sqrt(1 / 1e5)
    assert abs(normal.var() - 1) < 5 * np.sqrt(2 / 1e5)


def test_iterations_have_seeds_of_their_own():
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
