import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.ops import histograms


def test_masked_rows_become_nan():
    x = tf.reshape(tf.range(12), [3, 2, 2])
    mask = tf.constant([[True, False], [True, True], [False, False]])
    got = histograms.rows(x, mask).numpy()
    assert got.dtype == np.float32 and got.shape == (12,)
    np.testing.assert_array_equal(got[np.isfinite(got)], [0, 1, 4, 5, 6, 7])


def test_large_tensors_are_sampled_evenly(monkeypatch):
    monkeypatch.setattr(histograms, "MOST", 64)
    batch = 8
    x = tf.repeat(tf.tile(tf.range(batch)[None], [32, 1])[..., None], 3, axis=-1)
    x = x * 10 + tf.range(3)  # encodes stream and column
    got = histograms.rows(x, tf.ones([32, batch], tf.bool)).numpy()
    assert len(got) <= 64 + 3
    assert set(got) == {
        10 * stream + column for stream in range(8) for column in range(3)
    }
    parts = [tf.zeros([64, 4]), tf.ones([64, 2])]
    got = histograms.tensors(parts).numpy()
    assert len(got) <= 64 + 2
    assert np.mean(got) == pytest.approx(1 / 3, abs=0.05)


def test_small_tensors_are_kept_whole():
    parts = [tf.constant(2.0), tf.reshape(tf.range(6), [2, 3])]
    np.testing.assert_array_equal(histograms.tensors(parts), [2, 0, 1, 2, 3, 4, 5])
