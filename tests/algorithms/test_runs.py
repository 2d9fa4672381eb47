"""Runs of every algorithm follow the same rules, from the start to a resume."""

import numpy as np
import pytest

import tfagents_batch as tfb
from tests.algorithms.cases import (
    OF_ROWS,
    RUNS,
    STUDENTS,
    assert_equal,
    train,
    variables,
)
from tfagents_batch import nest
from tfagents_batch.algorithms import REGISTRY
from tfagents_batch.errors import UserError

PYTHON = {"tf/CartPole-v1": "CartPole-v1", "tf/Pendulum-v1": "Pendulum-v1"}
WRONG_SPACES = {
    "dqn": ("tf/Pendulum-v1", "need Discrete, MultiDiscrete or MultiBinary actions"),
    "ddpg": ("tf/CartPole-v1", "needs a Box of floats"),
    "td3": ("tf/CartPole-v1", "needs a Box of floats"),
}

ASYNCHRONOUS = {"ga3c"}  # its runs depend on timing
NAMES = sorted({*REGISTRY} - ASYNCHRONOUS - OF_ROWS - STUDENTS)


# Most of the next two are slow. Quick ones are in tests/test_api.py for the linear
# algorithm, in tests/algorithms/test_dqn.py for a replay, and in
# tests/training/test_whole_episodes.py.
@pytest.mark.slow
@pytest.mark.any_backend
@pytest.mark.parametrize("name", NAMES)
def test_weights_do_not_depend_on_the_number_of_workers(name, tmp_path):
    env = PYTHON[RUNS[name].get("env", "tf/CartPole-v1")]
    options = {"env": env, "steps": 250, "compile": "auto" if name == "ppo" else "off"}
    one, four = (
        variables(train(name, tmp_path / str(n), num_workers=n, **options))
        for n in (1, 4)
    )
    assert_equal(four, one)


@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=() if x == "ppo" else pytest.mark.slow) for x in NAMES],
)
def test_a_stopped_and_resumed_run_in_the_graph_equals_a_straight_one(name, tmp_path):
    straight = train(name, tmp_path / "straight", steps=600, compile="off")
    stopped = train(name, tmp_path / "stopped", steps=300, compile="off")
    resumed = tfb.train(resume=stopped.logdir, steps=600)
    assert resumed.step == straight.step > stopped.step
    assert_equal(variables(resumed), variables(straight))


def test_a_run_with_memory_and_normalization_is_resumed_as_any_other(tmp_path):
    settings = RUNS["dqn"]["settings"] | {
        "network": {"core": "gru", "hidden": [8]},
        "sequence_length": 6,
        "batch_size": 8,
        "normalize_observation": True,
        "normalize_return": True,
    }
    replay = {"capacity": 400, "prioritized": True, "beta": 0.5}
    options = {"settings": settings, "replay": replay, "compile": "off"}
    straight = train("dqn", tmp_path / "straight", steps=300, **options)
    stopped = train("dqn", tmp_path / "stopped", steps=180, **options)
    resumed = tfb.train(resume=stopped.logdir, steps=300)
    assert resumed.step == straight.step > stopped.step
    found = variables(resumed)
    assert_equal(found, variables(straight))
    assert found["statistics/observations/0/count"] > 200
    agent = tfb.load(resumed.logdir)  # in another number of environments
    raw = np.ones([3, *agent.observation_space.shape], np.float32)
    mean = agent._policy.observations.moments[0].mean
    action, state = agent.predict(raw)
    mean.assign(mean.numpy() + 0.5)
    shifted, other = agent.predict(raw + 0.5)
    np.testing.assert_array_equal(action, shifted)
    np.testing.assert_allclose(*map(nest.flatten, (state, other)), atol=1e-4)


@pytest.mark.parametrize("name", sorted(WRONG_SPACES))
def test_wrong_spaces_are_refused_before_a_run_folder_exists(name, tmp_path):
    env, text = WRONG_SPACES[name]
    with pytest.raises(UserError, match=text):
        train(name, tmp_path, env=env, steps=600)
    assert not list(tmp_path.iterdir())
