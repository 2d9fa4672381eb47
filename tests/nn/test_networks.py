import math
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.nn.cases import ACTIONS, OBSERVATIONS, VECTOR, make_spec, make_steps
from tfagents_batch import nest, spaces
from tfagents_batch.devices import machine
from tfagents_batch.errors import UserError
from tfagents_batch.nn import encoder, networks, q_network
from tfagents_batch.nn.encoder import ACTIVATIONS, Encoder
from tfagents_batch.nn.layers import ensemble

IN_IMPALA = {"channels_first", "grey"}  # see layers/test_impala.py


@pytest.mark.parametrize("name", [x for x in OBSERVATIONS if x not in IN_IMPALA])
def test_every_observation_space_is_encoded_and_trained(name):
    spec = make_spec(OBSERVATIONS[name])
    network = networks.actor_critic(spec)
    steps = make_steps(OBSERVATIONS[name], 3, 2)
    with tf.GradientTape() as tape:
        heads, _ = network.unroll(steps)
        loss = tf.reduce_sum(heads.value) + tf.reduce_sum(heads.policy.logits[..., 0])
    assert heads.value.shape == (3, 2)
    weights = [variable.value for variable in network.trainable_variables]
    gradients = tape.gradient(loss, weights)
    assert all(gradient is not None for gradient in gradients)
    assert all(np.all(np.isfinite(gradient)) for gradient in gradients)
    assert network.convolves is (name == "image")  # smaller ones are patches
    for t in range(3):
        one, _ = network(nest.map(lambda x, t=t: x[t], steps))
        np.testing.assert_allclose(one.value, heads.value[t], rtol=1e-5, atol=1e-6)


def test_vectors_have_two_towers_and_images_one_shared_encoder():
    # CartPole: two towers of 64 x 64 on 4 inputs, heads of 2 and 1.
    network = networks.actor_critic(make_spec(gs.Box(-1, 1, (4,)), gs.Discrete(2)))
    assert network.count_params() == 2 * (4 * 64 + 64 + 64 * 64 + 64) + 130 + 65
    # Nature CNN on 84 x 84 x 4, 512 features, heads of 6 and 1.
    space = OBSERVATIONS["channels_first"]
    network = networks.actor_critic(make_spec(space, gs.Discrete(6)))
    encoded = 8224 + 32832 + 36928 + 3136 * 512 + 512
    assert network.count_params() == encoded + 513 * 7


class HiddenConvolution(keras.layers.Layer):
    def call(self, x):
        image = tf.reshape(x, [-1, 3, 1, 1])
        kernel = tf.ones([1, 1, 1, 2])
        convolve = tf.function(
            lambda x: tf.nn.conv2d(x, kernel, 1, "SAME"), autograph=False
        )
        return tf.reshape(convolve(image), [-1, 6])


def functional_convolution():
    image = keras.Input((3, 1))
    return keras.Model(image, keras.ops.conv(image, keras.ops.ones((1, 1, 2))))


@pytest.mark.parametrize(
    "body, convolves",
    [
        (functional_convolution, True),
        (lambda: keras.layers.Dense(4, name="Conv"), False),
        (lambda: keras.layers.Conv1D(2, 1), True),
        (lambda: keras.layers.DepthwiseConv1D(1), True),
        (HiddenConvolution, True),
    ],
)
def test_convolutions_are_detected_in_the_graph(body, convolves):
    layers = [keras.layers.Reshape((3, 1)), body(), keras.layers.Flatten()]
    towers = networks.Towers(keras.Sequential(layers), (), "linear", 3)
    assert networks.ActorCritic(towers, make_spec()).convolves is convolves


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"hidden": (64, 0)}, "network.hidden is 64,0; expected at least 1"),
        ({"hidden": 64}, "network.hidden is 64; expected"),
        ({"activation": "tahn"}, "network.activation 'tahn'; did you mean 'tanh'"),
        ({"activation": "get"}, "unknown network.activation 'get'"),
        ({"init_std": 0.0}, "network.init_std is 0.0; expected more than 0"),
        ({"init_std": np.inf}, "network.init_std is inf; expected a number"),
        ({"min_std": -0.1}, "network.min_std is -0.1; expected at least 0"),
        ({"min_std": 1.0}, "network.min_std is 1.0; expected less than network.init"),
        ({"max_std": 1.0}, "network.max_std is 1.0; expected more than network.init"),
        ({"squash": True, "mean": "tanh"}, "network.mean=tanh would squash twice"),
    ],
)
def test_invalid_settings_are_refused_by_name(settings, message):
    with pytest.raises(UserError, match=re.escape(message)):
        networks.NetworkConfig(**settings).check("network.")


