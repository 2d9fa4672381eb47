"""Networks of actors and values with a core: one step at a time, and unrolled."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.nn.cases import ACTIONS, OBSERVATIONS, VECTOR, make_spec, make_steps
from tfagents_batch import nest
from tfagents_batch.nn import actor, critics, networks, q_network, recurrent_encoder

T, B = 5, 3
CONTEXTS = gs.Dict({"x": VECTOR, "action_features": gs.Box(-1, 1, (3, 2))})
MASKED = gs.Dict({"x": VECTOR, "action_mask": gs.MultiBinary(3)})


def features(observation_space, action_space):
    return keras.Sequential([keras.layers.Dense(6, "tanh", name="mine")])


def q(observation, network=None, **settings):
    config = q_network.QConfig(hidden=(4, 5), **settings)
    return q_network.q_network(make_spec(observation), config, network)


def values(network, steps, state):
    heads, state = network(steps, state)
    return heads.q, state


@pytest.mark.parametrize(
    ("observation", "options"),
    [
        (VECTOR, {"core": "gru"}),
        (VECTOR, {"core": "lstm", "dueling": True, "layer_norm": True}),
        (VECTOR, {"core": "lstm", "network": features}),
        (CONTEXTS, {"core": "gru"}),
        (MASKED, {"core": "gru", "dueling": True}),
        (OBSERVATIONS["small_image"], {"core": "gru"}),
    ],
)
def test_values_of_single_steps_are_those_of_an_unroll(observation, options):
    network = q(observation, **options)
    check(network, observation, values, lambda *x: values_of(network, *x))


def values_of(network, steps, state):
    heads, state = network.unroll(steps, state)
    return heads.q, state


@pytest.mark.parametrize("body", ["mlp", "residual"])
def test_outputs_of_an_actor_are_those_of_an_unroll(body):
    config = actor.ActorConfig(hidden=(5, 5), core="gru", body=body)
    network = actor.ActorNetwork(make_spec(), config, {"logits": 3})

    def single(network, step, state):
        outputs, state = network(step, state)
        return outputs["logits"], state

    def unrolled(steps, state):
        steps, state = network.encoder.unroll(steps, state)
        outputs, _ = network(nest.fold(steps))
        return nest.unfold(outputs["logits"], T, B), state

    check(network, VECTOR, single, unrolled)


def test_all_hidden_layers_of_critics_follow_the_core():
    config = actor.ActorConfig(hidden=(4, 5), core="lstm")
    spec = make_spec(action=ACTIONS["box"])
    network = critics.Critics(spec, config, 2, inputs=2)
    assert network.encoder.core.units == 5 and not network.encoder.tower.stack
    action, taken = tf.random.stateless_uniform([T, B, 2], [0, 1]), [*range(T)]

    def single(network, step, state):
        step, state = network.encoder.step(step, state)
        return network(step, action[taken.pop(0)])[0], state

    def unrolled(steps, state):
        steps, state = network.encoder.unroll(steps, state)
        value = network(nest.fold(steps), nest.fold(action))[0]
        return tf.reshape(value, [T, B]), state

    check(network, VECTOR, single, unrolled)


def check(network, observation, single, unrolled):
    """Compare steps one by one with all at once, with restarts."""
    steps = make_steps(observation, T, B)
    first = np.random.default_rng(0).random((T, B)) < 0.3
    steps = steps._replace(first=tf.constant(first))
    encoder = recurrent_encoder.of(network)
    assert encoder is not None
    start = encoder.initial_state(B)
    start = nest.map(lambda x: x + 0.3, start)
    outputs, state = [], start
    for t in range(T):
        found, state = single(network, nest.map(lambda x, t=t: x[t], steps), state)
        outputs.append(found)
    expected, last = unrolled(steps, start)
    np.testing.assert_allclose(tf.stack(outputs), expected, rtol=1e-4, atol=1e-5)
    for mine, other in zip(nest.flatten(state), nest.flatten(last), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)


def test_a_network_without_a_core_remembers_nothing():
    network = q(VECTOR)
    steps = networks.dummy_steps(make_spec())
    assert recurrent_encoder.of(network) is None
    assert recurrent_encoder.remembered(network, steps, ()) == (steps, ())
    assert network.initial_state(2) == ()
