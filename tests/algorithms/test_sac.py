"""SAC: targets, gradients, temperature and networks, for Box and Discrete actions."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms import cases
from tests.algorithms.cases import assert_gradients, at, experience
from tests.nn.cases import ACTIONS, VECTOR, make_spec
from tfagents_batch import nest, seeds
from tfagents_batch.algorithms import sac
from tfagents_batch.errors import UserError
from tfagents_batch.nn.actor import Bounds
from tfagents_batch.ops import windows
from tfagents_batch.ops.gaussian import TanhNormal
from tfagents_batch.schedules import Constant

STEP = tf.constant(5000, tf.int64)


def make(*action, **settings):
    return cases.make("sac", *action, **settings)


@pytest.mark.parametrize("terminate", [False, True])
def test_td_errors_for_discrete_actions_are_those_of_a_slow_loop(terminate):
    agent = make(ACTIONS["discrete"], gamma=0.9, temperature=0.3)
    batch = experience(agent, terminate=terminate)
    q = agent.critics(at(batch, 0)).numpy()
    then = np.min(agent.targets(at(batch, 1)).numpy(), 0)
    logits = agent.network(at(batch, 1))[0]["logits"].numpy()
    expected = []
    for i, counts in enumerate(batch.mask.numpy()[0]):
        log = logits[i] - np.log(np.sum(np.exp(logits[i])))
        value = np.sum(np.exp(log) * (then[i] - 0.3 * log))
        going = 0.0 if bool(batch.steps.terminated[1, i]) else 0.9
        goal = float(batch.steps.reward[1, i]) + going * value
        error = np.mean(np.abs(goal - q[:, i, int(batch.action[0, i])]))
        expected.append(error if counts else 0.0)
    found = agent.update(batch, 0, STEP).priority
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("terminate", [False, True])
def test_td_errors_for_boxes_are_those_of_drawn_actions_scaled_to_one(terminate):
    agent = make(gs.Box(-2, 6, (2,)), gamma=0.9, temperature=0.3)
    batch = experience(agent, terminate=terminate)
    outputs = agent.network(at(batch, 1))[0]
    std = np.exp(outputs["log_std"])
    noise = seeds.normal(std.shape, seeds.key(0, "later"))
    then = np.tanh(outputs["mean"] + std * noise)
    log = -np.square(noise) / 2 - np.log(std * np.sqrt(2 * np.pi))
    log = np.sum(log - np.log(1 - np.square(then)), -1)
    value = np.min(agent.targets(at(batch, 1), then), 0) - 0.3 * log
    going = np.where(batch.steps.terminated[1], 0, 0.9)
    q = agent.critics(at(batch, 0), (batch.action[0] - 2) / 4)
    error = np.mean(np.abs(batch.steps.reward[1] + going * value - q), 0)
    found = agent.update(batch, 0, STEP).priority
    expected = np.where(batch.mask[0], error, 0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["box", "discrete"])
def test_critics_differ_and_targets_begin_as_copies_and_follow(kind):
    agent = make(ACTIONS[kind], target_tau=0.5)
    one, two = agent.critics.towers.layers[0].kernel.numpy()
    assert np.all(np.abs(one - two).max() > 0.01)
    pairs = list(zip(agent.targets.variables, agent.critics.variables, strict=True))
    before = [x.numpy() for x, _ in pairs]
    for copy, (_, original) in zip(before, pairs, strict=True):
        np.testing.assert_array_equal(copy, original)
    agent.update(experience(agent), 0, STEP)
    for old, (target, learned) in zip(before, pairs, strict=True):
        np.testing.assert_allclose(target, (old + learned) / 2, atol=1e-6)


@pytest.mark.parametrize("kind", ["box", "discrete"])
def test_gradients_stop_at_targets_at_the_other_network_and_at_the_temperature(kind):
    agent = make(ACTIONS[kind], start_temperature=0.3, learning_rate=Constant(0.0))
    batch = experience(agent)
    now, counts = at(batch, 0), batch.mask[0]
    window = windows.transition(batch, 1, 0.99)
    later = agent._actions.draw(at(batch, 1), seeds.key(0, "later"))
    goal = agent._target(window, later, 0).mean.numpy()
    agent.update(batch, 0, STEP)

    def mean(x):
        return tf.reduce_mean(tf.boolean_mask(x, counts))

    def critics():
        if kind == "box":
            q = agent.critics(now, batch.action[0])
        else:
            q = tf.gather(agent.critics(now), batch.action[0], axis=2)
            q = tf.linalg.diag_part(q)
        return mean(tf.reduce_sum((goal - q) ** 2 / 2, 0))

    def policy():
        outputs = agent.network(now)[0]
        if kind == "discrete":
            pi = tf.nn.softmax(outputs["logits"])
            q = tf.reduce_min(agent.critics(now), 0)
            return [tf.reduce_sum(pi * x, -1) for x in (q, tf.math.log(pi))]
        std = tf.exp(outputs["log_std"])
        noise = seeds.normal(std.shape, seeds.key(0, "now"))
        action = tf.tanh(outputs["mean"] + std * noise)
        log = -(noise**2) / 2 - tf.math.log(std * np.sqrt(2 * np.pi))
        log = tf.reduce_sum(log - tf.math.log(1 - action**2), -1)
        return tf.reduce_min(agent.critics(now, action), 0), log

    def actor():
        q, log = policy()
        return mean(0.3 * log - q)

    def temperature():
        goal = -2.0 if kind == "box" else 0.98 * math.log(3)
        (variable,) = agent._log_temperatures.values()
        return -variable.value * mean(policy()[1].numpy() + goal)

    optimizers = agent.learner.optimizers
    assert_gradients(critics, optimizers["critics"])
    assert_gradients(actor, optimizers["actor"])
    assert_gradients(temperature, optimizers["temperature"])


@pytest.mark.parametrize("target, rises", [(1.0, True), (-50.0, False)])
def test_the_temperature_rises_while_the_entropy_is_below_its_target(target, rises):
    agent = make(target_entropy=target, learning_rate=Constant(0.01))
    agent.network.heads[1].bias.assign([-3.0, -3.0])  # small standard deviations
    metrics = agent.update(experience(agent), 0, STEP).metrics
    assert (float(metrics["policy/temperature"]) > 1) == rises


@pytest.mark.parametrize("temperature", [0.0, 0.2])
def test_a_fixed_temperature_stays(temperature):
    agent = make(temperature=temperature)
    metrics = agent.update(experience(agent), 0, STEP).metrics
    assert float(metrics["policy/temperature"]) == pytest.approx(temperature)
    assert "loss/temperature" not in metrics


def test_invalid_actions_have_no_influence_on_targets_and_are_never_drawn():
    space = gs.Dict(state=VECTOR, action_mask=gs.Box(0, 1, (3,), np.int8))
    agent = make(ACTIONS["discrete"], observation=space)
    batch = experience(agent, observation=space)
    mask = tf.constant([[1, 0, 1]] * batch.action.shape[1], tf.int8)
    step = at(batch, 0)._replace(
        observation={"state": batch.steps.observation["state"][0], "action_mask": mask}
    )
    noise = nest.map(lambda x: x[0], agent.policy.noise((1, mask.shape[0]), 1))
    for now in (0, 5000):
        when = tf.constant(now, tf.int64)
        action = agent.policy.act(step, (), noise, when, True)[0]
        assert set(action.numpy()) == {0, 2}
    values = tf.constant([[1.0, 1e9, 1.0]])
    actions = agent._actions
    q, logs = actions.expected(values, actions.draw(step, None), step)
    np.testing.assert_allclose(q, 1, rtol=1e-5)
    assert np.all(np.abs(logs["choices"]) <= np.log(2) + 1e-5)


def test_a_network_of_features_serves_actor_and_critics():
    def build(observations, actions):
        return keras.Sequential([keras.layers.Dense(7, "tanh")])

    agent = make(network=build)
    assert agent.update(experience(agent), 0, STEP).metrics["loss/critics"] > 0
    assert agent.network.count_params() < 100
    with pytest.raises(UserError, match=r"returns keys.*expected features \[N, F\]"):
        make(network=lambda *_: _Named())


class _Named(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)

    def call(self, x):
        return {"mean": self.dense(x)}


@pytest.mark.parametrize(
    "action, text",
    [
        (gs.Box(-np.inf, np.inf, (2,)), r"finite bounds.*TransformAction"),
        (gs.Box(0, 5, (2,), np.int32), r"needs a Box of floats"),
    ],
)
def test_actions_that_do_not_fit_are_refused(action, text):
    with pytest.raises(UserError, match=text):
        make(action)


def test_a_mask_of_box_actions_is_refused():
    observed = gs.Dict(x=VECTOR, action_mask=gs.MultiBinary(2))
    with pytest.raises(UserError, match="cannot mask actions; only Discrete and Multi"):
        sac.SAC(sac.SACConfig(), make_spec(observed, ACTIONS["box"]))


@pytest.mark.parametrize(
    "kind, largest", [("box", 2 * np.log(2)), ("discrete", np.log(3))]
)
def test_a_target_entropy_that_no_policy_reaches_is_refused(kind, largest):
    make(ACTIONS[kind], target_entropy=largest - 1e-3)
    make(ACTIONS[kind], target_entropy=largest + 1, temperature=0.1)  # unused
    with pytest.raises(UserError, match=r"target_entropy is .*nats at most; lower"):
        make(ACTIONS[kind], target_entropy=largest + 1e-3)


def test_actions_are_scaled_to_their_bounds_and_back():
    limits = Bounds(np.float32([-1, 10]), np.float32([3, 30]))
    unit = tf.constant([[-1.0, 1.0], [0.5, 0.0]])
    np.testing.assert_allclose(limits.action(unit), [[-1, 30], [2, 20]])
    np.testing.assert_allclose(limits.unit(limits.action(unit)), unit, atol=1e-6)


def test_the_log_density_of_a_sample_is_that_of_its_action():
    mean, std = tf.constant([[0.3, -0.5]]), tf.constant([[0.5, 1.2]])
    policy = TanhNormal(mean, std, -1.0, 1.0)
    action, log_prob = policy.sample_with_log_prob(tf.constant([[0.7, -0.2]]))
    np.testing.assert_allclose(log_prob, policy.log_prob(action), rtol=1e-4)


def test_noise_is_added_to_sampled_actions_and_has_no_density():
    plain, noisy = make(), make(exploration="ou", noise=0.05)
    steps = at(experience(plain), 0)
    rows = steps.first.shape[0]
    noise = nest.map(lambda x: x[0], noisy.policy.noise((1, rows), 1))
    before = plain.policy.act(steps, (), noise, STEP, True)[0]
    state = noisy.policy.initial_state(rows)
    after, _, state = noisy.policy.act(steps, state, noise, STEP, True)
    np.testing.assert_allclose(state, 0.05 * noise.noise, atol=1e-6)
    np.testing.assert_allclose(after, np.clip(before + state, -1, 1), atol=1e-6)
    mode = noisy.policy.act(steps, state, noise, STEP, False)[0]
    np.testing.assert_array_equal(mode, plain.policy.act(steps, (), (), STEP, False)[0])
    with pytest.raises(UserError, match=r"no closed form; set --algorithm.exploration"):
        noisy.policy.log_density(steps, state, after, STEP)
    with pytest.raises(UserError, match=r"exploration is ou, but .* Box only"):
        make(ACTIONS["discrete"], exploration="ou")


def test_another_rule_of_the_gradient_step_can_be_chosen():
    agent = make(optimizer="rmsprop", optimizer_epsilon=0.1)
    batch = experience(agent)
    weights = agent.critics.trainable_variables
    before = [x.numpy() for x in weights]
    rate = float(agent.update(batch, 0, STEP).metrics["grad/learning_rate"])
    squares = agent.learner.optimizers["critics"].rule.variables[2:]
    for x, was, square in zip(weights, before, squares, strict=True):
        root = np.sqrt(square)  # 0.1 |gradient| after the first step
        step = rate * root / 0.1 / (root + 0.1)
        np.testing.assert_allclose(abs(x.numpy() - was), step, rtol=0.05, atol=1e-7)
