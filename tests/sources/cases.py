"""Actor and a call for the tests of sources."""

import tensorflow as tf

from tfagents_batch import seeds


class Counter:
    """Actor that chooses 0 or 1 by its noise; its state counts its steps."""

    def initial_state(self, batch):
        return (tf.zeros([batch], tf.int32),)

    def noise(self, shape, seed):
        return seeds.uniform(shape, seeds.key(seed, "action"))

    def act(self, timestep, state, noise, step, explore):
        action = tf.cast(noise > 0.5, tf.int32) if explore else tf.zeros_like(state[0])
        behavior = {"count": state[0], "noise": noise}
        return action, behavior, (state[0] + 1,)


def outline(source):
    """Return the specs of what a source collects, by the graph that collects it."""
    traced = tf.function(
        lambda seed, step: source.collect(seed, step).trajectory, autograph=False
    )
    specs = tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.int64)
    return traced.get_concrete_function(*specs).structured_outputs


def assert_same_specs(one, other):
    """Check that two nests have the same structure, shapes and dtypes."""
    tf.nest.assert_same_structure(one, other)
    for x, y in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype


def collect(source, seed):
    """Return what a source collects at the start of a run."""
    return source.collect(seed, tf.constant(0, tf.int64))
