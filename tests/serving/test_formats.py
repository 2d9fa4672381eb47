"""Layers of users are exported in every format as they are called."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.serving import litert, onnx, saved_model

X = np.random.default_rng(0).normal(size=[5, 4]).astype(np.float32)


class Calls(keras.layers.Layer):
    """Calls a function with tensors that the constructor made."""

    def __init__(self, function, *constants):
        super().__init__()
        self.function, self.constants = function, [*map(tf.constant, constants)]

    def call(self, x):
        return self.function(x, *self.constants)


def normalization():
    layer = keras.layers.Normalization()
    layer.adapt(3 * X + 1)
    return layer


LAYERS = {
    "normalization that is adapted": normalization,
    "normalization with moments": lambda: keras.layers.Normalization(
        mean=[0.0, 1.0, 2.0, 3.0], variance=[4.0] * 4
    ),
    "a constant": lambda: Calls(lambda x, by: x / by, [2.4, 3.0, 0.2, 3.0]),
    "a constant that is used twice": lambda: Calls(lambda x, c: x * c + c, [[2.0]]),
    "two constants": lambda: Calls(
        lambda x, a, b: x @ a + b, np.eye(4, 3, dtype="f"), 1.0
    ),
    "constant places": lambda: Calls(lambda x, i: tf.gather(x, i, axis=1), [3, 1]),
    "rescaling": lambda: keras.layers.Rescaling(0.5, offset=-1.0),
}


@pytest.mark.parametrize("module", [onnx, saved_model, litert])
@pytest.mark.parametrize("name", LAYERS)
def test_an_exported_layer_gives_its_own_numbers(name, module, tmp_path):
    if module is onnx:
        pytest.importorskip("tf2onnx")
    layer = LAYERS[name]()
    expected = layer(X)
    specs = {"x": tf.TensorSpec([None, 4], tf.float32, "x")}
    path = tmp_path / module.write(
        lambda given: {"y": layer(given["x"])}, specs, tmp_path
    )
    found = module.load(path)({"x": X})["y"]
    np.testing.assert_allclose(found, expected, atol=1e-6)
