import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.nn.cases import ACTIONS, VECTOR, make_spec, make_steps
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks, user
from tfagents_batch.nn.q_network import q_network


def adapt(network, spec=None):
    return user.actor_critic(network, spec or make_spec(), networks.NetworkConfig())


def sequential(*layers):
    return keras.Sequential(list(layers), name="mine")


def actor_critic(*spaces):
    return lambda *_: networks.actor_critic(make_spec(*spaces))


def test_a_feature_model_without_declared_input_gets_heads():
    network = adapt(sequential(keras.layers.Dense(8, "relu")))
    for batch in (2, 5):
        heads, _ = network.unroll(make_steps(VECTOR, 3, batch))
        assert heads.value.shape == (3, batch)
    assert len(network.trainable_variables) == 6


def test_added_heads_follow_the_settings():
    config = networks.NetworkConfig(mean="tanh", policy_scale=100.0)
    model = sequential(keras.layers.Dense(8, "relu"))
    network = user.actor_critic(model, make_spec(action=ACTIONS["box"]), config)
    heads, _ = network.unroll(make_steps(VECTOR, 3, 2))
    assert 0.9 < np.max(np.abs(heads.policy.mean)) <= 1


@pytest.mark.parametrize(
    ("make", "unused"),
    [
        (lambda: both_heads(), {"hidden", "policy_scale", "core"}),
        (lambda: sequential(keras.layers.Dense(4)), {"hidden", "core"}),
    ],
)
def test_unused_settings_are_named_in_a_warning(make, unused):
    config = networks.NetworkConfig(
        hidden=(5,), core="gru", policy_scale=0.1, init_std=0.5, min_std=0.1
    )
    with pytest.warns(UserWarning, match="not used, as model") as caught:
        user.actor_critic(lambda *_: make(), make_spec(action=ACTIONS["box"]), config)
    assert set(re.findall(r"network\.(\w+)=", str(caught[0].message))) == unused


def test_a_builder_gets_the_spaces_without_the_mask():
    space = gs.Dict(features=VECTOR, action_mask=gs.MultiBinary(3))
    seen = {}

    def build(observation_space, action_space):
        seen.update(observation=observation_space, action=action_space)
        inputs = {"features": keras.Input((3,), name="features")}
        return keras.Model(inputs, keras.layers.Dense(4)(inputs["features"]))

    network = adapt(build, make_spec(space))
    assert seen["observation"] == gs.Dict(features=VECTOR)
    assert seen["action"] == ACTIONS["discrete"]
    heads, _ = network.unroll(make_steps(space, 2, 2))
    assert heads.policy.logits.shape == (2, 2, 3)


def both_heads(**sizes):
    inputs = keras.Input((3,))
    sizes = sizes or {"policy": 2, "value": 1}
    outputs = {name: keras.layers.Dense(size)(inputs) for name, size in sizes.items()}
    return keras.Model(inputs, outputs)


def test_a_builders_model_with_both_heads_is_used_unchanged():
    model = both_heads()
    network = adapt(lambda *_: model, make_spec(action=ACTIONS["box"]))
    steps = make_steps(VECTOR, 1, 4)
    with tf.GradientTape() as tape:
        heads, _ = network.unroll(steps)
        loss = tf.reduce_sum(heads.value)
    kernel = model.layers[-1].trainable_variables[0]
    assert tape.gradient(loss, kernel.value) is not None
    assert float(networks.added_loss(network)) == 0
    expected = model(steps.observation[0])
    np.testing.assert_allclose(heads.policy.mean[0], expected["policy"], rtol=1e-6)
    np.testing.assert_allclose(heads.value[0], expected["value"][:, 0], rtol=1e-6)
    assert len(network.trainable_variables) == 5  # with the standard deviation


@pytest.mark.parametrize("scaled", [True, False])
def test_a_users_policy_is_in_units_of_the_range_of_actions(scaled):
    model = both_heads()
    spec = make_spec(action=gs.Box(-2000, 2000, (2,)))
    config = networks.NetworkConfig(scale_actions=scaled)
    network = user.actor_critic(lambda *_: model, spec, config)
    steps = make_steps(VECTOR, 1, 4)
    policy, unit = network.unroll(steps)[0].policy, 2000 if scaled else 1
    outputs = model(steps.observation[0])["policy"]
    np.testing.assert_allclose(policy.mean[0], unit * outputs, rtol=1e-6)
    np.testing.assert_allclose(policy.std[0], tf.fill([4, 2], float(unit)), rtol=1e-6)


