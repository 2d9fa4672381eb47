"""Steps and stand-ins for networks whose outputs are the observations; statistics."""

from types import SimpleNamespace

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st

from tfagents_batch import nest
from tfagents_batch.types import ActionValueHeads, TimeStep

MASKED = [True, False, True, True]
SCORES = [1.0, 5.0, 2.0, -0.5]  # of four actions; the second would be the best

scores = st.lists(st.floats(-20, 20, width=32), min_size=4, max_size=4)
masks = st.lists(st.booleans(), min_size=4, max_size=4)


def at(step):
    return tf.constant(step, tf.int64)


def make_step(observation, first=False) -> TimeStep:
    """Return a step with an observation of arrays ``[B, ...]``."""
    observation = nest.map(tf.constant, observation)
    flags = tf.zeros(nest.flatten(observation)[0].shape[:1], tf.bool)
    return TimeStep(observation, tf.zeros(flags.shape), flags | first, flags, flags, {})


def choice(values, mask=None, rows=1) -> TimeStep:
    """Return rows with the same outputs of a network and the same action mask."""
    observation = {"outputs": np.tile(np.float32(values), (rows, 1))}
    if mask is not None:
        observation["action_mask"] = np.tile(mask, (rows, 1))
    return make_step(observation)


def actor(*names):
    """Return an actor whose outputs are entries of the observation."""

    def call(timestep, state=()):
        rows = timestep.observation
        return {name: rows[name] for name in names}, state

    return call


class Values:
    """Network of action values that are the observation's ``outputs``."""

    size, noisy = 4, False

    def noise(self, shape, key):
        return ()

    def __call__(self, timestep, state, noise):
        q = timestep.observation["outputs"]
        allowed = timestep.observation.get("allowed", ())
        return ActionValueHeads(q, q[..., tf.newaxis], allowed), state


class ActorCritic:
    """Actor-critic network whose policy has the observation's ``outputs``.

    It adds its state to the first of them. The state grows by 1 in every step.
    """

    def __init__(self, family, std=None):
        self.family, self._std = family, std

    def initial_state(self, batch):
        return tf.zeros([batch])

    def __call__(self, timestep, state):
        outputs = timestep.observation["outputs"]
        outputs += state[:, tf.newaxis] * tf.one_hot(0, outputs.shape[-1])
        mask = timestep.observation.get("action_mask")
        policy = self.family.make(outputs, self._std, mask)
        return SimpleNamespace(policy=policy, value=state), state + 1


def sample(policy, timestep, step=0, state=(), seed=0) -> np.ndarray:
    """Return an action drawn for each row."""
    noise = nest.map(lambda x: x[0], policy.noise((1, timestep.first.shape[0]), seed))
    return policy.act(timestep, state, noise, at(step), True)[0].numpy()


def assert_frequencies(counts, probabilities) -> None:
    """Check counts by Pearson's chi-square test.

    Correct probabilities fail it with one seed in 10,000: 3.72 is that quantile of the
    normal distribution (Wilson and Hilferty 1931). Outcomes with fewer than 5 expected
    counts are joined, as the test requires. What has a probability of 0 has no counts.
    """
    counts = np.float64(counts)
    expected = counts.sum() * np.float64(probabilities)
    assert np.all(counts[expected == 0] == 0)
    rare = expected < 5
    counts, expected = (np.r_[x[~rare], x[rare].sum()] for x in (counts, expected))
    some = expected >= 5
    counts, expected = counts[some], expected[some]
    freedom = len(counts) - 1
    assert freedom > 0
    part = 2 / (9 * freedom)
    limit = freedom * (1 - part + 3.72 * np.sqrt(part)) ** 3
    assert np.sum((counts - expected) ** 2 / expected) < limit


def assert_valid(probabilities, mask) -> None:
    """Check that probabilities sum to 1 over valid actions, or over all if none is."""
    valid = np.array(mask) if any(mask) else np.ones(len(mask), bool)
    found = np.array(probabilities)
    assert found.dtype == np.float32
    assert np.all((found >= 0) & (found <= 1)) and np.all(found[:, ~valid] == 0)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-6)
