"""REINFORCE: returns, baselines and losses."""

import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.algorithms import cases
from tests.algorithms.cases import B, T, collect, named, update
from tests.algorithms.test_a2c import PLAIN
from tests.nn.cases import ACTIONS
from tests.support import linear
from tfagents_batch import nest
from tfagents_batch.algorithms import REGISTRY, reinforce
from tfagents_batch.errors import UserError
from tfagents_batch.types import Rollouts


def make(action="discrete", **settings):
    return cases.make("reinforce", ACTIONS[action], **PLAIN | settings)


def slow_returns(trajectory, gamma, end, reset=False):
    """Return G, with ``end`` [T+1, B] after a truncated state and at the last row.

    With ``reset``, it ends at each reward other than 0.
    """
    steps, mask = trajectory.steps, trajectory.mask.numpy()
    found = np.array(end)
    for t in reversed(range(T)):
        ends = steps.terminated[t + 1]
        if reset:
            ends = ends | (steps.reward[t + 1] != 0)
        going = np.where(ends, 0, gamma)
        new = steps.reward[t + 1] + going * found[t + 1]
        found[t] = np.where(mask[t], new, end[t])
    return found[:-1]


@pytest.mark.parametrize(
    ("baseline", "loss"),
    [
        ("none", "squared_error"),
        *(("value", "squared_error"), ("value", "log_likelihood")),
        *(("average", "log_likelihood"), ("time_step", "log_likelihood")),
    ],
)
def test_the_gradient_is_that_of_returns_minus_the_baseline(baseline, loss):
    settings = {"baseline": baseline, "loss": loss, "normalize_advantage": False}
    agent = make(gamma=0.9, **settings)
    agent._average.assign(0.7)
    trajectory = collect(agent)
    mask = trajectory.mask.numpy()
    value = agent.network.unroll(trajectory.steps)[0].value.numpy()
    end = value if baseline == "value" else np.zeros_like(value)
    found = slow_returns(trajectory, 0.9, end)
    subtracted = {
        "none": 0,
        "average": 0.7,
        "time_step": np.mean(np.where(mask, found, 0), 1, keepdims=True),
        "value": value[:-1],
    }[baseline]
    advantage = found - subtracted

    def slow_loss():
        steps = nest.map(lambda x: x[:-1], trajectory.steps)
        heads = agent.network.unroll(steps)[0]
        rows = -heads.policy.log_prob(trajectory.action) * advantage
        if loss == "squared_error":
            taken = tf.one_hot(trajectory.action, 3)
            policy = tf.nn.softmax(heads.policy.params["logits"])
            rows = advantage * tf.reduce_sum((taken - policy) ** 2, -1) / 4
        if baseline == "value":
            rows += 0.5 * tf.square(found - heads.value) / 2
        return tf.reduce_mean(tf.boolean_mask(rows, mask))

    metrics = update(agent, trajectory, 0)
    weights = [x.value for x in agent.learner.optimizer.trained]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        slow = slow_loss()
    expected = tape.gradient(slow, weights)
    unused = any(x is None for x in expected)
    assert unused == (baseline != "value") == ("loss/value" not in metrics)
    found = agent.learner.optimizer.rule.mean_gradients()
    for gradient, x in zip(found, expected, strict=True):
        x = tf.zeros_like(gradient) if x is None else x
        np.testing.assert_allclose(gradient, x, rtol=1e-3, atol=1e-6)


def gradient(agent, trajectory):
    update(agent, trajectory, 0)
    found = agent.learner.optimizer.rule.mean_gradients()
    return np.concatenate([np.ravel(x) for x in found])


def test_normalized_advantages_keep_the_effect_of_the_moving_average():
    """They are divided, but their mean, which the average is for, is not removed."""
    trajectory = collect(make())
    mask = trajectory.mask.numpy()
    found = slow_returns(trajectory, 0.99, np.zeros([T + 1, B], np.float32))
    gradients = []
    for average in (0.0, 0.7):
        agents = [
            make(baseline="average", normalize_advantage=x) for x in (True, False)
        ]
        for agent in agents:
            agent._average.assign(average)
        normalized, plain = (gradient(agent, trajectory) for agent in agents)
        size = np.sqrt(np.mean((found[mask] - average) ** 2))
        np.testing.assert_allclose(normalized, plain / size, rtol=1e-3, atol=1e-6)
        gradients.append(normalized)
    assert np.abs(gradients[0] - gradients[1]).max() > 1e-3


