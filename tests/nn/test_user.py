import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.nn.cases import ACTIONS, VECTOR, make_spec, make_steps
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks, user


def adapt(network, spec=None):
    return user.actor_critic(network, spec or make_spec(), networks.Config())


def sequential(*layers):
    return keras.Sequential(list(layers), name="mine")


def test_a_feature_model_without_declared_input_gets_heads():
    network = adapt(sequential(keras.layers.Dense(8, "relu")))
    for batch in (2, 5):
        heads, _ = network.unroll(make_steps(VECTOR, 3, batch))
        assert heads.value.shape == (3, batch)
    assert len(network.trainable_variables) == 6


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


def test_a_model_of_both_heads_is_used_as_it_is():
    inputs = keras.Input((3,))
    outputs = {
        "policy": keras.layers.Dense(2)(inputs),
        "value": keras.layers.Dense(1)(inputs),
    }
    model = keras.Model(inputs, outputs)
    network = adapt(model, make_spec(action=ACTIONS["box"]))
    steps = make_steps(VECTOR, 1, 4)
    heads, _ = network.unroll(steps)
    expected = model(steps.observation[0])
    np.testing.assert_allclose(heads.policy.mean[0], expected["policy"], rtol=1e-6)
    np.testing.assert_allclose(heads.value[0], expected["value"][:, 0], rtol=1e-6)
    assert len(network.trainable_variables) == 5  # and the deviation


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (keras.layers.Dropout(0.5, name="drop"), "drop"),
        (keras.layers.BatchNormalization(name="norm"), "norm"),
    ],
)
def test_layers_that_differ_in_training_are_refused_by_name(layer, name):
    inner = keras.Sequential([keras.layers.Dense(4), layer], name="inner")
    with pytest.raises(UserError, match=f"layer '{name}'.*Dropout|'{name}'.*Batch"):
        adapt(sequential(inner, keras.layers.Dense(4)))


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (3, "network is int; expected a keras.Model"),
        (lambda o, a: "x", "builder returned str"),
        (
            sequential(keras.layers.Reshape((3, 1))),
            r"'mine' returns .*shape \(None, 3, 1\); expected features",
        ),
        (
            sequential(keras.Input((7,)), keras.layers.Dense(2)),
            "'mine' does not take the observations",
        ),
    ],
)
def test_what_cannot_be_used_is_named(network, message):
    with pytest.raises(UserError, match=message):
        adapt(network)


@pytest.mark.parametrize(
    ("policy", "value", "message"),
    [
        (5, 1, r"output 'policy' .* \(None, 5\); expected \(None, 3\)"),
        (3, 2, r"output 'value' .* \(None, 2\)"),
    ],
)
def test_heads_of_the_wrong_width_are_named(policy, value, message):
    inputs = keras.Input((3,))
    outputs = {
        "policy": keras.layers.Dense(policy)(inputs),
        "value": keras.layers.Dense(value)(inputs),
    }
    with pytest.raises(UserError, match=message):
        adapt(keras.Model(inputs, outputs))


def test_heads_with_other_keys_are_named():
    inputs = keras.Input((3,))
    model = keras.Model(inputs, {"logits": keras.layers.Dense(3)(inputs)})
    with pytest.raises(UserError, match=r"returns keys \['logits'\]"):
        adapt(model)


def test_another_keras_backend_is_refused(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(UserError, match=r"'jax'.*KERAS_BACKEND=tensorflow"):
        adapt(sequential(keras.layers.Dense(2)))


def test_gradients_reach_the_users_weights():
    model = sequential(keras.layers.Dense(4, "tanh"))
    network = adapt(model)
    with tf.GradientTape() as tape:
        heads, _ = network.unroll(make_steps(VECTOR, 2, 2))
        loss = tf.reduce_sum(heads.value)
    assert tape.gradient(loss, model.trainable_variables[0].value) is not None
