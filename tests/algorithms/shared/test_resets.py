"""Resets: what they change, and when. A resumed run has the same, see test_dqn.py."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms import cases
from tfagents_batch.algorithms import dqn
from tfagents_batch.errors import UserError

NAMES = "dqn", "sac", "td3", "ddpg"


def make(name, **settings):
    return cases.make(name, reset_every=2, target_tau=0.5, **settings)


def updated(agent, count, jit=False, seed=7):
    """Return the variables after each of ``count`` updates on the same batch."""

    def update(seed):
        return agent.update(batch, seed, tf.constant(5000, tf.int64)).metrics

    batch, found = cases.experience(agent), []
    if jit:
        update = tf.function(update, jit_compile=True, autograph=False)
    for index in range(count):
        metrics = update(tf.constant(seed + index))
        assert np.isfinite(metrics["grad/norm"])
        found.append(cases.named(agent))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_reset_begins_anew_after_every_so_many_updates(name):
    agent = make(name)
    start = cases.named(agent)
    first, reset, later = updated(agent, 3)
    assert [int(x["learner/updates"]) for x in (first, reset, later)] == [1, 2, 3]
    kernels = [k for k in start if k.endswith("kernel") and "/target" not in k]
    assert len(kernels) >= 2
    for key in kernels:
        assert np.abs(first[key] - start[key]).max() < 0.1  # by a single step
        assert np.abs(reset[key] - start[key]).max() > np.std(start[key])
        assert np.std(reset[key]) == pytest.approx(np.std(start[key]), rel=0.4)
        assert np.abs(later[key] - reset[key]).max() < 0.1
    for key, value in reset.items():
        if "/optimizer/" in key and not key.endswith("/001"):  # the learning rate
            np.testing.assert_array_equal(value, np.zeros_like(value), err_msg=key)
        if key.endswith(("bias", "log_temperature")):
            np.testing.assert_array_equal(value, start[key], err_msg=key)


def test_critics_without_targets_and_their_moving_means_begin_anew():
    agent = cases.make("sac", reset_every=2, critic={"batch_renorm": True})
    start = cases.named(agent)
    first, reset = updated(agent, 2)
    for name in ("mean", "variance", "batches"):
        keys = [key for key in start if key.endswith(f"-{name}")]
        assert len(keys) == 2
        for key in keys:
            assert np.any(first[key] != start[key])
            np.testing.assert_array_equal(reset[key], start[key], err_msg=key)
    kernels = [key for key in start if "critics" in key and key.endswith("kernel")]
    for key in kernels:
        assert np.abs(reset[key] - start[key]).max() > np.std(start[key])


@pytest.mark.parametrize("name", NAMES)
def test_targets_are_copies_after_a_reset(name):
    agent = make(name)
    updated(agent, 2)
    pairs = agent.learner._target._pairs()
    assert pairs
    for target, learned in pairs:
        np.testing.assert_array_equal(target.numpy(), learned.numpy())


@pytest.mark.parametrize("name", ["dqn", "sac"])
def test_a_compiled_reset_equals_an_eager_one(name):
    compiled, eager = (updated(make(name), 3, jit)[1:] for jit in (True, False))
    for one, other in zip(compiled, eager, strict=True):
        cases.assert_equal(one, other, rtol=1e-4, atol=1e-5)


def test_the_seed_of_the_update_decides_what_is_drawn():
    def kernel(seed):
        return updated(make("dqn"), 2, seed=seed)[1]["policy/network/000-kernel"]

    np.testing.assert_array_equal(kernel(7), kernel(7))
    assert np.abs(kernel(7) - kernel(8)).max() > 0.1


def test_every_network_of_an_actor_and_critics_is_drawn_from_its_own_numbers():
    reset = updated(make("sac"), 2)[1]
    one, two = reset["learner/critics/000-kernel"]
    assert np.abs(one - two).max() > 0.1
    mean, std = (reset[f"policy/network/00{i}-kernel"] for i in (2, 4))
    assert np.abs(mean - std).max() > 1e-3


def test_rmsprop_of_tensorflow_begins_with_ones_again():
    agent = make("dqn", optimizer="rmsprop_tf")
    reset = updated(agent, 2)[1]
    np.testing.assert_array_equal(reset["learner/optimizer/network/002"], 1.0)


@pytest.mark.filterwarnings("ignore:network.hidden")
@pytest.mark.parametrize("name", ["dqn", "sac"])
def test_layers_of_keras_in_a_users_network_are_drawn(name):
    def build(*_):
        inputs = keras.Input((3,))
        hidden = keras.layers.Dense(4, "relu")(inputs)
        return keras.Model(inputs, keras.layers.LayerNormalization()(hidden))

    agent = make(name, network=build)
    start = agent.network.trainable_variables[0].numpy()
    updated(agent, 2)
    found = agent.network.trainable_variables[0].numpy()
    assert np.abs(found - start).max() > 0.1
    assert np.abs(found).max() <= np.sqrt(6 / 7)  # Glorot's limit


@pytest.mark.filterwarnings("ignore:network.hidden")
def test_a_users_weight_that_cannot_be_drawn_is_refused():
    class Own(keras.layers.Layer):
        def build(self, shape):
            self.scale = self.add_weight(shape=(3,), initializer="random_normal")

        def call(self, x):
            return x * self.scale

    def build(*_):
        inputs = keras.Input((3,))
        return keras.Model(inputs, Own(name="own")(inputs))

    cases.make("dqn", network=build)
    with pytest.raises(UserError, match=r"reset_every is given.*own/.*leave --algor"):
        make("dqn", network=build)


def test_without_resets_an_update_has_no_branch_for_them():
    def operations(**settings):
        agent = cases.make("dqn", **settings)
        batch = cases.experience(agent)
        program = tf.function(
            lambda x: agent.update(x, 7, tf.constant(1, tf.int64))[0], autograph=False
        )
        graph = program.get_concrete_function(batch).graph
        return [x.type for x in graph.get_operations()]

    assert operations(reset_every=2).count("If") == operations().count("If") + 1


def test_settings_of_resets_are_checked():
    with pytest.raises(UserError, match="reset_every is 0; expected at least 1"):
        dqn.DQNConfig(reset_every=0).check()
