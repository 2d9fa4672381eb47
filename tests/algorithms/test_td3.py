"""TD3 and DDPG: targets, delays, noise."""

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms import cases
from tests.algorithms.cases import assert_gradients, at, experience
from tfagents_batch import nest
from tfagents_batch.algorithms import td3
from tfagents_batch.errors import UserError
from tfagents_batch.metrics import Interval
from tfagents_batch.ops import masked
from tfagents_batch.schedules import Constant, Linear, Piecewise

STEP = tf.constant(5000, tf.int64)


def make(name="td3", action=None, **settings):
    return cases.make(name, action, **settings)


@pytest.mark.parametrize("name", ["td3", "ddpg"])
@pytest.mark.parametrize("terminate", [False, True])
def test_td_errors_are_those_of_a_slow_loop(name, terminate):
    agent = make(name, gs.Box(-2, 6, (2,)), gamma=0.9, target_noise=0.0)
    for variable in agent._target_actor.trainable_variables:  # a target of its own
        variable.assign(variable + 0.1)
    batch = experience(agent, terminate=terminate)
    unit = (batch.action[0] - 2) / 4
    q = agent.critics(at(batch, 0), unit).numpy()
    then = tf.tanh(agent._target_actor(at(batch, 1))[0]["action"])
    then = np.min(agent._targets(at(batch, 1), then).numpy(), 0)
    going = np.where(batch.steps.terminated[1], 0, 0.9)
    error = np.mean(np.abs(batch.steps.reward[1] + going * then - q), 0)
    expected = np.where(batch.mask[0], error, 0)
    found = agent.update(batch, 0, STEP).priority
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_gradients_stop_at_targets_and_at_the_other_network():
    settings = {"policy_delay": 1, "target_noise": 0.0, "learning_rate": Constant(0.0)}
    agent = make(gamma=0.9, **settings)
    batch = experience(agent)
    now, counts = at(batch, 0), batch.mask[0]
    then = tf.tanh(agent._target_actor(at(batch, 1))[0]["action"])
    then = np.min(agent._targets(at(batch, 1), then).numpy(), 0)
    goal = batch.steps.reward[1] + np.where(batch.steps.terminated[1], 0, 0.9) * then
    agent.update(batch, 0, STEP)

    def critics():
        error = goal - agent.critics(now, batch.action[0])
        return tf.reduce_mean(tf.boolean_mask(tf.reduce_sum(error**2 / 2, 0), counts))

    def actor():
        action = tf.tanh(agent.network(now)[0]["action"])
        return -tf.reduce_mean(tf.boolean_mask(agent.critics(now, action)[0], counts))

    assert_gradients(critics, agent.learner.optimizers["critics"])
    assert_gradients(actor, agent.learner.optimizers["actor"])


def test_actor_and_targets_move_in_every_second_update_only():
    agent = make(policy_delay=2)
    batch = experience(agent)
    held = [
        *agent.network.variables,
        *agent._targets.variables,
        *agent._target_actor.variables,
    ]
    start = [x.numpy() for x in held]
    agent.update(batch, 0, STEP)
    for before, now in zip(start, held, strict=True):
        np.testing.assert_array_equal(now, before)
    agent.update(batch, 1, STEP)
    assert all(
        np.any(now.numpy() != before)
        for before, now in zip(start, held, strict=True)
        if "kernel" in now.name
    )


def test_metrics_of_the_actor_are_means_over_its_own_updates():
    agent = make(policy_delay=2, learning_rate=Constant(0.0))  # so losses are equal
    batch, interval, found = experience(agent), Interval(), []
    for seed in range(3):
        interval.add(agent.update(batch, seed, STEP).metrics)
        found.append(interval.summary())
    # The actor does not move in the first update.
    names = {"loss/actor", "grad/actor_norm", "grad/actor_skipped"}
    assert not names & set(found[0]) and names <= set(found[1])
    unit = tf.tanh(agent.network(at(batch, 0))[0]["action"])
    loss = -masked.mean(agent.critics(at(batch, 0), unit)[0], batch.mask[0])
    for each in found[1:]:
        assert each["loss/actor"] == pytest.approx(float(loss), rel=1e-5)


