from __future__ import annotations

import functools

import gymnasium.spaces as gs
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.space_env import SpaceEnv
from tfagents_batch.envs.graph.function import function
from tfagents_batch.errors import EnvError

OBSERVATION = gs.Discrete(2)
SPACES = {
    "discrete": (gs.Discrete(3, start=2), st.integers(-5, 9), ()),
    "multidiscrete": (gs.MultiDiscrete([2, 3], start=[1, 0]), st.integers(-1, 4), (2,)),
    "multibinary": (gs.MultiBinary(2), st.integers(-1, 2), (2,)),
    "box": (
        gs.Box(-1, 1, (2,), np.float32),
        st.floats(-3, 3, width=32) | st.just(np.nan),
        (2,),
    ),
}


def constructors(space, count=2):
    return [functools.partial(SpaceEnv, OBSERVATION, space)] * count


@pytest.mark.parametrize("name", SPACES)
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_invalid_actions_are_refused_and_valid_ones_stepped(make_pool, name, data):
    space, numbers, shape = SPACES[name]
    size = int(np.prod(shape, dtype=int))
    drawn = [data.draw(st.lists(numbers, min_size=size, max_size=size)) for _ in "ab"]
    dtype = np.float32 if name == "box" else np.int32
    action = np.array(drawn, dtype).reshape((2, *shape))
    clipped = np.clip(action, -1, 1) if name == "box" else action
    valid = [space.contains(row.astype(space.dtype)) for row in clipped]
    pool = make_pool(constructors(space), 0)
    pool.reset(1)
    batch = pool.step([action])
    if all(valid):
        pool.check()  # SpaceEnv itself checks its actions
    else:
        with pytest.raises(EnvError, match="was sent an invalid action") as caught:
            pool.check()
        assert caught.value.env == valid.index(False)
        assert (batch.first & batch.truncated).all()


@pytest.mark.parametrize("num_workers", [0, 1])
def test_the_message_names_row_action_and_range(make_pool, num_workers):
    pool = make_pool(constructors(gs.Discrete(3, start=2)), num_workers)
    pool.reset(1)
    pool.step([np.array([2, 4])])
    pool.step([np.array([2, 7])])
    with pytest.raises(EnvError) as caught:
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
