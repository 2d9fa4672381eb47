import numpy as np
import pytest
from gymnasium import spaces as gs
from hypothesis import given, settings

from tests.nn.policies.cases import (
    MASKED,
    SCORES,
    assert_frequencies,
    assert_valid,
    at,
    choice,
    make_step,
    masks,
    sample,
    scores,
)
from tfagents_batch.nn.policies.discrete import Softmax


def make():
    return Softmax(
        lambda step, _: ({"logits": step.observation["outputs"]}, ()),
        gs.Discrete(4, start=3),
        100,
    )


def probabilities(values, mask, step):
    return make().probabilities(choice(values, mask), (), at(step))


def test_probabilities_are_those_computed_by_hand():
    logits = np.log([1.0, 2.0, 3.0, 4.0])
    rows = {
        "outputs": np.float32([logits, logits, logits]),
        "action_mask": np.int8([[1, 1, 1, 1], [1, 1, 0, 1], [0, 0, 0, 0]]),
    }
    found = make().probabilities(make_step(rows), (), at(100))
    expected = [[0.1, 0.2, 0.3, 0.4], [1 / 7, 2 / 7, 0, 4 / 7], [0.1, 0.2, 0.3, 0.4]]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    found = make().probabilities(make_step(rows), (), at(99))
    expected = [[0.25] * 4, [1 / 3, 1 / 3, 0, 1 / 3], [0.25] * 4]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("mask", [None, MASKED, [False] * 4])
@pytest.mark.parametrize("step", [99, 100])
def test_actions_are_drawn_with_their_probabilities(mask, step):
    actions = sample(make(), choice(SCORES, mask, 100_000), step)
    counts = np.bincount(actions - 3, minlength=4)
    assert_frequencies(counts, probabilities(SCORES, mask, step)[0])


@given(scores, masks)
@settings(max_examples=30, deadline=None)
def test_only_valid_actions_have_a_probability(values, mask):
    for step in (0, 100):
        assert_valid(probabilities(values, mask, step), mask)
