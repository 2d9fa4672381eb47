import threading
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.cases import named
from tests.support import linear
from tests.support.fault_env import FaultEnv, fault_envs
from tfagents_batch.algorithms import ppo
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import EnvError, Stopped, UserError
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.training import program
from tfagents_batch.training.experiment import Experiment
from tfagents_batch.training.overlap import VERSION
from tfagents_batch.training.run_config import Config

SETTINGS = linear.Config()
BASE = Config(
    env="counting",
    steps=400,
    num_envs=2,
    num_workers=0,
    rollout_length=16,
    eval_every=0,
    overlap=True,
    compile="off",
)


def build(env, compile="off", kind=linear.Linear, settings=SETTINGS):
    agent, actor = (kind(settings, env.spec) for _ in range(2))
    source = Rollout(env, actor, 16, seed=0)
    return agent, actor, source, program.build(source, agent, compile, actor=actor)


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
    collect, update = Rollout.__call__, linear.Linear.update

    def collecting(self, seed):
        if threading.current_thread() is not threading.main_thread():
            both.wait(60)
        return collect(self, seed)

    def updating(self, trajectory, seed):
        both.wait(60)
        return update(self, trajectory, seed)

    monkeypatch.setattr(Rollout, "__call__", collecting)
    monkeypatch.setattr(linear.Linear, "update", updating)
    with counting() as env:
        _, _, _, iterate = build(env)
        for seed in range(2):
            iterate(tf.constant(seed))


def test_the_first_trajectory_is_collected_with_the_initial_weights(eager, monkeypatch):
    collected, collect = [], Rollout.__call__

    def collecting(self, seed):
        collected.append(collect(self, seed))
        return collected[-1]

    monkeypatch.setattr(Rollout, "__call__", collecting)
    with counting() as env:
        agent, actor, _, iterate = build(env)
        before = agent.weights.numpy()
        assert np.any(actor.weights.numpy() != before)  # initialized separately
        iterate(tf.constant(0))
        agent.weights.assign(before)
        trajectory = collected[0]
        policy, _ = agent._heads(trajectory.steps.observation, rows=-1)
        log_prob = policy.log_prob(trajectory.action)
    np.testing.assert_allclose(trajectory.behavior["log_prob"], log_prob, 1e-4, 1e-5)


def test_the_actor_gets_the_weights_and_statistics_of_the_last_update():
    with counting() as env:
        agent, actor, _, iterate = build(env)
        start = named(agent)
        iterate(tf.constant(0))
        learned = named(agent)
        for name, value in named(actor).items():
            if not name.startswith("optimizer/"):
                np.testing.assert_array_equal(value, learned[name], err_msg=name)
        assert any(np.any(start[k] != learned[k]) for k in start if "weights" in k)


def test_behavior_has_the_number_of_updates_before_acting():
    with counting() as env:
        _, _, _, iterate = build(env)
        overlapped = iterate._program
        iterate(tf.constant(0))
        trajectory, _, _ = overlapped._next
        assert trajectory.behavior[VERSION].shape == (16, 2)
        np.testing.assert_array_equal(trajectory.behavior[VERSION], 0)
        iterate(tf.constant(1))
        trajectory, _, _ = overlapped._next
        np.testing.assert_array_equal(trajectory.behavior[VERSION], 1)


def test_a_failure_while_collecting_raises_but_the_update_counts():
    constructors = [lambda: FaultEnv("exc", step=40, length=50)] * 2
    with ProcessEnv(constructors, num_workers=0) as env:
        agent, _, _, iterate = build(env)
        iterate(tf.constant(0))
        before = named(agent)
        with pytest.raises(EnvError):
            iterate(tf.constant(1))
        after = named(agent)
    assert after["algorithm/step"] == before["algorithm/step"] + 32
    assert not [t for t in threading.enumerate() if "collect" in t.name]


@pytest.mark.xla
def test_a_fully_compiled_program_also_lags_by_one():
    with ProcessEnv([lambda: CountingEnv()] * 2, 1, backend="native") as env:
        settings = ppo.Config(minibatch_size=16, epochs=1, histograms=False)
        _, _, _, iterate = build(env, "full", ppo.PPO, settings)
        lags = [float(iterate(tf.constant(i))["lag/updates"]) for i in range(3)]
    assert lags == [0, 1, 1]
    assert (iterate.mode, iterate.traces()) == ("full", 1)


def test_a_stop_ends_the_running_iteration(make_process_env):
    env = make_process_env([lambda: CountingEnv()] * 2, 1)
    _, _, _, iterate = build(env)
    iterate(tf.constant(0))
    env.stop()
    with pytest.raises(Stopped):
        iterate(tf.constant(1))


def test_training_continues_after_a_restart(tmp_path, make_process_env):
    envs = fault_envs("kill", mark=str(tmp_path / "mark"))
    env = make_process_env(envs, 2, on_fault="restart")
    _, _, _, iterate = build(env)
    deadline = time.monotonic() + 60
    restarted, seed = False, 0
    while not restarted and time.monotonic() < deadline:
        metrics = iterate(tf.constant(seed))
        restarted = any(e["event"] == "env_restarted" for e in env.events())
        seed += 1
    assert restarted
    assert np.isfinite(metrics["loss/total"])


def test_a_builder_that_returns_one_model_twice_is_refused():
    model = keras.Sequential([keras.layers.Dense(8)])
    with pytest.raises(UserError, match="returned the same model twice"):
        Experiment(BASE, env=CountingEnv, network=lambda *_: model)