def test_every_allowed_activation_works_in_a_layer():
    assert {"tanh", "relu", "silu", "linear"} <= ACTIVATIONS
    for name in ACTIVATIONS:
        networks.NetworkConfig(activation=name).check()
        layer = keras.layers.Dense(4, name)
        assert layer(tf.ones([2, 3])).shape == (2, 4), name


@pytest.mark.parametrize(
    "settings, raw_value, bound",
    [
        ({"std": "exp"}, -9.0, 0.2),
        ({"std": "softplus"}, -9.0, 0.2),
        ({"max_std": 0.5}, -8.0, 0.2),
        ({"max_std": 0.5}, 8.0, 0.5),
    ],
)
def test_the_std_stays_within_its_bounds_and_has_a_gradient_there(
    settings, raw_value, bound
):
    config = networks.NetworkConfig(init_std=0.35, min_std=0.2, **settings)
    network = networks.actor_critic(make_spec(action=ACTIONS["box"]), config)
    steps = make_steps(VECTOR, 1, 2)

    def found():
        return network.unroll(steps)[0].policy.std

    assert np.all(np.abs(network.unroll(steps)[0].policy.mean) < 0.1)
    np.testing.assert_allclose(found(), 0.35, rtol=1e-6)
    (raw,) = (v for v in network.trainable_variables if v.name.endswith("_std"))
    raw.assign(tf.fill(raw.shape, raw_value))
    np.testing.assert_allclose(found(), bound, atol=2e-4)
    assert np.all(found() > 0.2) and np.all(found() < 0.5)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(found())
    assert np.all(np.array(tape.gradient(loss, raw.value)) > 0)


def test_squashed_actions_lie_within_asymmetric_bounds():
    space = gs.Box(np.float32([-2, 0]), np.float32([3, 0.5]))
    config = networks.NetworkConfig(squash=True, init_std=3.0)
    network = networks.actor_critic(make_spec(action=space), config)
    policy = network.unroll(make_steps(VECTOR, 4, 2))[0].policy
    actions = policy.sample(network.family.noise((4, 2), 1)).numpy()
    assert np.all(actions > space.low) and np.all(actions < space.high)
    assert np.any(np.abs(actions - space.low) < 0.1 * (space.high - space.low))
    assert np.all(np.isfinite(policy.log_prob(actions)))


def test_masked_actions_are_never_taken_and_the_mask_is_not_a_feature():
    mask = gs.Box(0, 1, (3,), np.int8)
    space = gs.Dict(features=VECTOR, action_mask=mask)
    network = networks.actor_critic(make_spec(space))
    steps = make_steps(space, 1, 1)
    found = []
    for mask in ([0, 1, 0], [1, 1, 1]):
        given = {"action_mask": tf.constant([[mask]], tf.int8)}
        masked = steps._replace(observation=steps.observation | given)
        found.append(network.unroll(masked)[0])
    actions = found[0].policy.sample(network.family.noise((200, 1, 1), 0))
    assert set(np.unique(actions)) == {1}
    np.testing.assert_array_equal(found[0].value, found[1].value)


def test_variables_saved_by_position_restore_another_network():
    space = OBSERVATIONS["nested"]
    spec = make_spec(space, ACTIONS["box"])
    pair = networks.actor_critic(spec), networks.actor_critic(spec)
    source, target = map(networks.named_variables, pair)
    assert list(source) == list(target)
    for key, variable in source.items():
        target[key].assign(variable.value)
    steps = make_steps(space, 2, 2)
    a, b = (network.unroll(steps)[0] for network in pair)
    np.testing.assert_array_equal(a.value, b.value)
    np.testing.assert_array_equal(a.policy.mean, b.policy.mean)


def test_no_layer_hides_its_weights_from_the_network():
    network = networks.actor_critic(make_spec(OBSERVATIONS["nested"], ACTIONS["box"]))
    found = {id(v) for layer in networks.layers(network) for v in layer.variables}
    found |= {id(network.trained_std)}
    assert found == {id(variable) for variable in network.variables}
    assert isinstance(network, keras.Model)


@pytest.fixture
def bfloat16():
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    yield
    keras.config.set_dtype_policy(before)


