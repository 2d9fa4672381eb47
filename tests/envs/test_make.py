import numpy as np
import pytest

from tfagents_batch import interfaces
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.make import make_env
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import UserError


@pytest.mark.any_backend
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_name_creates_a_batch(num_workers):
    with make_env("CartPole-v1", num_envs=3, num_workers=num_workers) as env:
        assert isinstance(env, ProcessEnv) and isinstance(env, interfaces.Env)
        assert env.num_workers == num_workers
        assert env.spec.num_envs == 3 and env.spec.max_episode_steps == 500
        assert env.init(1)[1].observation.shape == [3, 4]


def test_arguments_reach_every_environment():
    name = "tfagents_batch.envs.testing:CountingEnv"
    with make_env(name, 2, 0, env_kwargs={"offset": 5}) as env:
        np.testing.assert_array_equal(env.init(1)[1].observation[:, 0], [5, 5])


@pytest.mark.any_backend
def test_a_list_gives_one_row_each_and_may_mix_names_and_functions():
    name = "tfagents_batch.envs.testing:CountingEnv"
    makers = [lambda: CountingEnv(offset=1), name, lambda: CountingEnv(offset=3)]
    with make_env(makers, num_workers=2) as env:
        np.testing.assert_array_equal(env.init(1)[1].observation[:, 0], [1, 0, 3])
    with make_env(makers, num_envs=3, num_workers=0) as env:
        assert env.spec.num_envs == 3


def test_one_instance_is_stepped_in_this_process():
    with make_env(instance := CountingEnv()) as env:
        assert (env.num_workers, env.spec.num_envs) == (0, 1)
        env.init(1)
    assert instance._episode == 0


def test_options_reach_the_environment():
    with pytest.raises(UserError, match="step_seconds is 'x'"):
        make_env("CartPole-v1", 2, 1, step_seconds="x")
    with pytest.raises(TypeError, match="xyzzy"):
        make_env("CartPole-v1", 2, 1, xyzzy=3)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("CartPol-v1", 2), "did you mean 'CartPole-v1'"),
        (("CartPole-v1", 0), "num_envs is 0; expected an integer from 1 to 1,000,000"),
        (("CartPole-v1", 10**9), "num_envs is 1000000000; expected an integer from"),
        (("tf/CartPole-v1", 10**9), "num_envs is 1000000000; expected an integer from"),
        (("CartPole-v1", 2.0), r"num_envs is 2.0; expected an integer"),
        (("CartPole-v1", True), "num_envs is True; expected an integer"),
        (([CountingEnv] * 3, 2), "env is a list of 3, but num_envs is 2"),
        (([],), "env is an empty list"),
        (([CountingEnv, CountingEnv()],), r"env\[1\] is an instance of CountingEnv"),
        (([CountingEnv, "CartPol-v1"],), "did you mean 'CartPole-v1'"),
        ((CountingEnv(), 2), "instance of .*CountingEnv, which .* pass its id"),
        ((CountingEnv(), 1, 1), "cannot become 1 environments in 1 worker processes"),
    ],
)
def test_invalid_arguments_are_refused_before_a_worker_starts(
    arguments, message, monkeypatch
):
    monkeypatch.setattr("tfagents_batch.envs.make.ProcessEnv", None)
    with pytest.raises(UserError, match=message):
        make_env(*arguments)
