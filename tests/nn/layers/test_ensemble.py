"""Networks computed as one, compared with one network at a time."""

import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.nn.layers import blocks
from tfagents_batch.nn.layers.ensemble import EnsembleMLP, Hidden


def normalized(layer, number, x):
    """Return LayerNorm of one network, from its weights, by NumPy."""
    mean, std = x.mean(-1, keepdims=True), x.std(-1, keepdims=True)
    x = (x - mean) / np.sqrt(std**2 + 1e-6)
    return x * layer.scale.numpy()[number] + layer.offset.numpy()[number]


def one(layers, number, x):
    """Return the outputs of one network, from its weights, by NumPy."""
    for layer in layers:
        x = x @ layer.kernel.numpy()[number] + layer.bias.numpy()[number]
        if layer.norm is not None:
            x = normalized(layer.norm, number, x)
        x = np.maximum(x, 0) if layer is not layers[-1] else x
    return x


@pytest.mark.parametrize("layer_norm", [False, True])
def test_each_network_is_its_own(layer_norm):
    rng = np.random.default_rng(0)
    towers = EnsembleMLP(3, (16, 8), 2, "orthogonal", Hidden(0.0, layer_norm, "relu"))
    x = rng.normal(size=[7, 5]).astype(np.float32)
    towers(x)
    for variable in towers.variables:  # also those that begin as 0 or 1
        drawn = rng.normal(size=variable.shape, scale=0.5)
        variable.assign(variable + drawn.astype(np.float32))
    found = towers(x).numpy()
    assert len(towers.variables) == (10 if layer_norm else 6)
    for number in range(3):
        np.testing.assert_allclose(
            found[number], one(towers.layers, number, x), atol=1e-5
        )
    np.testing.assert_allclose(towers(x, which=1), found[:1], atol=1e-6)
    more = rng.normal(size=[7, 4, 2]).astype(np.float32)
    several = towers(x[:, :3], more=more).numpy().reshape([3, 7, 4, 2])
    for k in range(4):
        joined = np.concatenate([x[:, :3], more[:, k]], -1)
        np.testing.assert_allclose(several[:, :, k], towers(joined), atol=1e-5)


def product(layer, number, x):
    return x @ layer.kernel.numpy()[number] + layer.bias.numpy()[number]


def test_residual_blocks_of_each_network_are_those_of_one():
    rng = np.random.default_rng(0)
    then = Hidden(activation="relu", residual=True)
    towers = EnsembleMLP(2, (6, 6), 1, "orthogonal", then)
    x = rng.normal(size=[5, 3]).astype(np.float32)
    towers(x)
    for variable in towers.variables:
        drawn = rng.normal(size=variable.shape, scale=0.5)
        variable.assign(variable + drawn.astype(np.float32))
    first, *residual, last, head = towers.layers
    alone = blocks.residual((6, 6), "relu", "orthogonal", "one")
    alone(x)
    for number in range(2):
        y = product(first, number, x)
        for block in residual:
            inner = product(block.wide, number, normalized(block.norm, number, y))
            y += product(block.narrow, number, np.maximum(inner, 0))
        expected = product(head, number, normalized(last, number, y))
        np.testing.assert_allclose(towers(x)[number], expected, atol=1e-5)
        # The same layers for one network, as actors have them.
        for variable, many in zip(alone.variables, towers.variables, strict=False):
            variable.assign(tf.reshape(many[number], variable.shape))
        found = product(head, number, alone(x).numpy())
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_layer_norm_bounds_the_values_of_actions_that_were_never_seen():
    towers = EnsembleMLP(1, (32, 32), 1, "orthogonal", Hidden(0.0, True, "relu"))
    plain = EnsembleMLP(1, (32, 32), 1, "orthogonal", Hidden(0.0, False, "relu"))
    far = tf.ones([1, 4]) * [[1.0], [1e6]]
    near, beyond = np.abs(towers(far).numpy()[0, :, 0])
    assert beyond < 2 * near + 1
    assert np.abs(plain(far).numpy()[0, 1, 0]) > 1e3