def test_noise_in_targets_is_clipped():
    agents = [make(target_noise=x, target_clip=0.0) for x in (0.0, 1.0)]
    batch = experience(agents[0])
    one, two = (agent.update(batch, 0, STEP).priority for agent in agents)
    np.testing.assert_allclose(one, two, rtol=1e-5)
    other = make(target_noise=1.0, target_clip=0.5).update(batch, 0, STEP).priority
    assert np.any(np.abs(other - one) > 1e-4)


def acted(policy, steps, count=1):
    """Return the noise of actions in ``count`` steps after each other."""
    state, found = policy.initial_state(steps.first.shape[0]), []
    noise = policy.noise((count, steps.first.shape[0]), 1)
    plain = policy.act(steps, state, None, STEP, False)[0]
    for t in range(count):
        now = nest.map(lambda x, t=t: x[t], noise)
        action, _, state = policy.act(steps, state, now, STEP, True)
        found.append(action - plain)
        steps = steps._replace(first=tf.zeros_like(steps.first))
    return np.array(found), np.array(noise.action)


def test_gaussian_noise_is_independent_and_ou_noise_follows_its_recursion():
    batch = experience(make())
    steps = at(batch, 0)
    found, normal = acted(make(noise=Constant(0.01)).policy, steps, 3)
    np.testing.assert_allclose(found, 0.01 * normal, atol=1e-6)
    found, normal = acted(make(noise=Constant(0.01), exploration="ou").policy, steps, 3)
    x = np.zeros_like(normal[0])
    for t in range(3):
        x = 0.85 * x + 0.01 * normal[t]
        np.testing.assert_allclose(found[t], x, atol=1e-6)


@pytest.mark.parametrize("name", ["td3", "sac"])
def test_noise_begins_at_its_end_if_a_policy_that_has_learned_acts_first(name):
    settings = {"noise": Linear(0.5, 0.1, 1000), "exploration": "gaussian"}
    for warmup, scale in (("policy", 0.1), ("auto", 0.5), ("random", 0.5)):
        noise = make(name, warmup=warmup, **settings).policy.action_noise
        assert float(noise.scale(tf.constant(0, tf.int64))) == pytest.approx(scale)


def test_ou_noise_starts_at_zero_in_every_episode():
    policy = make(noise=Constant(0.01), exploration="ou").policy
    steps = at(experience(make()), 0)
    state = tf.ones([steps.first.shape[0], 2])
    noise = nest.map(lambda x: 0 * x[0], policy.noise((1, steps.first.shape[0]), 1))
    after = policy.act(steps, state, noise, STEP, True)[2]
    np.testing.assert_allclose(after[:, 0], np.where(steps.first, 0, 0.85), rtol=1e-6)


def test_a_scale_of_noise_below_zero_is_refused():
    with pytest.raises(UserError, match=r"noise is -0.1; expected"):
        td3.TD3Config(noise=-0.1).check()


@pytest.mark.parametrize("name", ["td3", "sac"])
def test_the_actor_may_have_a_learning_rate_of_its_own(name):
    schedule = Piecewise(((0, 0.0), (6000, 1e-3)))
    agent = make(name, actor_learning_rate=schedule, target_every=1)
    batch = experience(agent)

    def moved(step):
        parts = agent.network.trainable_variables, agent.critics.trainable_variables
        before = [[x.numpy() for x in part] for part in parts]
        for _ in range(2):
            metrics = agent.update(batch, 0, tf.constant(step, tf.int64)).metrics
        changed = [
            any((x.numpy() != y).any() for x, y in zip(part, old, strict=True))
            for part, old in zip(parts, before, strict=True)
        ]
        return *changed, float(metrics["grad/actor_learning_rate"])

    assert moved(0) == (False, True, 0)
    assert moved(6000) == (True, True, pytest.approx(1e-3))
