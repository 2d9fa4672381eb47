"""The smallest blend of a covariance, and MAGIC's limits."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from tests.evaluation.test_sequential import rows
from tfagents_batch.evaluation import sequential
from tfagents_batch.evaluation.episode_rows import pad
from tfagents_batch.evaluation.totals import Bootstrap


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(strategies.integers(0, 10_000), strategies.integers(1, 12))
def test_no_blend_is_smaller(seed, size):
    random = np.random.default_rng(seed)
    factor = random.normal(size=[size, random.integers(1, size + 1)])
    matrix = factor @ factor.T
    x = sequential.smallest(matrix)
    assert x.min() >= 0
    assert x.sum() == pytest.approx(1)
    # The gradient of every used entry is the smallest one.
    gradient = matrix @ x
    scale = np.trace(matrix)
    assert gradient[x > 1e-6].max() <= gradient.min() + 1e-6 * scale


def _bootstrap(episodes):
    found = Bootstrap(200, seed=0)
    found.add(sequential.terms(pad(rows(episodes), 2)))
    return found


def test_a_right_model_is_trusted():
    random = np.random.default_rng(0)
    q = [1.9, 1.0]  # the mean reward is 1 in both steps
    episodes = [
        [(x, random.normal(1), each, each) for x, each in zip(pair, q, strict=True)]
        for pair in random.uniform(0.2, 3, [50, 2])
    ]
    found = _bootstrap(episodes)
    value, _, (model, _) = sequential.magic(found.sums, found.resampled)
    assert model[0] > 0.9
    assert value == pytest.approx([1.9], abs=0.05)


def test_a_model_that_is_far_off_is_not():
    random = np.random.default_rng(0)
    episodes = [[(1.0, x, 50.0, 50.0), (1.0, x, 50.0, 50.0)] for x in random.random(50)]
    found = _bootstrap(episodes)
    value, drawn, (model, weighted) = sequential.magic(found.sums, found.resampled)
    assert model[0] < 0.1 and weighted[0] > 0.5
    assert value == pytest.approx(sequential.wsdr(found.sums), abs=0.1)
    assert drawn.shape == (200, 1)
