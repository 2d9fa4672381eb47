import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.graph import forward


def total(rows):
    return tf.reduce_sum(rows["x"], -1) + tf.cast(rows["n"], tf.float32)


def make(size):
    x = tf.random.stateless_normal([size, 3], [1, 2])
    return {"x": x, "n": tf.range(size)}


@pytest.mark.parametrize(
    "size, limit, jit",
    [(1, 1, False), (7, 3, True), (9, 3, False), (10, 4, False), (5, 100, True)],
)
def test_chunks_give_the_result_of_one_call(size, limit, jit):
    rows = make(size)
    apply = tf.function(
        lambda x: forward.chunked(total, x, limit), jit_compile=jit, autograph=False
    )
    np.testing.assert_allclose(apply(rows), total(rows), rtol=1e-6)


def sizes(rows, *limit, steps=None):
    """Return the sizes of the chunks of rows, or of sequences of ``steps`` steps."""
    seen = []

    def function(rows):
        seen.append(rows.shape[0])
        return tf.zeros(rows.shape[: 1 if steps is None else 2])

    forward.chunked(
        function, rows, *limit, **({} if steps is None else {"steps": steps})
    )
    return seen


def test_no_chunk_exceeds_the_limit():
    found = sizes(tf.zeros([10, 3]), 4)
    assert found and max(found) <= 4 and len(set(found)) == 1


def test_large_rows_make_small_chunks_and_small_rows_one():
    pixels = tf.zeros([forward.NUMBERS // 2**12 + 1, 64, 64], tf.uint8)
    assert max(sizes(pixels)) < len(pixels)
    assert sizes(tf.zeros([forward.ROWS, 4])) == [forward.ROWS]


@pytest.mark.parametrize("size, limit, jit", [(7, 3, True), (5, 100, False)])
def test_sequences_are_evaluated_whole(size, limit, jit):
    x = tf.random.stateless_normal([size, 4, 3], [1, 2])
    seen = []

    def function(x):
        seen.append(x.shape[0])
        return tf.cumsum(tf.reduce_sum(x, -1), axis=1)

    apply = tf.function(
        lambda x: forward.chunked(function, x, limit, steps=4), jit_compile=jit
    )
    np.testing.assert_allclose(apply(x), function(x), rtol=1e-5)
    assert max(seen[:-1]) <= limit


def test_few_sequences_of_images_are_evaluated_at_a_time():
    assert sizes(tf.zeros([40, 64, 84, 84], tf.uint8), steps=64)[-1] < 40
    assert sizes(tf.zeros([40, 16, 4]), steps=16) == [40]
