import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.cases import named
from tests.support import linear
from tests.support.fault_env import FaultEnv, fault_envs
from tests.support.threads_env import Threads
from tfagents_batch.algorithms import ppo
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import EnvError, Stopped
from tfagents_batch.programs import program
from tfagents_batch.programs.overlap import VERSION
from tfagents_batch.sources import rollout_settings
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.training.config import RunConfig

SETTINGS = linear.Config()
BASE = RunConfig(
    env="counting",
    steps=400,
    num_envs=2,
    num_workers=0,
    source=rollout_settings.RolloutSettings(length=16),
    eval_every=0,
    overlap=True,
    compile="off",
)


def build(env, compile="off", kind=linear.Linear, settings=SETTINGS):
    agent = kind(settings, env.spec)
    acting = agent.make_policy()
    source = Rollout(env, acting, 16, seed=0)
    return agent, acting, program.build(source, agent, compile, kind="overlapped")


def once(training):
    """Train for one iteration."""
    return training(2**62, rounds=1)


def counting(count=2):
    return ProcessEnv([lambda: CountingEnv()] * count, num_workers=0)


@pytest.fixture
def eager():
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def test_collecting_and_updating_run_at_the_same_time(eager, monkeypatch):
    """Each of the two waits until the other one runs."""
    both = threading.Barrier(2)
    collect, update = Rollout.collect, linear.Linear.update

    def collecting(self, seed, step):
        if threading.current_thread() is not threading.main_thread():
            both.wait(60)
        return collect(self, seed, step)

    def updating(self, trajectory, seed, step):
        both.wait(60)
        return update(self, trajectory, seed, step)

    monkeypatch.setattr(Rollout, "collect", collecting)
    monkeypatch.setattr(linear.Linear, "update", updating)
    with counting() as env:
        *_, training = build(env)
        for _ in range(2):
            once(training)


def test_the_first_trajectory_is_collected_with_the_initial_weights(eager, monkeypatch):
    collected, collect = [], Rollout.collect

    def collecting(self, seed, step):
        collected.append(collect(self, seed, step))
        return collected[-1]

    monkeypatch.setattr(Rollout, "collect", collecting)
    with counting() as env:
        agent, acting, training = build(env)
        before = agent.weights.numpy()
        assert np.any(acting.weights.numpy() != before)  # initialized separately
        once(training)
        agent.weights.assign(before)
        trajectory = collected[0].trajectory
        policy, _ = agent.policy.heads(trajectory.steps.observation, rows=-1)
        log_prob = policy.log_prob(trajectory.action)
    np.testing.assert_allclose(trajectory.behavior["log_prob"], log_prob, 1e-4, 1e-5)


def test_the_actor_gets_the_weights_and_statistics_of_the_last_update():
    with counting() as env:
        settings = ppo.PPOConfig(minibatch_size=16, epochs=1, histograms=False)
        agent, acting, training = build(env, kind=ppo.PPO, settings=settings)
        start = named(agent)
        once(training)
        learned = named(agent)
        copied = named(acting)
        assert any("statistics/" in name for name in copied)
        for name, value in copied.items():
            np.testing.assert_array_equal(value, learned[name], err_msg=name)
        assert int(acting.version) == int(agent.policy.version) == 1
        assert any(np.any(start[k] != learned[k]) for k in start if "kernel" in k)


def test_behavior_has_the_number_of_updates_before_acting():
    with counting() as env:
        *_, training = build(env)
        once(training)
        ahead = training._compiled._program
        trajectory = ahead._ahead.trajectory
        assert trajectory.behavior[VERSION].shape == (16, 2)
        np.testing.assert_array_equal(trajectory.behavior[VERSION], 0)
        once(training)
        trajectory = ahead._ahead.trajectory
        np.testing.assert_array_equal(trajectory.behavior[VERSION], 1)


def test_environments_of_this_process_are_collected_from_in_their_own_thread():
    seen = set()
    with ProcessEnv([lambda: Threads(seen)] * 2, num_workers=0) as env:
        *_, training = build(env)
        for _ in range(2):
            once(training)
    assert seen == {threading.get_ident()}


def test_a_failure_while_collecting_raises_but_the_update_counts():
    constructors = [lambda: FaultEnv("exc", step=40, length=50)] * 2
    with ProcessEnv(constructors, num_workers=0) as env:
        agent, _, training = build(env)
        once(training)
        before, step = named(agent), training.step
        with pytest.raises(EnvError):
            once(training)
        after = named(agent)
    assert training.step == step + 32
    assert np.any(after["policy/weights"] != before["policy/weights"])
    assert not [t for t in threading.enumerate() if "collect" in t.name]


@pytest.mark.xla
def test_a_fully_compiled_program_also_lags_by_one():
    with ProcessEnv([lambda: CountingEnv()] * 2, 1, backend="native") as env:
        *_, training = build(env, "full")
        lags = [once(training)["lag/updates"].sum for _ in range(3)]
    assert lags == [0, 1, 1]
    assert (training.mode, training.traces()) == ("full", 1)


def test_a_stop_ends_the_running_iteration(make_process_env):
    env = make_process_env([lambda: CountingEnv()] * 2, 1)
    *_, training = build(env)
    once(training)
    env.stop()
    with pytest.raises(Stopped):
        once(training)


def test_training_continues_after_a_restart(tmp_path, make_process_env):
    envs = fault_envs("kill", mark=str(tmp_path / "mark"))
    env = make_process_env(envs, 2, on_fault="restart")
    *_, training = build(env)
    deadline = time.monotonic() + 60
    restarted = False
    while not restarted and time.monotonic() < deadline:
        metrics = once(training)
        restarted = any(e["event"] == "env_restarted" for e in env.events())
    assert restarted
    assert np.isfinite(metrics["loss/total"].sum)