def test_a_failed_episode_does_not_count_at_any_time_step():
    trajectory = collect(make())
    failed = np.arange(B) == 0
    steps = trajectory.steps._replace(
        first=trajectory.steps.first | failed,
        truncated=trajectory.steps.truncated | failed,
    )
    both = trajectory._replace(steps=steps)
    rest = nest.map(lambda x: x[:, 1:], both._replace(state=()))
    state = nest.map(lambda x: x[1:], both.state)
    with_it, without = (
        gradient(make(baseline="time_step", normalize_advantage=False), each)
        for each in (both, rest._replace(state=state))
    )
    assert np.any(without != 0)
    np.testing.assert_allclose(with_it, without, rtol=1e-4, atol=1e-7)


def test_a_return_can_end_at_each_reward():
    agent = make(reset_return=True, baseline="none", gamma=0.9)
    trajectory = collect(agent)
    time = np.arange(T + 1)[:, None]
    reward = np.where((time + np.arange(B)) % 2 == 0, 1.0 + time, 0)
    reward = tf.constant(reward, tf.float32)
    trajectory = trajectory._replace(steps=trajectory.steps._replace(reward=reward))
    zeros = np.zeros([T + 1, B], np.float32)
    expected, plain = (
        slow_returns(trajectory, 0.9, zeros, reset)[trajectory.mask.numpy()].mean()
        for reset in (True, False)
    )
    found = update(agent, trajectory, 0)["value/return"]
    assert abs(expected - plain) > 0.1
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_moving_average_follows_the_mean_return():
    agent = make(baseline="average", average_rate=0.25, gamma=0.9)
    trajectory = collect(agent)
    zeros = np.zeros([T + 1, B], np.float32)
    mean = np.mean(slow_returns(trajectory, 0.9, zeros)[trajectory.mask.numpy()])
    for expected in (0.25 * mean, 0.25 * mean * (1 + 0.75)):
        update(agent, trajectory, 0)
        found = named(agent)["learner/average"]
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_mean_at_each_time_step_needs_whole_episodes(tmp_path):
    options = {"steps": 100, "settings": {"baseline": "time_step"}}
    with pytest.raises(UserError, match=r"time_step needs whole episodes.*episodes"):
        cases.train("reinforce", tmp_path, **options | {"rollout": {"length": 16}})
    assert not list(tmp_path.iterdir())


class Whole(linear.Config):
    source = "rollout", {"episodes": 8}

    def accepts(self):
        return {"rollouts": Rollouts(whole_episodes="this test")}


def test_an_agent_of_whole_episodes_is_evaluated_over_any_number(tmp_path, monkeypatch):
    monkeypatch.setitem(REGISTRY, "linear", (linear.Linear, Whole))
    run = cases.train("linear", tmp_path, settings={}, steps=60, compile="off")
    # As many environments as episodes, which is no divisor of those of an update.
    assert tfb.evaluate(run.logdir, episodes=3).episodes == 3


def test_squared_errors_need_discrete_actions():
    with pytest.raises(UserError, match=r"squared_error.*needs Discrete actions"):
        make("box", loss="squared_error")


def test_the_squared_probability_of_two_actions_has_the_gradient_of_bigdl():
    logit, action = tf.constant([0.3, -1.2, 2.0]), tf.constant([1, 0, 1])
    advantage, mask = tf.constant([2.0, -1.0, 0.5]), tf.constant([True] * 3)
    with tf.GradientTape() as tape:
        tape.watch(logit)
        both = tf.nn.softmax(tf.stack([tf.zeros_like(logit), logit], -1))
        loss = reinforce.squared_probability(both, action, advantage, mask)
    p = tf.sigmoid(logit)
    by_p = -advantage * (tf.cast(action, tf.float32) - p)
    expected = by_p * p * (1 - p) / 3
    np.testing.assert_allclose(tape.gradient(loss, logit), expected, rtol=1e-5)
