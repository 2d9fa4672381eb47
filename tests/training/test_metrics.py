"""What is counted of a trajectory."""

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tfagents_batch.training import metrics
from tfagents_batch.types import TimeStep, Trajectory

BOX = gymnasium.spaces.Box(-1.0, 1.0, (2,))


def trajectory(action, masked=()):
    """Of two steps in one environment; those named are restart rows."""
    first = np.zeros([3, 1], bool)
    first[[step + 1 for step in masked]] = True
    off = tf.zeros([3, 1], tf.bool)
    info = {
        "episode_return": tf.zeros([3, 1]),
        "episode_length": tf.zeros([3, 1], tf.int32),
    }
    zeros = tf.zeros([3, 1])
    steps = TimeStep(zeros, zeros, tf.constant(first), off, off, info)
    return Trajectory(steps, action, {})


@pytest.mark.parametrize(
    ("masked", "expected"), [((), 0.75), ((0,), 1.0), ((1,), 0.5), ((0, 1), 0.0)]
)
def test_clipped_numbers_are_counted_where_an_action_had_effect(masked, expected):
    action = tf.constant([[[0.5, 1.5]], [[-2.0, 3.0]]])
    found = metrics.clipped_fraction(trajectory(action, masked), BOX)
    assert float(found) == expected


def test_only_boxes_are_clipped():
    space = gymnasium.spaces.Dict({"a": BOX, "b": gymnasium.spaces.Discrete(3)})
    action = {"a": tf.constant([[[0.5, 1.5]]] * 2), "b": tf.constant([[2], [1]])}
    assert float(metrics.clipped_fraction(trajectory(action), space)) == 0.5
    discrete = gymnasium.spaces.Discrete(3)
    assert float(metrics.clipped_fraction(trajectory(action["b"]), discrete)) == 0


def test_environments_in_the_graph_have_their_clipped_actions_counted(tmp_path):
    def run(env):
        return tfb.train(
            env=env,
            steps=400,
            num_envs=4,
            num_workers=None if env.startswith("tf/") else 0,
            rollout_length=50,
            eval_every=0,
            log_every=1,
            compile="off",
            logdir=tmp_path,
            settings={"network": {"init_std": 3.0}, "epochs": 1},
        ).metrics["env/action_clipped_fraction"]

    # Torques of deviation 3 are outside of [-2, 2] in half of all cases.
    assert run("tf/Pendulum-v1") == pytest.approx(run("Pendulum-v1"), abs=0.1)
    assert 0.4 < run("tf/Pendulum-v1") < 0.6