class Plain(keras.Model):
    """Typical subclass of a user."""

    def __init__(self):
        super().__init__(name="plain")
        self.dense = keras.layers.Dense(4)

    def call(self, x):
        return self.dense(x)


class Sized(keras.Model):
    """Subclass without get_config, so its size cannot be copied."""

    def __init__(self, units=3, **options):
        super().__init__(name="sized", **options)
        self.units = units
        self.dense = keras.layers.Dense(units)

    def call(self, x):
        return self.dense(x)


class Described(Sized):
    def get_config(self):
        return {"units": self.units}


MODELS = {
    "sequential": lambda: sequential(keras.layers.Dense(4)),
    "functional": both_heads,
    "plain": Plain,
    "described": lambda: Described(7),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_copied_with_weights_from_the_seed(name):
    model = MODELS[name]()
    model(tf.ones([1, 3]))
    before = [weight.numpy() for weight in model.weights]
    spec = make_spec(action=ACTIONS["box"])
    weights = []
    for seed in (1, 1, 2):
        keras.utils.set_random_seed(seed)
        network = adapt(model, spec)
        weights.append([weight.numpy() for weight in network.weights])
        for weight in network.weights:
            weight.assign(weight + 1.0)
    for a, b in zip(weights[0], weights[1], strict=True):
        np.testing.assert_array_equal(a, b)
    assert any(np.any(a != b) for a, b in zip(weights[0], weights[2], strict=True))
    for a, b in zip(before, model.weights, strict=True):
        np.testing.assert_array_equal(a, b)
    shapes = {weight.shape for weight in weights[0]}
    assert {weight.shape for weight in before} <= shapes


@pytest.mark.parametrize(
    "model",
    [
        Sized(7),
        Sized(units=7),
        sequential(Sized(7)),
        networks.actor_critic(make_spec()),
        sequential(keras.layers.Dense(2), keras.layers.Lambda(lambda x: x)),
    ],
)
def test_a_model_that_cannot_be_copied_asks_for_a_builder(model):
    with pytest.raises(UserError, match=r"cannot be copied.*pass a function of"):
        adapt(model)


@pytest.mark.parametrize(
    "layer",
    [
        keras.layers.Dropout(0.5, name="mine"),
        keras.layers.BatchNormalization(name="mine"),
    ],
)
def test_dropout_and_batch_normalization_are_refused_by_name(layer):
    inner = keras.Sequential([keras.layers.Dense(4), layer], name="inner")
    with pytest.raises(UserError, match="layer 'mine'"):
        adapt(sequential(inner, keras.layers.Dense(4)))


L = keras.layers
RANDOM = {
    "noise": lambda: L.GaussianNoise(1.0),
    "gaussian dropout": lambda: L.GaussianDropout(0.5),
    "alpha dropout": lambda: L.AlphaDropout(0.5),
    "spectral normalization": lambda: L.SpectralNormalization(L.Dense(4)),
    "dropout of a cell": lambda: sequential(
        L.Reshape((2, 2)), L.Bidirectional(L.LSTM(4, dropout=0.5))
    ),
    "dropout of a state": lambda: sequential(
        L.Reshape((2, 2)), L.RNN(L.StackedRNNCells([L.GRUCell(4, recurrent_dropout=1)]))
    ),
    "dropout of channels": lambda: sequential(
        L.Reshape((2, 2)), L.SpatialDropout1D(0.5), L.Flatten()
    ),
    "dropout of attention": lambda: Attends(dropout=0.1),
    "augmentation": lambda: sequential(
        L.Reshape((2, 2, 1)), L.RandomTranslation(0.1, 0.1), L.Flatten()
    ),
}


class Attends(keras.layers.Layer):
    def __init__(self, **options):
        super().__init__()
        self.attention = L.MultiHeadAttention(1, 2, **options)

    def call(self, x):
        return self.attention(x[:, None], x[:, None])[:, 0]


@pytest.mark.parametrize("name", RANDOM)
def test_layers_that_act_in_training_only_are_refused(name):
    with pytest.raises(UserError, match="acts differently in training"):
        adapt(lambda *_: sequential(L.Dense(4), RANDOM[name](), L.Dense(4)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: sequential(L.Reshape((2, 2)), L.Bidirectional(L.LSTM(4))),
        lambda: sequential(L.Reshape((2, 2)), L.RNN(L.GRUCell(4))),
        lambda: Attends(),
        lambda: L.Dropout(0.0),
        lambda: L.LayerNormalization(),
        lambda: L.Normalization(mean=0.0, variance=1.0),
    ],
)
def test_layers_that_act_alike_in_training_are_accepted(make):
    network = adapt(lambda *_: sequential(L.Dense(4), make(), L.Dense(4)))
    assert network.unroll(make_steps(VECTOR, 3, 2))[0].value.shape == (3, 2)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (3, "network is int; expected a keras.Model"),
        (lambda o, a: "x", "builder .* returned str"),
        (lambda o: "x", r"builder '.*<lambda>' cannot be called with two arguments"),
        (lambda o, a, b: "x", r"two arguments \(missing a required argument: 'b'\)"),
        (
            sequential(keras.layers.Reshape((3, 1))),
            r"'mine' returns .*shape \(None, 3, 1\); expected features",
        ),
        (
            sequential(keras.Input((7,)), keras.layers.Dense(2)),
            "'mine' does not take the observations",
        ),
        (
            both_heads(policy=5, value=1),
            r"output 'policy' .* \(None, 5\); expected \(None, 3\)",
        ),
        (both_heads(policy=3, value=2), r"output 'value' .* \(None, 2\)"),
        (both_heads(logits=3), r"returns keys \['logits'\]"),
        (actor_critic(VECTOR, gs.Discrete(4)), "this action space needs Categorical"),
        (actor_critic(VECTOR, ACTIONS["box"]), "this action space needs Categorical"),
        (
            actor_critic(gs.Box(-1, 1, (7,))),
            "'actor_critic' does not take observations",
        ),
    ],
)
def test_an_unusable_network_is_refused(network, message):
    with pytest.raises(UserError, match=message):
        adapt(network)


