"""Rows that a policy makes: their propensities, and how episodes end."""

import gymnasium as gym
import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.algorithms import dqn, ppo, sac
from tfagents_batch.envs.make import make_env
from tfagents_batch.errors import UserError
from tfagents_batch.logged import collecting
from tfagents_batch.offline.reader import open_rows
from tfagents_batch.offline.validator import Options, validate
from tfagents_batch.offline.writer import RowLogger
from tfagents_batch.types import EnvSpec, TimeStep

ROWS = 500


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    with make_env("tf/CartPole-v1", 4) as env, RowLogger(folder) as logger:
        decide = collecting.uniform(env.spec, seed=3)
        episodes = collecting.collect(env, decide, logger, ROWS, 3, "2026-01-01")
    with open_rows(folder) as opened:
        yield opened, episodes


def test_rows_are_valid_and_whole_episodes_end_in_a_terminal_state(rows):
    opened, episodes = rows
    report = validate(opened, None, Options())
    assert not report.errors
    (count, ends, cut), *_ = opened.fetch(
        "SELECT count(*), count(*) FILTER (WHERE terminated), "
        "count(*) FILTER (WHERE truncated) FROM rows"
    )
    assert (count, ends + cut) == (ROWS, episodes)
    assert cut <= 4  # those that the end of collecting cuts off


def test_uniform_actions_have_the_same_propensity(rows):
    opened, _ = rows
    found = opened.fetch("SELECT DISTINCT action_probability FROM rows")
    assert found == [(0.5,)]
    (share,), *_ = opened.fetch("SELECT avg((action = '1')::INT) FROM rows")
    assert abs(share - 0.5) < 3 * 0.5 / np.sqrt(ROWS)


def steps_of(observation, size):
    no = tf.zeros([size], tf.bool)
    return TimeStep(tf.constant(observation), tf.zeros([size]), no, no, no, {})


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_logged_propensities_are_the_frequencies_of_the_actions(epsilon):
    size = 100_000
    space = gym.spaces.Box(-1, 1, (2,), np.float32)
    spec = EnvSpec(size, space, gym.spaces.Discrete(3), {})
    agent = dqn.DQN(dqn.DQNConfig(), spec._replace(num_envs=1))
    row = np.random.default_rng(0).uniform(-1, 1, [1, 2]).astype(np.float32)
    decide = collecting.of_policy(agent.policy, spec, 10**6, epsilon, seed=1)
    found = decide(steps_of(row.repeat(size, 0), size), 0)
    probability = np.exp(found.log_propensity)
    for action in range(3):
        taken = found.action == action
        p = probability[taken][0]
        assert np.all(probability[taken] == p)
        assert abs(taken.mean() - p) < 3 * np.sqrt(p * (1 - p) / size)


def test_actions_of_ppo_have_propensities_and_bounds():
    spec = EnvSpec(4, gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(3), {})
    agent = ppo.PPO(ppo.PPOConfig(), spec)
    step = steps_of(np.zeros([4, 2], np.float32), 4)
    found = collecting.of_policy(agent.policy, spec, 0, 0.0, seed=1)(step, 0)
    every = agent.policy.probabilities(step, agent.policy.initial_state(4), 0)
    expected = np.take_along_axis(every.numpy(), found.action[:, None], 1)[:, 0]
    np.testing.assert_allclose(np.exp(found.log_propensity), expected, rtol=1e-6)
    tiny = spec._replace(action_space=gym.spaces.Box(-1e-3, 1e-3, (1,)))
    policy = ppo.PPO(ppo.PPOConfig(), tiny).policy
    decide = collecting.of_policy(policy, tiny, 0, 0.0, 1)
    with pytest.raises(UserError, match="beyond their bounds"):
        decide(step, 0)


def test_densities_of_continuous_actions_include_the_uniform_part():
    size = 4
    space = gym.spaces.Box(-1, 1, (2,), np.float32)
    spec = EnvSpec(size, space, gym.spaces.Box(-2, 2, (1,), np.float32), {})
    agent = sac.SAC(sac.SACConfig(warmup_steps=0), spec)
    step = steps_of(np.zeros([size, 2], np.float32), size)
    mixed = collecting.of_policy(agent.policy, spec, 10**6, 0.25, seed=1)(step, 0)
    exact = agent.policy.log_density(
        step, (), tf.constant(mixed.action), tf.constant(10**6, tf.int64)
    )
    expected = np.log(0.75 * np.exp(exact.numpy().astype(float)) + 0.25 / 4)
    np.testing.assert_allclose(mixed.log_propensity, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("observation", "action", "message"),
    [
        (
            gym.spaces.Box(0, 255, (8, 8, 1), np.uint8),
            gym.spaces.Discrete(2),
            "vectors",
        ),
        (gym.spaces.Box(-1, 1, (2,)), gym.spaces.MultiBinary(2), "or a Box"),
    ],
)
def test_spaces_that_rows_cannot_have_are_refused(observation, action, message):
    with pytest.raises(UserError, match=message):
        collecting.check(EnvSpec(1, observation, action, {}))
