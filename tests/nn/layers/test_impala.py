import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.nn.cases import OBSERVATIONS, make_spec, make_steps
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks
from tfagents_batch.nn.encoder import Encoder
from tfagents_batch.nn.layers import impala


def image(*shape):
    return gs.Box(0, 255, shape, np.uint8)


def count(cnn, space, actions=6):
    spec = make_spec(space, gs.Discrete(actions))
    return networks.actor_critic(spec, networks.NetworkConfig(cnn=cnn)).count_params()


def test_number_of_weights_for_atari_images_is_as_published():
    def convolution(before, filters):
        return 9 * before * filters + filters

    sections = 0
    for before, filters in ((4, 16), (16, 32), (32, 32)):
        sections += convolution(before, filters) + 4 * convolution(filters, filters)
    dense = 11 * 11 * 32 * 256 + 256  # 84 is halved to 42, 21 and 11
    assert sections == 97_744
    expected = sections + dense + 257 * 7
    assert count("impala", image(4, 84, 84)) == expected


@pytest.mark.parametrize("size, after", [((84, 84), 121), ((10, 7), 2), ((3, 3), 1)])
def test_every_section_halves_the_image_rounding_up(size, after):
    cnn = impala.ImpalaCNN((4, 5, 6), 7)
    x = tf.ones([2, *size, 3])
    assert cnn(x).shape == (2, 7)
    assert cnn.dense.kernel.shape == (after * 6, 7)
    shape = (2, *size, 3)
    for section in cnn.sections:
        x = section(x)
        shape = section.compute_output_shape(shape)
        assert tuple(x.shape) == shape


def test_a_residual_block_adds_to_its_input():
    block = impala.Residual(3)
    x = tf.constant(np.random.default_rng(0).normal(size=[2, 5, 5, 3]), tf.float32)
    block(x)
    for weight in block.convolutions[1].weights:
        weight.assign(tf.zeros(weight.shape))
    np.testing.assert_array_equal(block(x), x)
    block.convolutions[1].bias.assign(tf.ones([3]))
    np.testing.assert_array_equal(block(x), x + 1)


@pytest.mark.parametrize("name", ["grey", "channels_first"])
def test_images_of_any_shape_are_encoded_and_trained(name):
    spec = make_spec(OBSERVATIONS[name])
    network = networks.actor_critic(spec, networks.NetworkConfig(cnn="impala"))
    assert network.convolves
    steps = make_steps(OBSERVATIONS[name], 2, 2)
    with tf.GradientTape() as tape:
        heads, _ = network.unroll(steps)
        loss = tf.reduce_sum(heads.value) + tf.reduce_sum(heads.policy.logits[..., 0])
    weights = [variable.value for variable in network.trainable_variables]
    for gradient in tape.gradient(loss, weights):
        assert gradient is not None and np.all(np.isfinite(gradient))


def test_auto_chooses_nature_or_small_by_image_size():
    for size, name in ((36, "nature"), (35, "small")):
        auto, named = (
            Encoder(image(size, size, 3), x).parts[0] for x in ("auto", name)
        )
        assert auto.dense_size() == named.dense_size()
    assert count("small", image(9, 9, 4)) == 9 * 64 + 16 + 49 * 2048 + 128 + 129 * 7


def test_an_image_too_small_for_nature_is_refused():
    with pytest.raises(UserError, match=r"cnn is nature.*36 x 36.*\(10, 10, 3\)"):
        count("nature", image(10, 10, 3))


def test_layers_use_the_global_dtype_policy():
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        cnn = impala.ImpalaCNN((4,), 5)
    finally:
        keras.config.set_dtype_policy(before)
    assert cnn(tf.ones([1, 8, 8, 3])).dtype == tf.bfloat16
    inside = [x for x in networks.layers(cnn) if isinstance(x, keras.layers.Conv2D)]
    assert len(inside) == 5
    assert all(x.compute_dtype == "bfloat16" for x in inside)
