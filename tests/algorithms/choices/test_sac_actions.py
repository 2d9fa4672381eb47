"""SAC of numbers and choices: sums of its parts, as loops over choices."""

import math

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms import cases
from tests.algorithms.cases import assert_gradients, at, experience, named
from tests.nn.cases import VECTOR
from tfagents_batch import nest, seeds
from tfagents_batch.errors import UserError
from tfagents_batch.ops import windows

SPACE = gs.Tuple(
    [gs.MultiDiscrete([2, 3], start=[1, 0]), gs.Box(-2, 4, (2,)), gs.MultiBinary(1)]
)
MASKED = gs.Dict(state=VECTOR, action_mask=gs.MultiBinary(5))
STEP = tf.constant(5000, tf.int64)
SIZES = [2, 3, 2]  # choices of each branch


def make(space=SPACE, **settings):
    return cases.make("sac", space, **settings)


@pytest.mark.parametrize(
    "part", [gs.Discrete(3, start=-1), gs.Box(-2, 4, (2,))], ids=str
)
def test_one_part_is_learned_as_the_same_action_without_parts(part):
    agents = [make(space, seed=3) for space in (part, gs.Tuple([part]))]
    plain = experience(agents[0])
    batches = plain, plain._replace(action=(plain.action,))
    found = [
        agent.update(batch, 1, STEP)
        for agent, batch in zip(agents, batches, strict=True)
    ]
    np.testing.assert_allclose(found[0].priority, found[1].priority, rtol=1e-5)
    for name, value in found[0].metrics.items():
        if not name.startswith("histogram"):
            np.testing.assert_allclose(
                value, found[1].metrics[name], rtol=1e-4, atol=1e-6, err_msg=name
            )
    before, after = (list(named(agent).values()) for agent in agents)
    for one, two in zip(before, after, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("observation", [VECTOR, MASKED], ids=["all", "masked"])
def test_gradients_are_those_of_a_loop_over_choices(observation):
    agent = make(observation=observation, start_temperature=0.3, learning_rate=0.0)
    agent._log_temperatures["choices"].assign(math.log(0.7))
    for variable in agent.targets.trainable_variables:
        variable.assign(variable + 0.05)
    batch = experience(agent, observation=observation)
    now, later, counts = at(batch, 0), at(batch, 1), batch.mask[0]
    window = windows.transition(batch, 1, 0.99)

    def mean(x):
        return tf.reduce_mean(tf.boolean_mask(x, counts))

    def policy(step, critics, purpose):
        """Return the value of the policy, and its entropies of both kinds."""
        outputs = agent.network(step)[0]
        std = tf.exp(tf.clip_by_value(outputs["log_std"], -20, 2))
        noise = seeds.normal(std.shape, seeds.key(0, purpose))
        unit = tf.tanh(outputs["mean"] + std * noise)
        log = -(noise**2) / 2 - tf.math.log(std * np.sqrt(2 * np.pi))
        log = tf.reduce_sum(log - tf.math.log(1 - unit**2), -1)
        bits = outputs["logits"][:, 5:]
        logits = tf.concat([outputs["logits"][:, :5], 0 * bits, bits], -1)
        q = tf.split(tf.reduce_min(critics(step, unit), 0), SIZES, -1)
        value, entropy = 0.0, 0.0
        for branch, part in enumerate(tf.split(logits, SIZES, -1)):
            valid = choices(step)[branch]
            odds = tf.where(valid, tf.exp(part), 0.0)
            pi = odds / tf.reduce_sum(odds, -1, keepdims=True)
            if purpose == "now":  # each policy by its own values; numbers by the mean
                value += tf.reduce_sum(pi * tf.stop_gradient(q[branch]), -1)
                value += tf.reduce_sum(tf.stop_gradient(pi) * q[branch], -1) / 3
            else:
                value += tf.reduce_sum(pi * q[branch], -1) / 3
            log_pi = tf.math.log(tf.where(valid, pi, 1.0))
            entropy -= tf.reduce_sum(pi * log_pi, -1)
        return value, -log, entropy

    def choices(step):
        """Return which choices are valid, a list of bool [N, n]."""
        rows = counts.shape[0]
        mask = np.ones([rows, 7], bool)
        if observation is MASKED:
            mask[:, :5] = step.observation["action_mask"].numpy() > 0
        found = np.split(mask, np.cumsum(SIZES)[:-1], -1)
        return [x | ~x.any(-1, keepdims=True) for x in found]

    value, *entropies = policy(later, agent.targets, "later")
    value += 0.3 * entropies[0] + 0.7 * entropies[1]
    goal = window.reward + window.discount * value

    def critics():
        action, numbers, bit = batch.action
        index = tf.concat([action[0] - [1, 0], tf.cast(bit[0], tf.int32)], -1)
        q = agent.critics(now, (numbers[0] - 1) / 3)
        total = 0.0
        for branch, part in enumerate(tf.split(q, SIZES, -1)):
            hot = tf.one_hot(index[:, branch], SIZES[branch])
            taken = tf.reduce_sum(part * hot, -1)
            total += mean(tf.reduce_sum((goal - taken) ** 2 / 2, 0)) / 3
        return total

    def actor():
        q, *entropies = policy(now, agent.critics, "now")
        return mean(-0.3 * entropies[0] - 0.7 * entropies[1] - q)

    def temperatures():
        _, *found = policy(now, agent.critics, "now")
        number = [np.log(np.sum(x, -1)) for x in choices(now)]
        aims = -2.0, np.float32(0.98 * np.sum(number, 0))
        pairs = zip(agent._log_temperatures.values(), found, aims, strict=True)
        return sum(x.value * mean(h.numpy() - aim) for x, h, aim in pairs)

    metrics = agent.update(batch, 0, STEP).metrics
    assert float(metrics["value/target"]) == pytest.approx(float(mean(goal)), rel=1e-4)
    shown = {"policy/temperature": 0.3, "policy/temperature_of_choices": 0.7}
    assert {k: float(metrics[k]) for k in shown} == pytest.approx(shown)
    optimizers = agent.learner.optimizers
    assert_gradients(critics, optimizers["critics"])
    assert_gradients(actor, optimizers["actor"])
    assert_gradients(temperatures, optimizers["temperature"])


def test_actions_are_of_the_space_and_have_the_probabilities_of_the_policy():
    agent = make(observation=MASKED)
    step = nest.map(lambda x: x[:1], at(experience(agent, observation=MASKED), 0))
    mask = tf.constant([[True, False, True, False, True]])
    step = step._replace(observation=step.observation | {"action_mask": mask})
    many = nest.map(lambda x: tf.repeat(x, 20_000, 0), step)
    for head in agent.network.heads:
        head.bias.assign(np.linspace(-1, 1, head.units))
    _, log = agent.policy.kinds(step)
    for now, expected in ((0, [0.5, 0.5, 0.5]), (5000, None)):
        noise = agent.policy.noise([20_000], 1)
        when = tf.constant(now, tf.int64)
        action = agent.policy.act(many, (), noise, when, True)[0]
        rows = [nest.map(lambda x, i=i: x[i].numpy(), action) for i in range(50)]
        assert all(SPACE.contains(tuple(x.astype(y.dtype) for x, y in zip(
            row, SPACE, strict=True))) for row in rows)  # fmt: skip
        first, numbers, bit = (x.numpy() for x in action)
        assert set(first[:, 0]) == {1} and set(first[:, 1]) == {0, 2}
        found = [np.mean(first[:, 1] == 0), np.mean(first[:, 1] == 2), bit.mean()]
        if expected is None:
            pi = np.exp(log)
            expected = pi[1, 0], pi[1, 2], pi[2, 1]
        else:
            assert np.mean(numbers) == pytest.approx(1, abs=0.05)  # of -2 to 4
        np.testing.assert_allclose(found, expected, atol=0.015)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target_entropy": 5.0}, "entropy of 2 numbers in -1 to 1 is 1.386"),
        ({"quantiles": 5}, "quantiles for actions of a Box only"),
        ({"exploration": "ou"}, "noise is added to actions of a Box only"),
    ],
)
def test_settings_of_one_kind_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        make(**settings)


def test_settings_of_choices_are_refused_by_their_sizes():
    with pytest.raises(UserError, match=r"choices of \[5, 5\] is 3.219 nats at most"):
        make(gs.MultiDiscrete([5, 5]), target_entropy=7.0)
