"""Tests of a user's own recurrent network."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms.cases import B, collect, update
from tests.nn.cases import ACTIONS, VECTOR, make_spec, make_steps
from tfagents_batch.algorithms import ppo
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks, user
from tfagents_batch.ops.distributions import for_space
from tfagents_batch.types import ActorCriticHeads


class Elman(keras.Model):
    """Recurrent network h' = tanh(W x + U h), for any action space."""

    def __init__(self, action_space, resets=("call", "unroll"), name="elman"):
        super().__init__(name=name)
        self.family = for_space(action_space)
        self.resets = resets
        self.inputs_ = keras.layers.Dense(6)
        self.back = keras.layers.Dense(6, use_bias=False)
        self.policy = keras.layers.Dense(self.family.size)
        self.value = keras.layers.Dense(1)
        if self.family.needs_std:
            self.log_std = self.add_weight(
                shape=(self.family.size,), initializer="zeros", name="log_std"
            )

    def initial_state(self, batch):
        return {"h": tf.zeros([batch, 6])}

    def step(self, observation, first, state, kind):
        h = state["h"]
        if kind in self.resets:
            h = tf.where(first[:, None], 0.0, h)
        return tf.tanh(self.inputs_(observation) + self.back(h))

    def heads(self, h):
        std = tf.exp(self.log_std) if self.family.needs_std else None
        policy = self.family.make(self.policy(h), std=std)
        return ActorCriticHeads(policy, tf.squeeze(self.value(h), -1))

    def call(self, timestep, state):
        h = self.step(timestep.observation, timestep.first, state, "call")
        return self.heads(h), {"h": h}

    def unroll(self, steps, state):
        outputs = []
        for t in range(steps.first.shape[0]):
            h = self.step(steps.observation[t], steps.first[t], state, "unroll")
            state = {"h": h}
            outputs.append(h)
        return self.heads(tf.stack(outputs)), state


def build(observation_space, action_space):
    return Elman(action_space)


def adapt(network, action=ACTIONS["discrete"], observation=VECTOR):
    spec = make_spec(observation, action)
    return user.actor_critic(network, spec, networks.NetworkConfig())


@pytest.mark.parametrize("action", ACTIONS)
def test_outputs_are_those_of_the_users_model(action):
    models = []

    def builder(*spaces):
        models.append(build(*spaces))
        return models[0]

    network = adapt(builder, ACTIONS[action])
    steps, state = make_steps(VECTOR, 3, 2), network.initial_state(2)
    heads, last = network.unroll(steps, state)
    expected, after = models[0].unroll(steps, state)
    np.testing.assert_array_equal(heads.value, expected.value)
    np.testing.assert_array_equal(last["h"], after["h"])
    assert len(network.trainable_variables) == 7 + network.family.needs_std
    assert not network.convolves
    assert float(networks.added_loss(network)) == 0


def test_a_users_recurrent_network_is_trained():
    keras.utils.set_random_seed(0)
    config = ppo.PPOConfig(sequence_length=4, epochs=1, histograms=False)
    agent = ppo.PPO(config, make_spec(action=ACTIONS["box"], num_envs=B), build)
    assert agent.recurrent
    before = [v.numpy() for v in agent.network.trainable_variables]
    program = functools.partial(update, agent)
    program = tf.function(program, jit_compile=True, autograph=False)
    metrics = program(collect(agent), tf.constant(1))
    assert all(np.isfinite(x) for x in metrics.values() if x.shape.rank == 0)
    after = agent.network.trainable_variables
    assert all(np.any(a != b) for a, b in zip(before, after, strict=True))
    names = agent.learner.named_variables()
    held = {id(v) for v in names.values()}
    assert all(id(v) in held for v in agent.network.variables)


def test_a_model_without_arguments_is_copied():
    class Mine(Elman):
        def __init__(self):
            super().__init__(gs.Discrete(3))

    model = Mine()
    network = adapt(model)
    assert network.model is not model and isinstance(network.model, Mine)


@pytest.mark.parametrize("resets", [("call",), ("unroll",)])
def test_a_state_not_reset_in_both_call_and_unroll_is_refused(resets):
    with pytest.raises(UserError, match=r"'elman'.*differ at step 2, where an episode"):
        adapt(lambda o, a: Elman(a, resets))


def broken_call(self, timestep, state):
    heads, _ = Elman.call(self, timestep, state)
    return heads, {"h": tf.zeros([1, 6])}


def broken_unroll(self, steps, state):
    heads, state = Elman.unroll(self, steps, state)
    return heads._replace(value=heads.value[..., None]), state


def raising_unroll(self, steps, state):
    raise KeyError("h\nand more")


@pytest.mark.parametrize(
    "methods, message",
    [
        ({"call": broken_call}, r"call of 'elman' returns a state .*\(1, 6\)"),
        (
            {"call": lambda self, timestep, state: (tf.zeros([2]), state)},
            "call of .* without policy and value",
        ),
        ({"unroll": broken_unroll}, r"returns values of shape \(4, 2, 1\)"),
        ({"unroll": raising_unroll}, "'elman' fails on steps.*KeyError"),
        ({"unroll": None}, "has initial_state but no unroll"),
        ({"initial_state": None}, "has unroll but no initial_state"),
    ],
)
def test_a_broken_recurrent_network_is_refused(methods, message):
    kind = type("Broken", (Elman,), methods)
    with pytest.raises(UserError, match=message) as caught:
        adapt(lambda o, a: kind(a))
    assert "\n" not in str(caught.value)


def test_wrong_actions_and_dropout_layers_are_refused():
    with pytest.raises(UserError, match=r"actions int32\[4, 2\]; expected float"):
        adapt(lambda o, a: Elman(gs.Discrete(3)), ACTIONS["box"])

    class Drops(Elman):
        def __init__(self, action_space):
            super().__init__(action_space)
            self.drop = keras.layers.Dropout(0.5, name="drop")

    with pytest.raises(UserError, match="layer 'drop'"):
        adapt(lambda o, a: Drops(a))