def test_only_convolutions_use_the_global_dtype_policy(bfloat16):
    space = OBSERVATIONS["nested"]
    network = networks.actor_critic(make_spec(space))
    found = networks.layers(network)
    stacks = [layer for layer in found if layer.name == "image_cnn"]
    low = {id(layer) for stack in stacks for layer in (stack, *stack.stack)}
    assert low
    for layer in found:
        if not isinstance(layer, encoder._Image):  # it has no weights of its own
            kind = "bfloat16" if id(layer) in low else "float32"
            assert layer.compute_dtype == kind, layer.path
    with tf.GradientTape() as tape:
        heads, _ = network.unroll(make_steps(space, 3, 2))
        loss = tf.reduce_sum(heads.value) + tf.reduce_sum(heads.policy.logits[..., 0])
    assert heads.value.dtype == heads.policy.logits.dtype == tf.float32
    weights = [variable.value for variable in network.trainable_variables]
    for gradient in tape.gradient(loss, weights):
        assert gradient.dtype == tf.float32
        assert np.all(np.isfinite(gradient))


def test_wide_hidden_layers_use_the_global_dtype_policy(bfloat16):
    spec = make_spec(gs.Box(-1, 1, (3,)), ACTIONS["box"])
    network = networks.actor_critic(spec, networks.NetworkConfig(hidden=(512, 8)))
    critics = ensemble.EnsembleMLP(
        2, (512, 8), 1, "glorot", ensemble.Hidden(activation="relu")
    )
    x = tf.ones([4, 3])
    dense = [x for x in networks.layers(network) if type(x) is keras.layers.Dense]
    for layers in (dense, critics.layers[:2]):
        kinds = {layer.units: layer.compute_dtype for layer in layers}
        assert kinds == {512: "bfloat16", 8: "float32"}
    with tf.GradientTape() as tape:
        values = critics(x)
        loss = tf.reduce_sum(values)
    assert values.dtype == tf.float32
    assert critics.layers[0](x).dtype == tf.bfloat16
    gradients = tape.gradient(loss, [v.value for v in critics.trainable_variables])
    assert all(g.dtype == tf.float32 for g in gradients)


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (gs.Box(0, 255, (2,), np.uint8), [0.0, 1.0]),
        (gs.Box(0, 1, (2,), np.uint8), [0.0, 1.0]),
        (gs.Box(-100, 100, (2,), np.int64), [0.0, 1.0]),
        (gs.Box(np.array([0, 5]), np.array([10, 5]), dtype=np.int32), [0.0, 0.0]),
        (gs.Box(0, 10**6, (2,), np.int64), [0.0, 1.0]),
        (gs.Box(2**30, 2**30 + 2, (2,), np.int32), [0.0, 1.0]),
        (gs.Box(-(2**31), 2**31 - 1, (2,), np.int32), [-(2.0**31), 2.0**31]),
    ],
)
def test_integers_are_scaled_by_their_bounds_if_these_are_narrow(space, expected):
    encoder = Encoder(space)
    seen = encoder(tf.constant(np.stack([[space.low[0], space.high[1]]])))
    np.testing.assert_allclose(seen, [expected])


def test_integers_that_were_normalized_are_not_scaled_again():
    encoder = Encoder(gs.Box(0, 60_000, (2,), np.int32))
    np.testing.assert_array_equal(encoder(tf.constant([[-1.0, 0.5]])), [[-1.0, 0.5]])


def seen_by_cnn(space, cnn, image):
    """Return what the CNN gets for an image, ``[H, W, C]``."""
    seen = []
    (part,) = Encoder(space, cnn).parts
    part.cnn = lambda x: seen.append(x) or x
    part.call(tf.constant(image[np.newaxis], spaces.leaves(space)[0].dtype))
    return seen[0][0]


@pytest.mark.parametrize(
    ("space", "cnn", "value", "expected"),
    [
        (gs.Box(0, 255, (8, 8, 4), np.uint8), "auto", 51, 0.2),
        (gs.Box(0, 1, (8, 8, 4), np.uint8), "auto", 1, 1),
        (gs.Box(2, 10, (8, 8, 4), np.uint8), "auto", 4, 0.25),
        (gs.Box(0, 255, (40, 40, 4), np.uint8), "ga3c", 64, -0.5),
        (gs.Box(0, 1, (40, 40, 4), np.uint8), "ga3c", 1, 0),
        (gs.Box(0, 1, (8, 8, 3), np.float32), "auto", 0.25, 0.25),
        (gs.Box(0, 255, (8, 8, 3), np.float64), "auto", 51, 0.2),
        (gs.Box(-1, 1, (8, 8, 3), np.float32), "ga3c", 0.5, 0.5),
        (gs.Box(0, 65_535, (8, 8, 1), np.uint16), "auto", 65_535, 1),
        (gs.Box(2**30, 2**30 + 2, (8, 8, 1), np.int32), "auto", 2**30 + 1, 0.5),
    ],
)
def test_images_are_scaled_by_their_bounds(space, cnn, value, expected):
    seen = seen_by_cnn(space, cnn, np.full(space.shape, value))
    np.testing.assert_allclose(seen, expected, atol=1e-6)


