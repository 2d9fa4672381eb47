import importlib
import os
import sys
import types

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

import tfagents_batch as tfb
from tests.install import extras
from tfagents_batch.envs.contract import random_actions, rollout
from tfagents_batch.envs.graph.vector_env import VectorEnv
from tfagents_batch.envs.make import make_env
from tfagents_batch.envs.vector import envpool as ours
from tfagents_batch.errors import EnvError, UserError

extras.skip_without("envpool")
envpool = importlib.import_module("envpool")

# The libraries of MuJoCo and Atari warn when they are loaded.
pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered")


def assert_equal(x, y):
    tf.nest.map_structure(np.testing.assert_array_equal, x, y)


@pytest.mark.parametrize("name", ["CartPole-v1", "HalfCheetah-v4"])
def test_rows_do_not_depend_on_the_others_and_the_number_of_threads(name):
    """The contract compares other seeds."""
    actions, found = None, []
    for rows, threads in ((4, 3), (2, 1)):
        kwargs = {"max_episode_steps": 12}
        with make_env(f"envpool:{name}", rows, threads, env_kwargs=kwargs) as env:
            actions = actions or random_actions(env.spec, 30, seed=1)
            record = rollout(env, 30, 5, [action[:rows] for action in actions])
        found.append(tf.nest.map_structure(lambda x: x[:, :2], record.steps))
    assert_equal(*found)


def test_transitions_equal_envpools():
    """Compare with a loop over EnvPool itself, in which ended rows restart."""
    with make_env("envpool:CartPole-v1", 3) as env:
        actions = random_actions(env.spec, 60, seed=1)
        found = rollout(env, 60, 5, actions).steps
    seeds = [ours.construction.env_seed(5, row) for row in range(3)]
    pool = envpool.make_gymnasium("CartPole-v1", num_envs=3, seed=seeds, num_threads=1)
    observation, _ = pool.reset()
    np.testing.assert_array_equal(found.observation[0], observation)
    restarts = np.zeros(3, bool)
    for t, action in enumerate(actions, 1):
        observation, reward, terminated, truncated, info = pool.step(action)
        now = tf.nest.map_structure(lambda x, t=t: x[t], found)
        assert_equal(now[:2], (observation, reward))
        assert_equal(now[2:5], (restarts, terminated, truncated))
        np.testing.assert_array_equal(now.info["episode_length"], info["elapsed_step"])
        assert (reward[restarts] == 0).all()
        restarts = terminated | truncated
    assert found.first[1:].any()


def test_a_time_limit_truncates():
    kwargs = {"max_episode_steps": 3}
    with make_env("envpool:Pendulum-v1", 2, env_kwargs=kwargs) as env:
        steps = rollout(env, 8, 1).steps
    assert steps.truncated[:, 0].tolist() == [0, 0, 0, 1, 0, 0, 0, 1, 0]
    assert not steps.terminated.any()


def test_the_time_limit_is_envpools_or_that_of_env_kwargs():
    with make_env("envpool:CartPole-v1", 2) as env:
        assert env.spec.max_episode_steps == 500
    kwargs = {"stack_num": 2, "max_episode_steps": 9}
    with make_env("envpool:Pong-v5", 2, env_kwargs=kwargs) as env:
        assert env.spec.max_episode_steps == 9
        assert env.spec.observation_space.shape == (84, 84, 2)


def test_images_have_channels_last_and_lives_are_a_column():
    with make_env("envpool:Breakout-v5", 2) as env:
        assert env.spec.observation_space == gs.Box(0, 255, (84, 84, 4), np.uint8)
        assert env.spec.info["lives"] == "int32"
        actions = random_actions(env.spec, 3, seed=1)
        found = rollout(env, 3, 5, actions).steps
    seeds = [ours.construction.env_seed(5, row) for row in range(2)]
    pool = envpool.make_gymnasium("Breakout-v5", num_envs=2, seed=seeds)
    images = [pool.reset()[0]] + [pool.step(action)[0] for action in actions]
    np.testing.assert_array_equal(found.observation, np.moveaxis(images, 2, -1))
    assert (found.info["lives"] == 5).all()


def test_info_keys_are_columns():
    keys = {"reward_run": "float32"}
    with make_env("envpool:HalfCheetah-v4", 2, info_keys=keys) as env:
        steps = rollout(env, 3, 1).steps
    assert np.isfinite(steps.info["reward_run"]).all()
    assert "lives" not in steps.info


