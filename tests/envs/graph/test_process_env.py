from __future__ import annotations

import functools

import gymnasium
import gymnasium.spaces as gs
import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.support.fault_env import fault_envs
from tests.support.space_env import SpaceEnv
from tfagents_batch import nest
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.envs.worker.construction import env_seed
from tfagents_batch.errors import EnvError, Stopped, UserError
from tfagents_batch.types import TimeStep

STEPS = 40


# A function of this module would make workers import it, and so TensorFlow.
cartpole = functools.partial(gymnasium.make, "CartPole-v1")


def graph_rollout(env, seed=3):
    """Return every TimeStep of a rollout in a graph loop, and the final ``ok``."""
    actions = np.random.default_rng(0).integers(0, 2, (STEPS, env.spec.num_envs))

    @tfb.function
    def run(seed):
        table = tf.constant(actions, tf.int32)
        state, step = env.init(seed)
        found = tf.nest.map_structure(
            lambda x: tf.TensorArray(x.dtype, STEPS, element_shape=x.shape), step
        )
        for t in tf.range(STEPS):
            state, step = env.step(state, table[t])
            found = tf.nest.map_structure(lambda a, x, t=t: a.write(t, x), found, step)
        return tf.nest.map_structure(lambda a: a.stack(), found), env.ok(state)

    return run(tf.constant(seed))


@pytest.fixture(scope="module")
def expected():
    """Return the same rollout of plain Gymnasium, with explicit restarts."""
    actions = np.random.default_rng(0).integers(0, 2, (STEPS, 4))
    rows = [_row(cartpole(), env_seed(3, i), actions[:, i]) for i in range(4)]
    return tf.nest.map_structure(lambda *xs: np.stack(xs, axis=1), *rows)


def _row(env, seed, actions):
    env.reset(seed=seed)
    last, return_, length, found = False, 0.0, 0, []
    for action in actions:
        if last:
            observation, _ = env.reset()
            reward, terminated, truncated, return_, length = 0.0, False, False, 0.0, 0
        else:
            observation, reward, terminated, truncated, _ = env.step(action)
            return_, length = return_ + reward, length + 1
        info = {"episode_return": np.float32(return_), "episode_length": length}
        flags = (np.float32(reward), last, terminated, truncated)
        found.append(TimeStep(observation, *flags, info))
        last = terminated or truncated
    env.close()
    return tf.nest.map_structure(lambda *xs: np.stack(xs), *found)


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_transitions_equal_gymnasium_for_any_number_of_workers(
    make_process_env, expected, num_workers
):
    env = make_process_env([cartpole] * 4, num_workers)
    found, ok = graph_rollout(env)
    assert bool(ok)
    tf.nest.map_structure(np.testing.assert_array_equal, found, expected)
    assert found.first.numpy().any()  # some episode ended, so restarts were compared


def test_observations_have_the_structure_and_shapes_of_their_space(make_process_env):
    parts = gs.Box(0, 1, (3,), np.float64), gs.Dict({"x": gs.MultiBinary(2)})
    space = gs.Dict({"z": gs.Discrete(2), "a": gs.Tuple(parts)})
    env = make_process_env([functools.partial(SpaceEnv, space)] * 2, 1)

    @tfb.function
    def run(seed):
        state, first = env.init(seed)
        state, second = env.step(state, tf.zeros([2], tf.int32))
        for step in (first, second):
            specs = nest.specs(space, (2,))
            tf.nest.assert_same_structure(step.observation, specs)
            for x, spec in zip(
                tf.nest.flatten(step.observation), tf.nest.flatten(specs), strict=True
            ):
                assert (x.shape, x.dtype) == (spec.shape, spec.dtype)
            for x in (step.reward, step.first, step.terminated, *step.info.values()):
                assert x.shape == [2]
        assert state.shape == []
        return first

    assert isinstance(run(1), TimeStep)


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (tf.zeros([3], tf.int32), r"shape \[3\]; expected \[2\]"),
        (tf.zeros([2, 1], tf.int32), r"shape \[2, 1\]; expected \[2\]"),
        (tf.zeros([2]), "float32; Discrete"),
    ],
)
def test_actions_of_wrong_shape_or_dtype_are_refused_during_tracing(
    make_process_env, action, text
):
    env = make_process_env([CountingEnv] * 2, 0)
    state, _ = env.init(1)
    with pytest.raises(UserError, match=text):
        env.step(state, action)
    with pytest.raises(UserError, match=text):
        tf.function(lambda: env.step(state, action))()
    env.step(state, tf.zeros([2], tf.int32))  # it still works


