import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs
from hypothesis import given, settings

from tests.nn.policies.cases import (
    MASKED,
    SCORES,
    Values,
    assert_frequencies,
    assert_valid,
    at,
    choice,
    masks,
    sample,
    scores,
)
from tests.nn.test_q_network import SPEC, VECTOR, make_steps
from tfagents_batch import nest
from tfagents_batch.errors import UserError
from tfagents_batch.nn import q_network
from tfagents_batch.nn.policies.discrete import EpsilonGreedy
from tfagents_batch.schedules import Constant, Linear


def make(epsilon=0.2, warmup=0, temperature=None):
    epsilon = epsilon if isinstance(epsilon, Linear) else Constant(epsilon)
    temperature = temperature and Constant(temperature)
    return EpsilonGreedy(
        Values(), gs.Discrete(4, start=3), epsilon, warmup, temperature
    )


def probabilities(policy, values=SCORES, mask=None, step=0):
    return policy.probabilities(choice(values, mask), (), at(step))


def test_probabilities_are_those_computed_by_hand():
    # A random action of four: 0.2 / 4; of the three valid ones: 0.2 / 3.
    found = probabilities(make())
    np.testing.assert_allclose(found, [[0.05, 0.85, 0.05, 0.05]], rtol=1e-6)
    found = probabilities(make(), mask=MASKED)
    np.testing.assert_allclose(found, [[1 / 15, 0, 13 / 15, 1 / 15]], rtol=1e-6)
    # softmax(2 ln x / 2) is x / sum(x), and each is 0.8 of that plus 0.05.
    values = 2 * np.log([1.0, 2.0, 3.0, 4.0])
    found = probabilities(make(temperature=2.0), values)
    np.testing.assert_allclose(found, [[0.13, 0.21, 0.29, 0.37]], rtol=1e-5)


def test_an_action_that_is_not_allowed_is_taken_at_random_only():
    step, policy = choice(SCORES, MASKED, rows=2), make()
    allowed = tf.constant([[True, True, False, True]] * 2)
    step = step._replace(observation=step.observation | {"allowed": allowed})
    found = policy.probabilities(step, (), at(0))  # the best ones: 1 invalid, 2 not
    expected = [[1 / 15 + 0.8, 0, 1 / 15, 1 / 15]] * 2
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    decision = policy.decide(step, (), at(0))
    assert decision.action.numpy().tolist() == [3, 3]
    np.testing.assert_allclose(decision.random.probabilities()[0, 2], 1 / 3)
    assert policy.act(step, (), (), at(0), False)[0].numpy().tolist() == [3, 3]


def test_of_equal_values_the_first_has_the_probability_of_the_greedy_action():
    found = probabilities(make(), [1.0, 2.0, 2.0, 0.0])
    np.testing.assert_allclose(found, [[0.05, 0.85, 0.05, 0.05]], rtol=1e-6)


@pytest.mark.parametrize("mask", [None, MASKED, [False] * 4])
@pytest.mark.parametrize("temperature", [None, 1.5])
@pytest.mark.parametrize("step", [0, 150])
def test_actions_are_drawn_with_their_probabilities(mask, temperature, step):
    policy = make(0.3, 100, temperature)
    actions = sample(policy, choice(SCORES, mask, 100_000), step)
    counts = np.bincount(actions - 3, minlength=4)
    assert_frequencies(counts, probabilities(policy, mask=mask, step=step)[0])


def test_probabilities_follow_the_warmup_and_the_schedule_of_epsilon():
    policy = make(Linear(1.0, 0.0, 1000), warmup=100)
    found = {
        step: probabilities(policy, mask=MASKED, step=step)[0].numpy().tolist()
        for step in (0, 99, 100, 500, 1000)
    }
    for step, epsilon in ((0, 1), (99, 1), (100, 0.9), (500, 0.5), (1000, 0)):
        one = epsilon / 3
        expected = [one, 0, 1 - 2 * one, one]
        np.testing.assert_allclose(found[step], expected, rtol=1e-5, atol=1e-7)


@given(scores, masks)
@settings(max_examples=30, deadline=None)
def test_only_valid_actions_have_a_probability(values, mask):
    for temperature in (None, 0.5):
        policy = make(0.25, 100, temperature)
        for step in (0, 100):
            assert_valid(probabilities(policy, values, mask, step), mask)


def test_probabilities_of_a_noisy_network_are_refused_while_tracing():
    network = q_network.q_network(SPEC, q_network.QConfig(noisy=True))
    policy = EpsilonGreedy(network, SPEC.action_space, Constant(0.1))
    steps = nest.map(lambda x: x[0], make_steps(VECTOR, 1, 2))
    function = tf.function(
        lambda step: policy.probabilities(steps, (), step), autograph=False
    )
    with pytest.raises(UserError, match=r"noise of all weights.*network.noisy=false"):
        function.get_concrete_function(tf.TensorSpec([], tf.int64))
