import itertools
from types import SimpleNamespace

import gymnasium
import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.cases import named
from tests.support import growth, linear, linear_q
from tests.support.fault_env import FaultEnv
from tests.support.space_env import SpaceEnv
from tfagents_batch.algorithms import ppo
from tfagents_batch.devices.placement import CPU, GPU, HOST, Placement
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.make import make_env
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import EnvError, UserError
from tfagents_batch.metrics import Mean
from tfagents_batch.programs import program
from tfagents_batch.schedules import Constant
from tfagents_batch.sources.replay_settings import ReplaySettings
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.training.compilation import stablehlo

SETTINGS = ppo.PPOConfig(minibatch_size=16, epochs=1, histograms=False)


def build(env, length=16, kind=linear.Linear, settings=None, **options):
    agent = kind(settings or linear.Config(), env.spec)
    source = Rollout(env, agent.policy, length, seed=0)
    return agent, program.build(source, agent, **options)


def once(training):
    """Train for one iteration."""
    return training(2**62, rounds=1)


def test_an_iteration_learns_and_reports_ended_episodes():
    with ProcessEnv([lambda: CountingEnv(length=4)] * 3, num_workers=0) as env:
        agent, training = build(env, length=15, compile="off")
        before = named(agent)
        metrics = once(training)
        # Rows 0-4 and 5-9 and 10-14: 3 episodes of 4 steps in each of 3 environments.
        assert metrics["episode/count"].value == 9
        assert metrics["episode/length_mean"].sum == 36
        assert metrics["episode/return_mean"].sum == 90
        assert metrics["env/masked"] == Mean(pytest.approx(1 - 36 / 45), 1)
        assert (training.step, training.rounds) == (36, 1)
        assert int(agent.policy.version) == 1
        after = named(agent)
        assert any(np.any(before[k] != after[k]) for k in before if "weights" in k)


@pytest.mark.parametrize("compile", ["off", "update"])
def test_a_failed_iteration_changes_no_weights_and_raises(compile):
    constructors = [
        lambda i=i: FaultEnv("exc", step=20, env=i, target=1, length=50)
        for i in range(2)
    ]
    with ProcessEnv(constructors, num_workers=0) as env:
        agent, training = build(env, compile=compile)
        once(training)
        before, step = named(agent), training.step
        with pytest.raises(EnvError) as caught:
            once(training)
        assert caught.value.env == 1
        assert training.step == step and int(agent.policy.version) == 1
        after = named(agent)
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)


class PythonInside(keras.layers.Layer):
    """A layer with an operation that XLA has no kernel for."""

    def call(self, x):
        y = tf.numpy_function(lambda x: x, [x], tf.float32)
        return tf.ensure_shape(y, x.shape)


class Refused(linear.Linear):
    """Its updates have an operation that XLA has no kernel for."""

    def update(self, trajectory, seed, step):
        reward = PythonInside()(trajectory.steps.reward)
        steps = trajectory.steps._replace(reward=reward)
        return super().update(trajectory._replace(steps=steps), seed, step)


def test_auto_falls_back_with_a_warning_if_xla_refuses(caplog):
    with ProcessEnv([CountingEnv] * 2, num_workers=0) as env:
        _, training = build(env, kind=Refused)
        for _ in range(3):
            once(training)
        assert training.step > 0
    lines = [record.message for record in caplog.records if "XLA" in record.message]
    assert lines == ["XLA cannot compile PyFunc: --compile=off instead of update"]


def test_compile_update_names_the_operation_that_xla_refuses():
    with ProcessEnv([CountingEnv] * 2, num_workers=0) as env:
        _, training = build(env, kind=Refused, compile="update")
        with pytest.raises(UserError, match=r"=update.*PyFunc.*=auto"):
            once(training)


