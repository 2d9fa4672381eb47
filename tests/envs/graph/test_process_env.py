import functools

import gymnasium
import gymnasium.spaces as gs
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.vector import SyncVectorEnv

import tfagents_batch as tfb
from tests.support.fault_env import fault_envs
from tests.support.space_env import SpaceEnv
from tfagents_batch.envs import contract
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.envs.worker.construction import env_seed
from tfagents_batch.errors import EnvError, Stopped, UserError
from tfagents_batch.types import TimeStep

STEPS = 40


# A function of this module would make workers import it, and so TensorFlow.
cartpole = functools.partial(gymnasium.make, "CartPole-v1")


@pytest.fixture(scope="module")
def expected():
    """Return actions, and the steps of Gymnasium's own batch."""
    actions = np.random.default_rng(0).integers(0, 2, (STEPS, 4), np.int32)
    env = SyncVectorEnv([cartpole] * 4)
    env.reset(seed=[env_seed(3, i) for i in range(4)])
    first, found = np.zeros(4, bool), []
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        found.append((observation, reward, first, terminated, truncated))
        first = terminated | truncated
    env.close()
    return actions, [np.stack(column) for column in zip(*found, strict=True)]


@pytest.mark.parametrize("num_workers", [0, 3])
def test_transitions_equal_gymnasium_for_any_number_of_workers(
    make_process_env, expected, num_workers
):
    env = make_process_env([cartpole] * 4, num_workers)
    actions, steps = expected
    found = contract.rollout(env, STEPS, 3, list(actions))
    assert found.ok.all()
    for x, y in zip(found.steps[:5], steps, strict=True):
        np.testing.assert_array_equal(x[1:], y)
    assert found.steps.first[1:].any()  # some episode ended: restarts were compared


def test_observations_have_the_structure_and_shapes_of_their_space(make_process_env):
    parts = gs.Box(0, 1, (3,), np.float64), gs.Dict({"x": gs.MultiBinary(2)})
    space = gs.Dict({"z": gs.Discrete(2), "a": gs.Tuple(parts)})
    env = make_process_env([functools.partial(SpaceEnv, space)] * 2, 1)

    @tfb.function
    def run(seed):
        state, first = env.init(seed)
        state, second = env.step(state, tf.zeros([2], tf.int32))
        for step in (first, second):
            contract._check_spec(env.spec, step, "a graph")
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
        tf.function(lambda: env.step(state, action), autograph=False)()
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
    with pytest.raises(
        EnvError, match="the environments are closed after EnvError in env 1"
    ):
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


@pytest.mark.parametrize("own", [None, KeyError])
def test_the_end_of_the_with_block_raises_graph_failures_and_no_second_error(own):
    with (
        pytest.raises(own or EnvError, match=None if own else "something broke"),
        ProcessEnv(fault_envs("exc", step=1), 0) as env,
    ):
        tf.function(faulty_run)(env)
        if own:
            raise own


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
