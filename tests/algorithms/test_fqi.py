"""Fitted Q iteration: DQN with copies of its target network."""

import gymnasium as gym
import keras
import numpy as np
import tensorflow as tf

from tfagents_batch import config
from tfagents_batch.algorithms import dqn
from tfagents_batch.configs import PRESETS
from tfagents_batch.types import EnvSpec, TimeStep, Trajectory

CELLS, GAMMA, UPDATES = 4, 0.9, 150  # a walk to the right, with reward 1 at its end


def walk() -> Trajectory:
    """Return a row for each cell and each action: left and right."""
    cell = np.repeat(np.arange(CELLS), 2)
    action = np.tile([0, 1], CELLS)
    after = np.maximum(cell + 2 * action - 1, 0)
    end = after == CELLS
    cells = np.eye(CELLS + 1, dtype=np.float32)[np.stack([cell, after])]
    no, end = np.zeros_like(end), np.stack([np.zeros_like(end), end])
    no = np.stack([no, no])
    step = TimeStep(cells, np.float32(end), no, end, no, {})
    step = TimeStep(*(tf.constant(x) for x in step[:-1]), {})
    return Trajectory(step, tf.constant(action[np.newaxis], tf.int32), {})


def test_each_iteration_is_a_step_of_value_iteration():
    settings = PRESETS["rows/fqi"]().settings
    assert settings.target_tau == 1 and settings.target == "max"
    changes = {"gamma": GAMMA, "target_every": UPDATES, "learning_rate": 0.03}
    changes |= {"network": {"hidden": ()}, "histograms": False}
    keras.utils.set_random_seed(0)
    box = gym.spaces.Box(0, 1, (CELLS + 1,))
    spec = EnvSpec(1, box, gym.spaces.Discrete(2), {})
    agent = dqn.DQN(config.replace(settings, changes), spec)
    for part in (agent.network, agent.target):
        for variable in part.trainable_variables:
            variable.assign(tf.zeros_like(variable))
    rows, step = walk(), tf.constant(0, tf.int64)
    update = tf.function(lambda seed: agent.update(rows, seed, step), autograph=False)
    expected = np.zeros(CELLS + 1)
    for _ in range(3):
        for i in range(UPDATES):
            update(tf.constant(i))
        q = np.reshape(rows.steps.reward[1] + GAMMA * expected[after()], [CELLS, 2])
        q = np.where(np.reshape(rows.steps.terminated[1], [CELLS, 2]), 1.0, q)
        expected[:CELLS] = q.max(1)
        found = agent.network(TimeStep(*(x[0] for x in rows.steps[:-1]), {}))[0].q
        np.testing.assert_allclose(np.max(found, 1)[::2], expected[:CELLS], atol=0.01)


def after():
    return np.argmax(walk().steps.observation[1], 1)
