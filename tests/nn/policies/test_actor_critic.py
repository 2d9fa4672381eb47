import gymnasium.spaces as gs
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings

from tests.nn.policies.cases import (
    MASKED,
    SCORES,
    ActorCritic,
    assert_frequencies,
    assert_valid,
    at,
    choice,
    masks,
    sample,
    scores,
)
from tfagents_batch.errors import UserError
from tfagents_batch.nn.normalizers import ObservationNormalizer
from tfagents_batch.nn.policies.actor_critic import ActorCriticPolicy
from tfagents_batch.ops import distributions

BOX = gs.Box(-1, 3, (1,))  # a range of 4 around 1


def make(space, squash=False, std=None):
    family = distributions.for_space(space, squash)
    network = ActorCritic(family, std)
    normalizer = ObservationNormalizer(
        gs.Dict(outputs=gs.Box(-9, 9, (family.size,))), enabled=False
    )
    return ActorCriticPolicy(network, normalizer, 0.99)


DISCRETE = make(gs.Discrete(4, start=3))


def probabilities(values, mask=None):
    return DISCRETE.probabilities(
        choice(values, mask), DISCRETE.initial_state(1), at(0)
    )


def log_density(policy, outputs, actions, state=0.0):
    rows = len(actions)
    state = (state + tf.zeros([rows]), tf.zeros([rows]))
    action = tf.constant(actions, tf.float32)
    found = policy.log_density(choice(outputs, None, rows), state, action, at(0))
    assert found.dtype == tf.float32 and found.shape == (rows,)
    return found.numpy()


def test_probabilities_are_those_computed_by_hand():
    logits = np.log([1.0, 2.0, 3.0, 4.0])
    found = probabilities(logits)
    np.testing.assert_allclose(found, [[0.1, 0.2, 0.3, 0.4]], rtol=1e-5)
    found = probabilities(logits, [True, True, False, True])
    np.testing.assert_allclose(found, [[1 / 7, 2 / 7, 0, 4 / 7]], rtol=1e-5)


def test_probabilities_are_given_the_acting_state():
    state = (tf.constant([np.log(2)], tf.float32), tf.zeros([1]))
    step = choice(np.log([1.0, 2.0, 3.0, 4.0]))
    found = DISCRETE.probabilities(step, state, at(0))
    np.testing.assert_allclose(11 * found, [[2, 2, 3, 4]], rtol=1e-5)


@pytest.mark.parametrize("mask", [None, MASKED, [False] * 4])
def test_actions_are_drawn_with_their_probabilities(mask):
    rows = 100_000
    state = DISCRETE.initial_state(rows)
    actions = sample(DISCRETE, choice(SCORES, mask, rows), state=state)
    counts = np.bincount(actions - 3, minlength=4)
    assert_frequencies(counts, probabilities(SCORES, mask)[0])


@given(scores, masks)
@settings(max_examples=30, deadline=None)
def test_only_valid_actions_have_a_probability(values, mask):
    assert_valid(probabilities(values, mask), mask)


def test_log_densities_are_those_computed_by_hand():
    # The mean is 1 + 2 (0.5) = 2, the std 2 (0.25) = 0.5: -ln(0.5 sqrt(2 pi)).
    policy = make(BOX, std=tf.constant([0.25]))
    found = log_density(policy, [0.5], [[2.0], [3.0], [-5.0]])
    peak = -0.2257914
    np.testing.assert_allclose(found, [peak, peak - 2, peak - 98], rtol=1e-6)
    # The acting state of this network is added to its output.
    found = log_density(policy, [0.0], [[2.0]], state=0.5)
    np.testing.assert_allclose(found, [peak], rtol=1e-6)


def test_squashed_log_densities_are_those_computed_by_hand():
    # x = 0 gives 1, the middle, where the slope is 2: -ln(2 sqrt(2 pi)). And x = 0.5
    # gives 1 + 2 tanh(0.5): less 0.125 and ln(1 - tanh(0.5)^2) = -0.2402290.
    policy = make(BOX, squash=True, std=tf.constant([1.0]))
    action = 1 + 2 * np.tanh(0.5)
    found = log_density(policy, [0.0], [[1.0], [action], [3.01], [-1.01]])
    expected = [-1.6120857, -1.4968567, -np.inf, -np.inf]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("squash", [False, True])
def test_densities_integrate_to_one_and_are_those_of_the_actions_drawn(squash):
    policy = make(BOX, squash, tf.constant([0.8]))
    rows, parts = 100_000, 1000
    edges = np.linspace(*((-1, 3) if squash else (-8, 12)), 20 * parts + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    density = np.exp(log_density(policy, [0.4], middle[:, np.newaxis]))
    mass = np.sum((density * np.diff(edges)).reshape(20, parts), 1, np.float64)
    np.testing.assert_allclose(mass.sum(), 1, rtol=1e-4)
    actions = sample(
        policy, choice([0.4], None, rows), state=policy.initial_state(rows)
    )
    counts = np.histogram(actions, edges[::parts])[0]
    assert counts.sum() == rows
    assert_frequencies(counts, mass / mass.sum())


def test_densities_are_what_acting_records():
    space = gs.Box(np.float32([[-2, 0]]), np.float32([[2, 1]]))  # of shape [1, 2]
    for squash in (False, True):
        policy = make(space, squash, tf.constant([0.5, 1.0]))
        step, state = choice([0.3, -0.2], None, 50), policy.initial_state(50)
        noise = policy.noise((50,), 1)
        action, behavior, _ = policy.act(step, state, noise, at(0), True)
        found = policy.log_density(step, state, action, at(0))
        np.testing.assert_array_equal(found, behavior["log_prob"])


@pytest.mark.parametrize(
    "space, method, text",
    [
        (gs.Discrete(3), "log_density", r"action space is Discrete.*call prob"),
        (BOX, "probabilities", r"action space is a Box.*call log_density"),
        *(
            (space, method, r'joint actions.*behavior\["log_prob"\]')
            for space in (gs.MultiDiscrete([2, 3]), gs.MultiBinary(3))
            for method in ("probabilities", "log_density")
        ),
    ],
)
def test_what_an_action_space_does_not_have_is_refused_while_tracing(
    space, method, text
):
    family = distributions.for_space(space)
    policy = make(space, std=tf.ones([family.size]) if family.needs_std else None)
    step, state = choice([0.0] * family.size), policy.initial_state(1)
    action = [tf.zeros([1, *family.shape], family.dtype)] * (method == "log_density")
    function = tf.function(
        lambda now: getattr(policy, method)(step, state, *action, now), autograph=False
    )
    with pytest.raises(UserError, match=text):
        function.get_concrete_function(tf.TensorSpec([], tf.int64))
