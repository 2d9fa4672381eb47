import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.nn.layers import blocks


@pytest.mark.parametrize(
    "width, jit", [(1, True), (blocks.WIDEST, False), (blocks.WIDEST + 1, True)]
)
def test_products_and_gradients_agree_with_matmul(width, jit):
    random = np.random.default_rng(width)
    x, kernel, weight = (
        tf.constant(random.normal(size=shape), tf.float32)
        for shape in ((7, 5), (5, width), (7, width))
    )

    @tf.function(jit_compile=jit)
    def program(matmul):
        with tf.GradientTape() as tape:
            tape.watch((x, kernel))
            product = matmul(x, kernel)
            loss = tf.reduce_sum(weight * tf.square(product))
        return product, *tape.gradient(loss, (x, kernel))

    for found, expected in zip(program(blocks.matmul), program(tf.matmul), strict=True):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5)