def test_a_state_used_twice_in_a_graph_gives_invalid_rows(make_process_env):
    env = make_process_env([CountingEnv] * 2, 1)

    @tf.function
    def run():
        state, _ = env.init(1)
        later, _ = env.step(state, [0, 0])
        with tf.control_dependencies([later]):
            _, step = env.step(state, [0, 0])
        return step.valid, env.ok(later)

    valid, _ = run()
    assert not valid.numpy().any()
    with pytest.raises(UserError, match=r"state of call 1 was used after call 2"):
        env.check()


def test_eager_failures_are_raised_by_the_call_itself(make_process_env):
    env = make_process_env(fault_envs("exc", step=1), 1)
    state, _ = env.init(1)
    state, _ = env.step(state, [0, 0])
    with pytest.raises(EnvError, match="something broke") as caught:
        env.step(state, [0, 0])
    assert caught.value.env == 1
    with pytest.raises(EnvError, match="pool closed after EnvError in env 1"):
        env.init(1)


def faulty_run(env):
    state, step = env.init(1)
    for _ in tf.range(20):
        state, step = env.step(state, [0, 0])
    return step, env.ok(state)


def test_graph_failures_mask_rows_and_are_raised_by_check(make_process_env):
    env = make_process_env(fault_envs("exc", step=1), 2)
    step, ok = tf.function(faulty_run)(env)
    assert not bool(ok)
    assert not step.valid.numpy().any()
    assert step.observation.numpy().tolist() == [[0, 0, 2], [1, 0, 1]]
    assert step.reward.numpy().tolist() == [0, 0]
    with pytest.raises(EnvError, match="something broke"):
        env.check()


@pytest.mark.any_backend
def test_graph_failures_are_raised_at_the_end_of_the_with_block():
    with (
        pytest.raises(EnvError, match="something broke"),
        ProcessEnv(fault_envs("exc", step=1), 1) as env,
    ):
        tf.function(faulty_run)(env)


@pytest.mark.any_backend
def test_an_exception_in_the_with_block_is_not_replaced():
    with (
        pytest.raises(KeyError),
        ProcessEnv(fault_envs("exc", step=1), 1) as env,
    ):
        tf.function(faulty_run)(env)
        raise KeyError


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_step_after_stop_raises_stopped(make_process_env, num_workers):
    env = make_process_env([CountingEnv] * 2, num_workers)
    state, _ = env.init(1)
    env.stop()
    assert not bool(env.ok(state))
    with pytest.raises(Stopped):
        env.step(state, [0, 0])


def test_seeds_may_be_tensors_and_integers(make_process_env):
    env = make_process_env([cartpole] * 2, 0)
    steps = [env.init(seed)[1] for seed in (5, tf.constant(5), np.int64(5))]
    for step in steps[1:]:
        np.testing.assert_array_equal(step.observation, steps[0].observation)


def test_metrics_are_counters_since_the_last_call(make_process_env):
    env = make_process_env([CountingEnv] * 2, 1)
    state, _ = env.init(1)
    env.step(state, [0, 0])
    metrics = env.metrics()
    assert all(name.startswith(("env/", "time/", "system/")) for name in metrics)
    assert metrics["time/env_step_ms"] > 0
    assert env.metrics()["time/env_step_ms"] == 0