def test_another_keras_backend_is_refused(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(UserError, match=r"'jax'.*KERAS_BACKEND=tensorflow"):
        adapt(sequential(keras.layers.Dense(2)))


def test_a_builder_that_raises_is_named_with_its_error():
    def build(observation_space, action_space):
        raise KeyError("image\nand more")

    with pytest.raises(
        UserError, match=r"builder '.*build' raised KeyError: "
    ) as caught:
        adapt(build)
    assert isinstance(caught.value.__cause__, KeyError)
    assert "\n" not in str(caught.value)


def test_layers_created_in_build_are_checked_too():
    class Late(keras.Model):
        def build(self, shape):
            self.late = keras.layers.Dropout(0.5, name="late")

        def call(self, x):
            return self.late(x)

    with pytest.raises(UserError, match="acts differently in training"):
        adapt(lambda *_: Late())


class Noisy(keras.layers.Layer):
    def call(self, x, training=None):
        return x + tf.random.normal(tf.shape(x)) if training else x


class Drops(keras.Model):
    def call(self, x, training=False):
        return tf.nn.dropout(x, 0.1) if training else x


class Follows(keras.layers.Layer):
    """Uses the mean of earlier batches, and updates it in training."""

    def build(self, shape):
        self.mean = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, x, training=None):
        shifted = x - self.mean
        if training:
            self.mean.assign(tf.reduce_mean(x) + 1)
        return shifted


@pytest.mark.parametrize(
    "make",
    [
        lambda: sequential(L.Dense(4), Noisy()),
        lambda: Drops(),
        lambda: sequential(Follows()),
        lambda: sequential(L.Lambda(lambda x, training=None: x * 2 if training else x)),
    ],
)
def test_a_users_own_layer_that_acts_in_training_only_is_refused(make):
    with pytest.raises(UserError, match="acts differently in training"):
        adapt(lambda *_: make())
    with pytest.raises(UserError, match="acts differently in training"):
        q_network(make_spec(), network=lambda *_: make())


class AlwaysNoisy(keras.layers.Layer):
    def call(self, x, training=None):
        return x + tf.random.normal(tf.shape(x))


class Refuses(keras.layers.Layer):
    """Refuses numbers that it is tried with, as a check of an own range may do."""

    def call(self, x, training=None):
        if tf.executing_eagerly() and tf.reduce_any(x != 0):
            raise ValueError("out of range")
        return x


