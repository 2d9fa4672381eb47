import functools
import re

import gymnasium.spaces as gs
import numpy as np
import pytest
import tensorflow as tf

from tests.support.backends import on_backends, one_backend
from tests.support.fault_env import fault_envs
from tests.support.space_env import SpaceEnv
from tfagents_batch.envs.graph.function import function
from tfagents_batch.errors import EnvError

STEP = {
    "shape": r"observation has shape \[2\]; its space says \[3\]",
    "reward_array": r"reward is an array of shape \(1,\); expected a number",
    "flag_int": "terminated is 0 of type int; expected a bool",
    "info_list": "info is list; expected a dict",
    "legacy_tuple": "step.. returned 4 values, the legacy gym API",
    "nan": r"observation has NaN or infinite values at \[0\], \[1\], \[2\]",
    "reward_nan": "reward is nan; expected a finite float32",
}
RESET = {
    **{mode: STEP[mode] for mode in ("shape", "info_list", "nan")},
    "legacy_tuple": "reset.. returned an array.* legacy gym API",
}


# One observation of each kind; test_validation has the others. All modes in this
# process; two suffice for workers, because they only send text.
@pytest.mark.parametrize(
    ("mode", "num_workers"), [*((mode, 0) for mode in STEP), ("shape", 1), ("nan", 1)]
)
@one_backend
def test_an_invalid_result_of_step_is_reported(drive, mode, num_workers):
    error = drive(fault_envs(mode), num_workers)
    assert type(error) is EnvError
    assert (error.env, error.phase, error.episode, error.step) == (1, "step", 0, 3)
    assert "broke the environment API in step() at step 3" in str(error)
    assert error.__cause__ is not None
    assert re.search(STEP[mode], str(error))


@pytest.mark.parametrize(
    ("mode", "num_workers"), [*((mode, 0) for mode in RESET), ("nan", 1)]
)
@one_backend
def test_an_invalid_result_of_reset_is_reported(drive, mode, num_workers):
    error = drive(fault_envs(mode, phase="reset"), num_workers)
    assert (error.env, error.phase, error.episode) == (1, "reset", 0)
    assert re.search(RESET[mode], str(error))


@pytest.mark.parametrize(
    ("mode", "num_workers"), [("nan", 1), ("shape", 0), ("reward_nan", 0)]
)
def test_the_learner_never_receives_invalid_values(make_pool, mode, num_workers):
    pool = make_pool(fault_envs(mode), num_workers)
    pool.reset(1)
    for _ in range(8):
        batch = pool.steps()
        assert np.isfinite(batch.observation[0]).all()
        assert np.isfinite(batch.reward).all()
    assert batch.observation[0].tolist() == [[0, 0, 4], [1, 0, 3]]


@one_backend
def test_the_finite_check_can_be_turned_off(make_pool):
    pool = make_pool(fault_envs("inf"), 1, finite_check="off")
    pool.reset(1)
    batch = pool.steps(4)
    pool.check()
    assert np.isinf(batch.observation[0][1]).all()


@on_backends("num_workers", portable=[0], native=[1])
def test_reused_buffers_give_the_same_transitions(make_pool, num_workers):
    found = []
    for mode in (None, "reuse_buffer"):
        pool = make_pool(fault_envs(mode, 3, length=4), num_workers)
        batches = [pool.reset(1)]
        batches += [pool.steps() for _ in range(11)]
        found.append(np.stack([batch.observation[0] for batch in batches]))
        returns = [batch.info["episode_return"][2] for batch in batches if batch[3][2]]
        assert returns == [10, 10]
    np.testing.assert_array_equal(*found)
    assert found[1][4, 2].tolist() == [2, 0, 4]  # not overwritten


@one_backend
def test_reset_after_the_end_of_an_episode_loses_no_step(make_pool):
    pool = make_pool(fault_envs(None, length=2), 1)
    pool.reset(1)
    batch = pool.steps(2)
    assert batch.terminated.all()
    pool.reset(1)
    batch = pool.steps()
    assert batch.observation[0][:, 2].tolist() == [1, 1]
    assert not batch.first.any()


@pytest.mark.parametrize(
    ("mode", "num_workers", "last", "reward"),
    [("nan", 1, [1, 0, 3], 4), ("reward_nan", 0, [1, 0, 4], 0)],
)
@one_backend
def test_non_finite_values_can_be_replaced(make_pool, mode, num_workers, last, reward):
    pool = make_pool(fault_envs(mode), num_workers, finite_check="replace")
    pool.reset(1)
    batch = pool.steps(4)
    assert batch.observation[0].tolist() == [[0, 0, 4], last]  # the previous one
    assert batch.reward.tolist() == [4, reward]
    assert batch.info["episode_return"].tolist() == [10, 6 + reward]
    assert not (batch.first & batch.truncated).any()
    pool.check()
    assert pool.metrics()["env/not_finite"] == 1


@pytest.mark.parametrize(("mode", "num_workers"), [("nan", 1), ("reward_nan", 0)])
def test_non_finite_values_can_truncate_the_episode(make_pool, mode, num_workers):
    pool = make_pool(fault_envs(mode), num_workers, finite_check="truncate")
    pool.reset(1)
    batch = pool.steps(4)
    assert (batch.first & batch.truncated).tolist() == [False, True]
    assert batch.observation[0].tolist() == [[0, 0, 4], [1, 0, 3]]
    assert batch.reward.tolist() == [4, 0]
    batch = pool.steps()
    assert batch.first.tolist() == [False, True]
    assert batch.observation[0].tolist() == [[0, 0, 5], [1, 1, 0]]
    pool.check()


@pytest.mark.parametrize("num_workers", [0, 1])
@one_backend
def test_strict_bounds_make_values_outside_a_box_a_failure(make_pool, num_workers):
    pool = make_pool(fault_envs("out_of_bounds"), num_workers, strict_bounds=True)
    pool.reset(1)
    pool.steps(4)
    with pytest.raises(EnvError, match="lies outside the bounds of its space"):
        pool.check()


def constructors(space, count=2):
    return [functools.partial(SpaceEnv, gs.Discrete(2), space)] * count


@pytest.mark.parametrize("num_workers", [0, 1])
def test_the_message_names_row_action_and_range(make_pool, num_workers):
    pool = make_pool(constructors(gs.Discrete(3, start=2)), num_workers)
    pool.reset(1)
    pool.step([np.array([2, 4])])
    batch = pool.step([np.array([2, 7])])
    assert (batch.first & batch.truncated).all()
    with pytest.raises(EnvError, match="was sent an invalid action") as caught:
        pool.check()
    error = caught.value
    assert (error.env, error.step, error.action) == (1, 1, "7")
    assert "action is 7; Discrete(3, start=2) takes 2 to 4" in str(error)
    assert "at step 1 of episode 0" in str(error)


def test_wrong_batch_sizes_are_refused_if_shapes_are_unknown(make_process_env):
    env = make_process_env(constructors(gs.Discrete(2), 3), 1)

    @function(input_signature=[tf.TensorSpec(None, tf.int32)])
    def run(action):
        state, _ = env.init(1)
        return env.step(state, action)[1].valid

    assert run(tf.zeros([3], tf.int32)).numpy().all()
    with pytest.raises(EnvError, match=r"shape \[2\]; expected \[3\]"):
        run(tf.zeros([2], tf.int32))