def test_a_failure_of_an_unrelated_environment_is_not_raised():
    with (
        ProcessEnv([CountingEnv] * 2, num_workers=0) as env,
        ProcessEnv([lambda: FaultEnv("exc", step=0)], num_workers=0) as other,
    ):
        _, training = build(env, compile="off")
        state, _ = tf.function(other.init, autograph=False)(tf.constant(1))
        tf.function(other.step, autograph=False)(state, tf.constant([0]))
        assert not bool(other.ok(state))
        once(training)
        with pytest.raises(EnvError):
            other.check()


WHOLE, SPLIT = Placement(GPU, GPU), Placement(CPU, GPU)
PLANS = {
    (True, True, "auto", HOST): ["full", "update", "off"],
    (False, True, "auto", HOST): ["update", "off"],
    (True, False, "auto", HOST): ["parts", "off"],
    (True, True, "auto", SPLIT): ["split", "update", "off"],
    (False, True, "auto", SPLIT): ["update", "off"],
    (True, False, "auto", SPLIT): ["update", "off"],
    (True, False, "auto", WHOLE): ["full", "update", "off"],
    (True, True, "off", HOST): ["off"],
}


@pytest.mark.parametrize("options", PLANS)
def test_compiled_parts_depend_on_environments_network_and_device(options):
    assert program.plan(*options).modes == PLANS[options]
    assert program.plan(*options).reason


def test_convolutions_run_in_the_graph_and_the_optimizer_is_compiled():
    image = gymnasium.spaces.Box(0, 255, (36, 36, 1), np.uint8)
    with ProcessEnv([lambda: SpaceEnv(image)] * 2, num_workers=0) as env:
        agent, training = build(env, kind=ppo.PPO, settings=SETTINGS)
        metrics = once(training)
        assert training.mode == "parts"
        assert agent.learner.optimizer.compiled
        assert np.isfinite(metrics["loss/total"].sum)
        program.build(Rollout(env, agent.policy, 8, seed=0), agent, "off")
        assert not agent.learner.optimizer.compiled


@pytest.mark.parametrize("compile", ["auto", "full", "update", "off"])
def test_acting_is_compiled_only_if_the_environment_is_compilable(compile):
    with ProcessEnv([lambda: CountingEnv()], num_workers=0) as env:
        agent = linear.Linear(linear.Config(), env.spec)
        assert not program.is_whole(env, agent, compile, HOST)
    with make_env("tf/CartPole-v1", num_envs=1) as env:
        agent = linear.Linear(linear.Config(), env.spec)
        whole = compile in ("auto", "full")
        assert program.is_whole(env, agent, compile, HOST) == whole


class Prioritized(linear_q.LinearQ):
    def update(self, trajectory, seed, step):
        updated = super().update(trajectory, seed, step)
        return updated._replace(priority=tf.abs(trajectory.reward[0]))


def test_a_program_with_variables_of_its_source_can_be_stored_and_read_again():
    settings = ReplaySettings(capacity=64, prioritized=True, beta=Constant(0.5))
    run = SimpleNamespace(settings=linear_q.Config(), log_info=(), steps=100)
    given = []  # to the function that stores a program
    with make_env("tf/CartPole-v1", 2) as env:
        for _ in range(2):
            agent = Prioritized(run.settings, env.spec)
            source = settings.open((env,), agent, 1, run)
            program.build(source, agent, "full", save=lambda *x: given.append(x))
    (traced, variables, _), (_, others, envs) = given
    assert variables.keys() == others.keys()
    arguments = tf.constant(1), tf.constant(9, tf.int64), tf.constant(2)
    exported = stablehlo.export(traced, arguments, variables)  # else it raises
    stablehlo.program(exported, others, envs).get_concrete_function(*arguments)


def test_a_long_run_keeps_no_memory_of_its_iterations():
    until = itertools.count(10**9)
    with make_env("CartPole-v1", 2, 0) as env:
        _, training = build(env, compile="off")
        assert growth.kept(lambda: training(next(until), 1)) < 0.5
