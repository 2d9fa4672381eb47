"""A2C: its gradient, corrections for older policies, and defaults."""

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms import cases
from tests.algorithms.cases import T, assert_gradients, assert_same, collect, update
from tests.nn.cases import ACTIONS
from tfagents_batch import nest
from tfagents_batch.errors import UserError
from tfagents_batch.schedules import Constant
from tfagents_batch.training.config import RunConfig
from tfagents_batch.types import VERSION

PLAIN = {
    "optimizer": "adam",  # keeps its gradient
    "max_gradient_norm": None,
    "normalize_observation": False,
    "normalize_return": False,
    "learning_rate": Constant(0.0),
}


def make(action="discrete", **settings):
    return cases.make("a2c", ACTIONS[action], **settings)


def older(trajectory, shift=0.3):
    """Return a trajectory whose actions had other probabilities when it acted."""
    behavior = trajectory.behavior
    drawn = tf.random.stateless_normal(behavior["log_prob"].shape, [1, 2])
    return trajectory._replace(
        behavior=behavior | {"log_prob": behavior["log_prob"] + shift * drawn}
    )


@pytest.mark.parametrize("terminate", [False, True])
@pytest.mark.parametrize("action", ["discrete", "box"])
def test_the_gradient_is_that_of_n_step_returns(action, terminate):
    agent = make(action, gamma=0.9, entropy_scale=Constant(0.1), **PLAIN)
    trajectory = collect(agent, terminate=terminate)
    steps, mask = trajectory.steps, trajectory.mask.numpy()
    value = agent.network.unroll(steps)[0].value.numpy()
    target = np.array(value)
    for t in reversed(range(T)):
        going = np.where(steps.terminated[t + 1], 0, 0.9)
        new = steps.reward[t + 1] + going * target[t + 1]
        target[t] = np.where(mask[t], new, value[t])
    advantage = target[:-1] - value[:-1]

    def loss():
        heads = agent.network.unroll(nest.map(lambda x: x[:-1], steps))[0]
        gain = heads.policy.log_prob(trajectory.action) * advantage
        error = tf.square(target[:-1] - heads.value) / 2
        rows = 0.5 * error - gain - 0.1 * heads.policy.entropy()
        return tf.reduce_mean(tf.boolean_mask(rows, mask))

    update(agent, trajectory, 0)
    assert_gradients(loss, agent.learner.optimizer)


def test_corrections_are_equal_without_a_delay_and_differ_with_one():
    names = "none", "vtrace", "clip", "log_floor"
    agents = [make(correction=name) for name in names]
    trajectory = collect(agents[0])
    for agent in agents:
        update(agent, trajectory, 0)
    for other in agents[1:]:
        assert_same((agents[0], other), rtol=1e-4, atol=1e-6)
    others = [make(correction=name) for name in ("none", "vtrace", "clip")]
    losses = [update(x, older(trajectory), 0)["loss/policy"] for x in others]
    assert len({round(float(x), 5) for x in losses}) == 3


def test_vtrace_scales_the_gradient_of_unlikely_actions_down():
    """An action that the policy takes half as often as the old one counts half."""
    settings = PLAIN | {"gamma": 0.0, "value_scale": 0.0}
    agents = [make(**settings) for _ in range(2)]
    trajectory = collect(agents[0])
    log_prob = trajectory.behavior["log_prob"] + tf.math.log(2.0)
    behavior = trajectory.behavior | {"log_prob": log_prob}
    update(agents[0], trajectory, 0)
    behavior[VERSION] = tf.zeros(log_prob.shape, tf.int64)
    metrics = update(agents[1], trajectory._replace(behavior=behavior), 0)
    np.testing.assert_allclose(metrics["lag/ratio"], 0.5, rtol=1e-4)
    assert float(metrics["lag/ratio_above_1"]) == 0
    ratios = metrics["histogram/ratio"].numpy()
    np.testing.assert_allclose(ratios[np.isfinite(ratios)], 0.5, rtol=1e-3)
    pairs = (agent.learner.optimizer.rule.mean_gradients() for agent in agents)
    for one, half in zip(*pairs, strict=True):
        np.testing.assert_allclose(half, one / 2, rtol=1e-3, atol=1e-6)


def test_a_trajectory_without_a_transition_keeps_weights_and_momentum():
    agent = make(optimizer="adam")
    trajectory = collect(agent)
    update(agent, trajectory, 0)
    held = [x.numpy() for x in agent.learner.optimizer.named_variables().values()]
    weights = [x.numpy() for x in agent.network.trainable_variables]
    steps = trajectory.steps
    nothing = trajectory._replace(steps=steps._replace(first=steps.first | True))
    metrics = update(agent, nothing, 1)
    assert float(metrics["grad/updates"]) == 0
    after = [x.numpy() for x in agent.network.trainable_variables]
    now = [x.numpy() for x in agent.learner.optimizer.named_variables().values()]
    for one, two in zip(weights + held[2:], after + now[2:], strict=True):
        np.testing.assert_array_equal(one, two)


def test_the_rollout_has_five_steps_unless_it_is_set():
    assert RunConfig("a2c").source.length == 5
    assert RunConfig("ppo").source.length == 256
    assert RunConfig("reinforce").source.episodes == 16


def test_a_sum_is_the_mean_times_the_number_of_transitions():
    agents = [make(**PLAIN | {"reduction": name}) for name in ("mean", "sum")]
    trajectory = collect(agents[0])
    metrics = [update(agent, trajectory, 0) for agent in agents]
    count = np.sum(trajectory.mask)
    mean, total = (float(x["loss/total"]) for x in metrics)
    assert total == pytest.approx(mean * count, rel=1e-4)
    pairs = (agent.learner.optimizer.rule.mean_gradients() for agent in agents)
    for one, many in zip(*pairs, strict=True):
        np.testing.assert_allclose(many, count * one, rtol=1e-3, atol=1e-4)


def test_the_floor_stops_the_gradient_of_actions_that_are_almost_impossible():
    settings = PLAIN | {"correction": "log_floor", "value_scale": 0.0}
    agent = make(**settings)
    agent.network.body.policy_head.bias.assign([0.0, 0.0, -30.0])
    trajectory = collect(agent)
    trajectory = trajectory._replace(action=2 * tf.ones_like(trajectory.action))
    metrics = update(agent, trajectory, 0)
    assert float(metrics["policy/log_floor"]) == 1
    for gradient in agent.learner.optimizer.rule.mean_gradients():
        np.testing.assert_array_equal(gradient, 0)


def test_a_floor_of_probabilities_needs_discrete_actions():
    with pytest.raises(UserError, match="log_floor, but the action space is Box"):
        make("box", correction="log_floor")
