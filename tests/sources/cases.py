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


def collect(source, seed):
    """Return what a source collects at the start of a run."""
    return source.collect(seed, tf.constant(0, tf.int64))
