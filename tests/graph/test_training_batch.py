import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfagents_batch.graph import training_batch
from tfagents_batch.types import TimeStep


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
        lambda x: training_batch.chunked(total, x, limit),
        jit_compile=jit,
        autograph=False,
    )
    np.testing.assert_allclose(apply(rows), total(rows), rtol=1e-6)


def sizes(rows, *limit, steps=None):
    """Return the sizes of the chunks of rows, or of sequences of ``steps`` steps."""
    seen = []

    def function(rows):
        seen.append(rows.shape[0])
        return tf.zeros(rows.shape[: 1 if steps is None else 2])

    training_batch.chunked(
        function, rows, *limit, **({} if steps is None else {"steps": steps})
    )
    return seen


def test_no_chunk_exceeds_the_limit():
    found = sizes(tf.zeros([10, 3]), 4)
    assert found and max(found) <= 4 and len(set(found)) == 1


def test_large_rows_make_small_chunks_and_small_rows_one():
    pixels = tf.zeros([training_batch.NUMBERS // 2**12 + 1, 64, 64], tf.uint8)
    assert max(sizes(pixels)) < len(pixels)
    assert sizes(tf.zeros([training_batch.ROWS, 4])) == [training_batch.ROWS]


@pytest.mark.parametrize("size, limit, jit", [(7, 3, True), (5, 100, False)])
def test_sequences_are_evaluated_whole(size, limit, jit):
    x = tf.random.stateless_normal([size, 4, 3], [1, 2])
    seen = []

    def function(x):
        seen.append(x.shape[0])
        return tf.cumsum(tf.reduce_sum(x, -1), axis=1)

    apply = tf.function(
        lambda x: training_batch.chunked(function, x, limit, steps=4),
        jit_compile=jit,
        autograph=False,
    )
    np.testing.assert_allclose(apply(x), function(x), rtol=1e-5)
    assert max(seen[:-1]) <= limit


def test_few_sequences_of_images_are_evaluated_at_a_time():
    assert sizes(tf.zeros([40, 64, 84, 84], tf.uint8), steps=64)[-1] < 40
    assert sizes(tf.zeros([40, 16, 4]), steps=16) == [40]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 12))
def test_cutting_puts_every_row_in_its_place(time, batch, length):
    x = np.arange(time * batch * 2).reshape(time, batch, 2)
    cut = training_batch.cut(tf.constant(x), length, padding=-1).numpy()
    parts = -(-time // length)
    assert cut.shape == (parts * batch, length, 2)
    for part in range(parts):
        for stream in range(batch):
            expected = x[part * length : (part + 1) * length, stream]
            got = cut[part * batch + stream]
            np.testing.assert_array_equal(got[: len(expected)], expected)
            assert np.all(got[len(expected) :] == -1)


def test_padding_has_the_given_value_in_every_dtype():
    leaves = {
        "mask": tf.ones([3, 2], tf.bool),
        "image": tf.ones([3, 2, 4, 4], tf.uint8),
        "action": tf.ones([3, 2], tf.int32),
        "number": tf.ones([3, 2, 5]),
    }
    for padding in (0, 1):
        for x in training_batch.cut(leaves, 2, padding).values():
            assert np.all(x.numpy()[2:, 1] == padding)
            assert np.all(x.numpy()[:2] == 1)


def test_starts_are_the_first_rows_of_the_sequences():
    x = tf.reshape(tf.range(7 * 3), [7, 3])
    for length in (1, 2, 3, 7):
        starts = training_batch.starts({"h": x}, length)["h"]
        np.testing.assert_array_equal(starts, training_batch.cut(x, length)[:, 0])
    assert training_batch.starts((), 2) == ()


def test_swapping_twice_changes_nothing():
    x = {"a": tf.random.stateless_normal([2, 3, 4], [1, 2]), "b": tf.ones([2, 3])}
    swapped = training_batch.swap(x)
    assert swapped["a"].shape == (3, 2, 4) and swapped["b"].shape == (3, 2)
    np.testing.assert_array_equal(training_batch.swap(swapped)["a"], x["a"])


def make_batch(time=5, batch=2):
    x = tf.reshape(tf.range(1.0, time * batch + 1), [time, batch])
    steps = TimeStep(x[..., None], x, x > 3, x > 3, x > 3, {})
    return training_batch.Batch(steps, tf.cast(x, tf.int32), x, {"std": x}, x, x, x)


def test_padding_of_sequences_is_finite_in_the_loss():
    mask = tf.constant(np.arange(10).reshape(5, 2) < 7)
    state = tf.reshape(tf.range(10.0), [5, 2, 1])
    rows, valid = training_batch.rows(make_batch(), mask, 2, {"h": state})
    assert rows.sequential
    np.testing.assert_array_equal(rows.policy["std"].numpy()[4:, 1], 1)
    np.testing.assert_array_equal(rows.log_prob.numpy()[4:, 1], 0)
    assert not np.any(rows.mask.numpy()[4:])
    np.testing.assert_array_equal(valid, [True, True, True, True, False, False])
    np.testing.assert_array_equal(rows.state["h"][:, 0], [0, 1, 4, 5, 8, 9])


def test_a_minibatch_of_sequences_is_time_major_and_masked():
    rows, _ = training_batch.rows(make_batch(), tf.ones([5, 2], tf.bool), 3)
    batch, mask = training_batch.minibatch(rows, tf.constant([True, False, True, True]))
    assert batch.steps.observation.shape == (3, 4, 1) and batch.log_prob.shape == (3, 4)
    np.testing.assert_array_equal(mask[:, 0], [True] * 3)
    np.testing.assert_array_equal(mask[:, 1], [False] * 3)
    np.testing.assert_array_equal(mask[:, 2], [True, True, False])
    np.testing.assert_array_equal(batch.log_prob[:, 1], make_batch().log_prob[:3, 1])


def test_transitions_are_not_changed():
    rows, valid = training_batch.rows(make_batch(), tf.ones([5, 2], tf.bool), None)
    assert not rows.sequential and rows.log_prob.shape == valid.shape == (10,)
    batch, mask = training_batch.minibatch(rows, valid)
    assert batch is rows and mask is valid
