"""A policy that is older by a fixed number of updates."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.algorithms.cases import assert_equal, variables
from tests.support.lines import of_the_seed, stopped_early
from tfagents_batch.algorithms import a2c
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks
from tfagents_batch.sources import on_policy

STEP = tf.constant(0, tf.int64)
SETTINGS = {"network": {"hidden": (8,)}, "learning_rate": 0.01, "histograms": False}


@pytest.mark.parametrize(("lag", "compiled"), [(1, False), (3, True)])
def test_the_policy_has_the_weights_and_version_of_the_update_before(lag, compiled):
    env = tfb.make_env("tf/CartPole-v1", 4)
    keras.utils.set_random_seed(0)
    agent = a2c.A2C(a2c.Config(network=networks.Config(hidden=(8,))), env.spec)
    config = on_policy.Config(length=5, lag=lag)
    source = on_policy.make(config, env, agent.policy, 1, agent)

    @tf.function(jit_compile=compiled, autograph=False)
    def collect(seed):
        return source.collect(seed, STEP).trajectory

    history = []
    for i in range(8):
        history.append(
            {k: v.numpy() for k, v in agent.policy.named_variables().items()}
        )
        trajectory = collect(tf.constant(i))
        expected = history[max(0, i - lag)]
        acting = source._rollout.actor.named_variables()
        for name, x in expected.items():
            np.testing.assert_array_equal(acting[name].numpy(), x, err_msg=name)
        assert set(trajectory.behavior["version"].numpy().flat) == {max(0, i - lag)}
        metrics = agent.update(trajectory, i, STEP).metrics
        agent.policy.version.assign_add(1)
        assert float(metrics["lag/updates"]) == float(metrics["lag/max"]) == min(i, lag)


def test_a_resumed_run_has_the_older_weights_and_environments_too(tmp_path):
    options = {"env": "tf/CartPole-v1", "num_envs": 4, "settings": SETTINGS}
    options |= {"eval_every": 0, "rollout": {"length": 5, "lag": 4}, "compile": "off"}
    options |= {"keep_every": 300, "log_every": 1, "logdir": tmp_path}
    straight = tfb.train("a2c", steps=600, **options)
    resumed = tfb.train(resume=stopped_early(straight, tmp_path / "two"))
    for run in (straight, resumed):
        assert run.metrics["lag/updates"] == run.metrics["lag/max"] == 4
    assert_equal(variables(resumed), variables(straight))
    assert of_the_seed(resumed) == of_the_seed(straight)
    played = [tfb.evaluate(x.logdir, episodes=4).returns for x in (straight, resumed)]
    np.testing.assert_array_equal(*played)


def test_a_lag_needs_rollouts_of_one_length():
    for other in ({"episodes": 4}, {"wait_for": 2}):
        with pytest.raises(UserError, match=r"lag is 2, which needs rollouts"):
            on_policy.Config(lag=2, **other).check(4)