def test_returns_sum_the_rewards_before_clipping():
    batch = ours.EnvPoolBatch("Pong-v5", 2, env_kwargs={"reward_clip": True})
    with VectorEnv(batch) as env:
        env.init(1)
        batch._pool = Clipped(batch._pool)
        state, _ = env.init(1)
        batch._pool = Clipped(batch._pool)
        _, step = env.step(state, [0, 0])
    assert step.reward.numpy().tolist() == [1, 1]
    assert step.info["episode_return"].numpy().tolist() == [7, 7]


class Clipped:
    """A pool in which every reward is 7, clipped to 1."""

    def __init__(self, pool):
        self._pool = pool

    def __getattr__(self, name):
        return getattr(self._pool, name)

    def step(self, action):
        observation, reward, *flags, info = self._pool.step(action)
        ones = np.ones_like(reward)
        return observation, ones, *flags, info | {"reward": 7 * ones}


@pytest.mark.parametrize(
    "num_envs, given, used", [(8, 3, 3), (2, 3, 2), (2, 0, 1), (64, None, None)]
)
def test_num_threads_is_num_workers_or_the_number_of_cores(num_envs, given, used):
    batch = ours.EnvPoolBatch("CartPole-v1", num_envs, given)
    assert batch.num_threads == (used or len(os.sched_getaffinity(0)))


def threads():
    return len(os.listdir("/proc/self/task"))


def test_closing_ends_the_threads():
    before = threads()
    env = make_env("envpool:CartPole-v1", 4, 4)
    env.init(1)
    running = threads()
    env.init(2)
    assert threads() == running  # the threads of the first pool have ended
    env.close()
    assert threads() < running and threads() <= before + 2  # TensorFlow may start some
    with pytest.raises(EnvError, match="the environments are closed"):
        env.init(1)


def test_actions_that_envpool_would_wrongly_accept_are_refused():
    with make_env("envpool:CartPole-v1", 2) as env:
        state, _ = env.init(1)
        with pytest.raises(EnvError, match=r"action is 7; Discrete\(2\) takes 0 to 1"):
            env.step(state, [0, 7])


@pytest.mark.parametrize(
    "name, env_kwargs, text",
    [
        ("CartPol-v1", {}, "did you mean 'envpool:CartPole-v1'"),
        ("HalfCheeta-v4", {}, "did you mean 'envpool:HalfCheetah-v4'"),
        ("", {}, "environment 'envpool:' does not exist"),
        (
            "Pong-v5",
            {"episodic_lif": 1},
            "'episodic_lif'; did you mean 'episodic_life'",
        ),
        ("Pong-v5", {"num_envs": 3}, "'num_envs', which num_envs sets"),
        ("Pong-v5", {"seed": 3}, "'seed', which the seed of init sets"),
        ("CartPole-v1", {"max_episode_steps": "x"}, "do not fit: TypeError: __init__"),
    ],
)
def test_unknown_names_and_arguments_of_envpool_are_refused(name, env_kwargs, text):
    with pytest.raises(UserError, match=text):
        make_env(f"envpool:{name}", 2, env_kwargs=env_kwargs)


def test_games_of_several_players_are_refused():
    name = next(
        id
        for id in envpool.list_all_envs()
        if id.startswith("Jumanji") or "TicTacToe" in id or "tic_tac_toe" in id
        if envpool.make_spec(id).config.max_num_players > 1
    )
    with pytest.raises(UserError, match="players; only environments with one player"):
        make_env(f"envpool:{name}", 2)


def test_without_envpool_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(UserError, match=r'pip install "tfagents_batch\[envpool\]"'):
        make_env("envpool:CartPole-v1", 2)


def test_observations_without_images_are_passed_on_as_they_are():
    batch = ours.EnvPoolBatch("WalkerWalk-v1", 2)
    observation = {name: np.zeros((2, 1)) for name in batch.observation_space}
    results = [observation, *[np.zeros(2)] * 3, {}]
    batch._pool = types.SimpleNamespace(step=lambda action: results)
    assert batch.step(None)[0] is observation


def test_an_existing_pool_is_refused():
    pool = envpool.make_gymnasium("CartPole-v1", num_envs=2)
    with pytest.raises(UserError, match="an EnvPool object cannot be seeded again"):
        make_env(pool)


def test_an_agent_trains_and_is_evaluated_on_envpool(tmp_path, linear):
    batch = {"env": "envpool:CartPole-v1", "num_envs": 4, "num_workers": 2}
    sizes = {"steps": 200, "rollout.length": 64, "eval_episodes": 2, "compile": "off"}
    run = tfb.train(linear, logdir=tmp_path, **batch, **sizes)
    assert run.metrics["eval/return_mean"] > 0
    assert tfb.evaluate(run.logdir, episodes=2).mean_return > 0