class Passes(keras.layers.Layer):
    def call(self, x, training=None):
        return x


@pytest.mark.parametrize("layer", [AlwaysNoisy, Refuses, Passes])
def test_a_users_own_layer_that_acts_alike_in_training_is_accepted(layer):
    adapt(lambda *_: sequential(L.Dense(4), layer()))


def test_a_constraint_of_weights_is_refused():
    limit = keras.constraints.MaxNorm(1.0)

    class Own(keras.Model):
        def build(self, shape):
            self.scale = self.add_weight(shape=(), constraint=limit)

        def call(self, x):
            return x * self.scale

    for make in Own, lambda: sequential(L.Dense(4, kernel_constraint=limit)):
        with pytest.raises(UserError, match="has the constraint MaxNorm"):
            adapt(lambda *_, make=make: make())


class Records(keras.layers.Layer):
    def call(self, x, training=True):
        self.modes = {*getattr(self, "modes", ()), bool(training)}
        return x


def test_a_users_layer_is_never_called_in_training_mode():
    policy = keras.layers.Dense(3, name="policy")
    value = keras.layers.Dense(1, name="value")
    x = keras.Input((3,))
    one, other = Records(), Records()
    heads = keras.Model(x, {"policy": policy(other(x)), "value": value(x)[:, 0]})
    for layer, model in (one, sequential(one)), (other, heads):
        network = adapt(lambda *_, model=model: model)
        layer.modes = ()
        network.unroll(make_steps(VECTOR, 2, 2))
        assert layer.modes == {False}


def test_an_actor_critic_from_a_builder_is_used_if_its_layers_are_allowed():
    model = networks.actor_critic(make_spec())
    assert adapt(lambda *_: model) is model
    body = sequential(keras.layers.Dropout(0.5, name="drop"))
    towers = networks.Towers(body, (), "linear", 3)
    with pytest.raises(UserError, match="layer 'drop'"):
        adapt(lambda *_: networks.ActorCritic(towers, make_spec()))


class Adds(keras.layers.Layer):
    def call(self, x):
        self.add_loss(tf.reduce_mean(tf.square(x)))
        return x


def test_losses_of_layers_come_from_the_last_call():
    network = adapt(
        lambda *_: sequential(
            keras.layers.Dense(4, kernel_regularizer=keras.regularizers.L2(0.5)), Adds()
        )
    )
    kernel = network.trainable_variables[0]
    assert kernel.shape == (3, 4)

    def loss(observation):
        steps = make_steps(VECTOR, 1, 2)
        network(steps._replace(observation=observation))
        with tf.GradientTape() as tape:
            network(steps._replace(observation=observation))
            loss = networks.added_loss(network)
        return loss, tape.gradient(loss, kernel.value)

    compiled = [
        tf.function(loss, jit_compile=jit, autograph=False) for jit in (False, True)
    ]
    observation = tf.constant([[1.0, 2.0, 3.0], [-1.0, 0.0, 1.0]])
    for _ in range(2):
        added = np.mean(np.square(observation.numpy() @ kernel.numpy()))
        expected = 0.5 * np.sum(np.square(kernel.numpy())) + added
        for function in (loss, *compiled):
            got, gradient = function(observation)
            np.testing.assert_allclose(got, expected, rtol=1e-5)
            assert np.any(gradient)
        assert not any(tf.is_symbolic_tensor(x) for x in network.losses)
        kernel.assign(kernel * 2)


@pytest.mark.parametrize(
    ("dtype", "policy"), [(None, "mixed_bfloat16"), ("float32", "float32")]
)
def test_only_the_users_layers_use_the_global_dtype_policy(dtype, policy):
    mine = []

    def builder(observation_space, action_space):
        mine.append(keras.layers.Dense(4, dtype=dtype))
        return keras.Sequential(mine, name="mine")

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        network = user.actor_critic(builder, make_spec(), networks.NetworkConfig())
    finally:
        keras.config.set_dtype_policy(before)
    assert mine[0].dtype_policy.name == policy
    for layer in networks.layers(network):
        inside = isinstance(layer, keras.layers.InputLayer) or layer.name == "mine"
        if not inside and layer is not mine[0]:
            assert layer.dtype_policy.name == "float32", layer.name