def test_images_are_scaled_by_the_bounds_of_each_channel():
    high = np.broadcast_to(np.uint8([10, 100]), (8, 8, 2))
    space = gs.Box(np.zeros_like(high), high, dtype=np.uint8)
    seen = seen_by_cnn(space, "auto", np.full((8, 8, 2), 5))
    np.testing.assert_allclose(seen, np.broadcast_to([0.5, 0.05], (8, 8, 2)))


@pytest.mark.parametrize("order", ["nhwc", "nchw", "hwcn"])
def test_the_frames_of_a_stack_of_images_become_channels(order):
    sizes = {"n": 4, "h": 40, "w": 36, "c": 3}
    shape = [sizes[axis] for axis in order]
    stack = np.random.default_rng(0).integers(0, 255, shape)
    seen = seen_by_cnn(gs.Box(0, 255, shape, np.uint8), "auto", stack)
    first, second = (axis for axis in order if axis in "nc")
    frames = np.einsum(f"{order}->hw{first}{second}", stack).reshape(40, 36, 12)
    np.testing.assert_allclose(seen, frames / 255, rtol=1e-6)


def test_the_network_of_ga3c_has_the_weights_of_the_original():
    space = gs.Box(0, 255, (84, 84, 4), np.uint8)
    config = networks.NetworkConfig(cnn="ga3c", initializer="fan_in")
    network = networks.actor_critic(make_spec(space, gs.Discrete(6)), config)
    assert network.count_params() == 1_005_623
    for layer in networks.layers(network):
        if not hasattr(layer, "kernel"):
            continue
        limit = 1 / np.sqrt(np.prod(layer.kernel.shape[:-1]))
        largest = np.abs(layer.kernel.numpy()).max()
        assert 0.9 * limit < largest <= limit, layer.name
        assert np.abs(layer.bias.numpy()).max() <= limit, layer.name


@pytest.mark.parametrize("stride", [3, 2, 1])
def test_larger_networks_of_ga3c_have_smaller_strides(stride):
    space = gs.Box(0, 255, (84, 84, 4), np.uint8)
    config = networks.NetworkConfig(cnn=f"ga3c_stride{stride}")
    network = networks.actor_critic(make_spec(space, gs.Discrete(6)), config)
    side = math.ceil(math.ceil(84 / stride) / 2)
    expected = 1_005_623 + 256 * 32 * (side**2 - 11**2)
    assert network.count_params() == expected


# Space, and the layer that needs most of the memory.
SIDE = 1800
HUGE = {
    "floats": (gs.Box(-np.inf, np.inf, (SIDE, SIDE, 3)), "9,720,000 inputs and"),
    "image": (gs.Box(0, 255, (SIDE, SIDE, 3), np.uint8), "3,125,824 inputs and 512"),
    "discrete": (gs.Discrete(2**30), "1,073,741,824 inputs and"),
}


@pytest.mark.parametrize("name", HUGE)
def test_an_observation_whose_first_layer_does_not_fit_is_refused_by_name(
    name, monkeypatch
):
    monkeypatch.setattr(machine, "available_bytes", lambda: 2**33)
    space, layer = HUGE[name]
    both = gs.Dict(a=VECTOR, camera=space)
    message = rf"observation\['camera'\].*{layer}.*8.00 GiB are available.*Resize"
    for build in (networks.actor_critic, q_network.q_network):
        with pytest.raises(UserError, match=message):
            build(make_spec(both))


def test_observations_without_numbers_are_refused():
    with pytest.raises(UserError, match="has no numbers"):
        networks.actor_critic(make_spec(gs.Box(-1, 1, (0,))))


def test_the_layer_behind_each_cnn_has_the_size_of_its_weights():
    space = gs.Box(0, 255, (40, 44, 3), np.uint8)
    for cnn in ("nature", "impala", "small", "ga3c", "ga3c_stride1"):
        encoder = Encoder(space, cnn)
        encoder.build(None)
        (image,) = encoder.parts
        assert image.dense_size() == tuple(image.cnn.stack[-1].kernel.shape)
