"""Estimators of whole episodes agree with their definitions, written as loops."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from tfagents_batch.evaluation import sequential
from tfagents_batch.evaluation.episode_rows import EpisodeRows, pad, parts
from tfagents_batch.evaluation.totals import Bootstrap

# (ratio, reward, q, v) of the steps of two episodes that end.
TOY = [[(0.5, 0, 0.4, 0.5), (2, 1, 0.8, 0.9)], [(1.5, 1, 0.6, 0.7)]]


def rows(episodes, gamma=0.9, closing=None):
    """Return rows of episodes; ``closing`` has the last values of those cut off."""
    length = [len(x) for x in episodes]
    steps = np.array([step for each in episodes for step in each], float)
    ratio, reward, q, v = steps.T
    last = np.cumsum(length) - 1
    terminated = np.zeros(len(steps), bool)
    terminated[last] = True
    next_v = np.zeros(len(steps))
    for i, value in enumerate(closing or []):
        if value is not None:
            terminated[last[i]], next_v[last[i]] = False, value
    column = np.newaxis
    return EpisodeRows(
        np.repeat(np.arange(len(episodes)), length),
        ratio,
        reward[:, column],
        np.full(len(steps), gamma),
        terminated,
        q[:, column],
        v[:, column],
        next_v[:, column],
        2 * next_v[:, column],
        np.ones([len(steps), 1]),
    )


def sums(given, cap=np.inf):
    steps = int(np.bincount(given.episode).max())
    found = sequential.terms(pad(given, steps), cap)
    return sequential.Terms(*(x.sum(0) for x in found))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sdr", 1.0925),
        ("pdis", 1.2),
        ("wpdis", 1.11),
        ("wis", 0.96),
        ("ips", 1.2),
        ("wsdr", 1.0745),
        ("fqe", 0.6),
    ],
)
def test_two_episodes_by_hand(name, expected):
    found = sequential.ESTIMATORS[name](sums(rows(TOY)))
    assert found == pytest.approx([expected], abs=1e-6)


def test_terms_of_each_episode_by_hand():
    found = sequential.terms(pad(rows(TOY), 2))
    assert found.sdr[:, 0] == pytest.approx([0.885, 1.3])
    assert found.returned[:, 0] == pytest.approx([0.9, 1.0])


def by_loops(episodes, gamma, closing, cap):
    """Return all estimates, each as its definition says."""
    n, most = len(episodes), max(map(len, episodes))
    weight = np.ones([n, most + 1])  # W_{t-1}
    for i, each in enumerate(episodes):
        for t in range(most):
            ratio = each[t][0] if t < len(each) else 1.0
            weight[i, t + 1] = weight[i, t] * ratio
    weight = np.minimum(weight, cap)
    found = dict.fromkeys(("ips", "wis", "pdis", "wpdis", "sdr", "wsdr", "fqe"), 0.0)
    total = weight.sum(0)
    for i, each in enumerate(episodes):
        end = closing[i] or 0.0
        returned = sum(gamma**t * x[1] for t, x in enumerate(each))
        returned += gamma ** len(each) * end
        found["ips"] += weight[i, -1] * returned / n
        found["wis"] += weight[i, -1] * returned / total[-1]
        found["fqe"] += each[0][3] / n
        for t, (_, reward, q, v) in enumerate(each):
            before, after = weight[i, t], weight[i, t + 1]
            found["pdis"] += gamma**t * after * reward / n
            found["wpdis"] += gamma**t * after * reward / total[t + 1]
            found["sdr"] += gamma**t * (after * (reward - q) + before * v) / n
            found["wsdr"] += gamma**t * after * (reward - q) / total[t + 1]
            found["wsdr"] += gamma**t * before * v / total[t]
        t = len(each)
        for name, scale in (("pdis", n), ("wpdis", total[t])):
            found[name] += gamma**t * weight[i, t] * end / scale
        for name, scale in (("sdr", n), ("wsdr", total[t])):
            found[name] += gamma**t * weight[i, t] * end / scale
    return found


_number = strategies.floats(-2, 2)
_step = strategies.tuples(strategies.floats(0.05, 4), _number, _number, _number)
_episode = strategies.tuples(
    strategies.lists(_step, min_size=1, max_size=5),
    strategies.one_of(strategies.none(), _number),
)


@hypothesis.settings(max_examples=200, deadline=None)
@hypothesis.given(
    strategies.lists(_episode, min_size=1, max_size=5),
    strategies.floats(0.5, 1),
    strategies.sampled_from([2.0, 100.0]),
)
def test_estimators_agree_with_loops(given, gamma, cap):
    episodes, closing = [x[0] for x in given], [x[1] for x in given]
    found = sums(rows(episodes, gamma, closing), cap)
    for name, expected in by_loops(episodes, gamma, closing, cap).items():
        value = float(sequential.ESTIMATORS[name](found)[0])
        assert value == pytest.approx(expected, abs=1e-6, rel=1e-6), name


def test_sequential_dr_is_the_backward_recursion():
    episodes = TOY * 3
    found = sequential.terms(pad(rows(episodes, closing=[None, 0.3] * 3), 2)).sdr
    for i, each in enumerate(episodes):
        x = 0.3 if i % 2 else 0.0
        for ratio, reward, q, v in reversed(each):
            x = v + ratio * (reward + 0.9 * x - q)
        assert found[i, 0] == pytest.approx(x)


def test_the_blends_go_from_the_model_to_weighted_doubly_robust():
    found = sums(rows(TOY))
    blends = sequential.blends(found)[:, 0]
    assert blends[0] == pytest.approx(0.6)
    assert blends[-1] == pytest.approx(1.0745)


def test_the_log_ends_with_its_own_value_too():
    found = sequential.terms(pad(rows(TOY, closing=[0.5, None]), 2)).returned[:, 0]
    assert found == pytest.approx([0.9 + 0.81 * 1.0, 1.0])


def test_a_product_of_ratios_does_not_overflow():
    episode = [(1e30, 1.0, 0.0, 0.0)] * 30
    found = pad(rows([episode]), 30)
    assert np.isfinite(found.weight).all()


def test_resamples_do_not_depend_on_the_blocks():
    random = np.random.default_rng(0)
    episodes = [
        [tuple(random.uniform(0.5, 2, 4)) for _ in range(random.integers(1, 5))]
        for _ in range(40)
    ]
    given = rows(episodes)
    found = []
    for size in (7, 40):
        bootstrap = Bootstrap(100, seed=1)
        for part in parts(given, size):
            bootstrap.add(sequential.terms(pad(part, 4)))
        found.append(sequential.wsdr(bootstrap.resampled)[:, 0])
    np.testing.assert_allclose(*found, rtol=1e-12)


def test_the_error_of_resamples_is_that_of_a_mean():
    random = np.random.default_rng(0)
    returns = random.normal(size=2000)
    given = rows([[(1.0, x, 0.0, 0.0)] for x in returns])
    bootstrap = Bootstrap(1000, seed=0)
    bootstrap.add(sequential.terms(pad(given, 1)))
    drawn = sequential.ips(bootstrap.resampled)[:, 0]
    assert drawn.std() == pytest.approx(returns.std() / np.sqrt(2000), rel=0.1)
