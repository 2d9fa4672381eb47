"""Catch, the gridworld, the bandit and the T-maze follow their rules."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tfagents_batch.errors import UserError


def play(env, actions, seed=1):
    """Return the TimeSteps of some actions, which all rows take."""
    state, step = env.init(seed)
    steps = [step]
    for action in actions:
        state, step = env.step(state, tf.fill([env.spec.num_envs], action))
        steps.append(step)
    return steps


def test_a_ball_is_caught_by_a_paddle_below_it():
    env = tfb.make_env("tf/Catch-v0", num_envs=40)
    steps = play(env, [1] * 9)
    column = np.argmax(steps[0].observation.numpy()[:, 0], -1)
    assert set(column) == set(range(5))
    np.testing.assert_array_equal(steps[-1].terminated, True)
    np.testing.assert_array_equal(steps[-1].reward, np.where(column == 2, 1.0, -1.0))
    assert all(np.all(step.reward == 0) for step in steps[:-1])


@functools.cache
def flappy_program():
    """Return a batch of one game and its compiled step."""
    env = tfb.make_env("tf/Flappy-v0", num_envs=1)
    return env, tf.function(env.step, jit_compile=True, autograph=False)


def flappy(actions):
    """Play ``actions(y, gap)``; return the TimeSteps, of one row."""
    env, step = flappy_program()
    state, first = env.init(3)
    steps = [first]
    while not steps[-1].last[0] and len(steps) < 500:
        inner = tf.nest.map_structure(lambda x: x[0].numpy(), state.inner)
        ahead = min(
            (x, gap) for x, gap in zip(inner.x, inner.gap, strict=True) if x > 3
        )
        state, now = step(state, tf.constant([actions(inner.y, ahead[1])]))
        steps.append(now)
    return steps


def test_a_bird_that_stays_above_the_edge_of_the_gap_passes_every_pipe():
    steps = flappy(lambda y, gap: int(y > gap + 18))
    assert len(steps) == 500
    rewards = np.array([float(step.reward[0]) for step in steps])
    assert set(rewards) == {0.0, 1.0}
    assert set(np.diff(np.flatnonzero(rewards))) == {23}
    # The newest frame comes last, and pipes move to the left.
    before, after = (steps[i].observation[0].numpy() for i in (40, 41))
    np.testing.assert_array_equal(after[..., :3], before[..., 1:])
    pipes = [frame == 128 for frame in (before[..., -1], after[..., -1])]
    np.testing.assert_array_equal(pipes[1][60:, 25:-2], pipes[0][60:, 27:])


@pytest.mark.parametrize(("action", "latest"), [(0, 25), (1, 60)])
def test_a_bird_that_only_falls_or_flaps_crashes(action, latest):
    steps = flappy(lambda y, gap: action)
    assert len(steps) < latest and bool(steps[-1].terminated[0])
    assert [float(step.reward[0]) for step in steps[-2:]] == [0, -1]


MAZE = ("S #", " XG", "   ")


def test_walls_block_and_goals_and_traps_end_the_episode():
    kwargs = {"layout": MAZE, "step_reward": -0.1}
    env = tfb.make_env("tf/GridWorld-v0", num_envs=1, env_kwargs=kwargs)
    up, right, down = 0, 1, 2
    steps = play(env, [up, right, right, down])  # into the trap
    rewards = [float(step.reward[0]) for step in steps[1:]]
    np.testing.assert_allclose(rewards, [-0.1, -0.1, -0.1, -1])
    assert bool(steps[-1].terminated[0])
    # Rows and columns count from 0, at the wall around the layout.
    np.testing.assert_allclose(steps[3].observation[0] * 4, [1, 2])
    steps = play(env, [down, down, right, right, up])
    assert float(steps[-1].reward[0]) == 1 and bool(steps[-1].terminated[0])


def test_steps_slip_with_the_given_probability():
    kwargs = {"layout": ("   G", "    ", " S  ", "    "), "slip": 0.5}
    env = tfb.make_env("tf/GridWorld-v0", num_envs=4000, env_kwargs=kwargs)
    steps = play(env, [1])
    moved = (steps[1].observation - steps[0].observation).numpy() * 5
    right = np.mean(np.isclose(moved[:, 1], 1))
    assert abs(right - 0.625) < 0.04  # half, and a quarter of the other half


@pytest.mark.parametrize(
    "layout, message",
    [
        (("S ", "   G"), "rows of equal length"),
        (("S?G",), r"unknown cells \['\?'\]"),
        (("S  ",), "a goal G"),
        (("#G#",), "free cell"),
    ],
)
def test_an_invalid_layout_is_refused(layout, message):
    with pytest.raises(UserError, match=message):
        tfb.make_env("tf/GridWorld-v0", env_kwargs={"layout": layout})


def test_arms_pay_their_mean_rewards():
    kwargs = {"means": [1.0, -2.0], "noise": 0.5}
    env = tfb.make_env("tf/Bandit-v0", num_envs=5000, env_kwargs=kwargs)
    for arm, mean in enumerate([1.0, -2.0]):
        step = play(env, [arm])[1]
        reward = step.reward.numpy()
        assert abs(reward.mean() - mean) < 0.05 and abs(reward.std() - 0.5) < 0.05
        np.testing.assert_array_equal(step.terminated, True)


def test_the_maze_rewards_turns_in_the_direction_of_the_sign():
    env = tfb.make_env("tf/TMaze-v0", num_envs=20, env_kwargs={"length": 3})
    north, east = 0, 1
    steps = play(env, [north, east, east, east, north])
    sign = steps[0].observation.numpy()[:, 0]
    assert set(sign) == {-1.0, 1.0}
    np.testing.assert_allclose(steps[1].reward, -0.1)  # a wall; the sign stays visible
    np.testing.assert_array_equal(steps[1].observation[:, 0], sign)
    assert all(np.all(s.observation[:, 0] == 0) for s in steps[2:])
    np.testing.assert_array_equal(steps[4].observation[:, 1:], [[0, 1]] * 20)
    np.testing.assert_allclose(steps[5].reward, np.where(sign == 1, 4, -1))
    np.testing.assert_array_equal(steps[5].terminated, True)
