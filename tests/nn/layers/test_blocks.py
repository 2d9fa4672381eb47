import keras
import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.nn.layers import blocks, impala

IMAGE = np.random.default_rng(0).random([2, 44, 40, 3]).astype(np.float32)
NETWORKS = {
    "nature": blocks.nature_cnn,
    "small": blocks.small_cnn,
    "ga3c": blocks.ga3c_cnn,
    "impala": lambda: impala.ImpalaCNN(),
}


@pytest.fixture
def channels_first():
    before = keras.config.image_data_format()
    keras.config.set_image_data_format("channels_first")
    yield
    keras.config.set_image_data_format(before)


@pytest.mark.parametrize("name", NETWORKS)
def test_keras_global_image_format_changes_nothing(name, channels_first):
    def output():
        keras.utils.set_random_seed(0)
        return NETWORKS[name]()(IMAGE).numpy()

    first = output()
    keras.config.set_image_data_format("channels_last")
    np.testing.assert_array_equal(first, output())


@pytest.mark.parametrize(
    "width, jit", [(1, True), (blocks.WIDEST, False), (blocks.WIDEST + 1, True)]
)
def test_products_and_gradients_agree_with_matmul(width, jit):
    random = np.random.default_rng(width)
    x, kernel, weight = (
        tf.constant(random.normal(size=shape), tf.float32)
        for shape in ((7, 5), (5, width), (7, width))
    )

    @tf.function(jit_compile=jit, autograph=False)
    def program(matmul):
        with tf.GradientTape() as tape:
            tape.watch((x, kernel))
            product = matmul(x, kernel)
            loss = tf.reduce_sum(weight * tf.square(product))
        return product, *tape.gradient(loss, (x, kernel))

    for found, expected in zip(program(blocks.matmul), program(tf.matmul), strict=True):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5)
