import csv
import pathlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tfagents_batch.evaluation import one_step

REWARD = np.array([4.0, 5.0, 7.0])
LOGGED = np.array([0.2, 0.5, 0.4])  # probabilities
MODEL_LOGGED = np.array([2.0, 4.0, 6.0])
MODEL_EXPECTED = np.array([1.0, 4.0, 5.0])
MATCHES = np.array([0.0, 1.0, 0.0]) / LOGGED  # of a policy that agrees in one row
# Rows of Open Bandit (Saito et al. 2020) that Bernoulli Thompson sampling logged, all
# clicks among them, as benchmarks.open_bandit prepares them for a uniform policy.
OPEN_BANDIT = pathlib.Path(__file__).with_name("open_bandit.csv")
EXACT = {"rel": 0, "abs": 1e-12}


def estimates(reward, weight, model_logged, model_expected, threshold=0.0):
    """Return all estimates; rows are episodes of their own."""
    columns = (x[:, np.newaxis] for x in (reward, model_logged, model_expected))
    reward, model_logged, model_expected = columns
    given = reward, weight, model_logged, model_expected, np.array([threshold])
    terms = one_step.decisions(np.arange(len(weight)), *given)
    sums = one_step.Decisions(*(x.sum(0) for x in terms))
    return {name: rule(sums).item() for name, rule in one_step.ESTIMATORS.items()}


def test_the_numbers_of_three_slates_are_those_of_reagent():
    models = MODEL_LOGGED, MODEL_EXPECTED
    found = estimates(REWARD, MATCHES, *models)
    assert found["dm"] == pytest.approx(10 / 3, **EXACT)
    assert found["ips"] == pytest.approx(10 / 3, **EXACT)
    assert found["dr"] == pytest.approx(4.0, **EXACT)
    assert found["snips"] == pytest.approx(5.0, **EXACT)
    assert found["sndr"] == pytest.approx(10 / 3 + 1.0, **EXACT)
    stochastic = estimates(REWARD, np.array([0.4, 0.3, 0.7]) / LOGGED, *models)
    assert stochastic["ips"] == pytest.approx(7.75, **EXACT)


def test_no_weight_gives_no_self_normalized_estimate():
    with np.errstate(invalid="ignore"):
        found = estimates(REWARD, np.zeros(3), MODEL_LOGGED, MODEL_EXPECTED)
    assert {name for name, x in found.items() if np.isnan(x)} == {"snips", "sndr"}


def test_switch_is_ips_at_the_largest_weight_and_the_direct_method_at_0():
    # The rows of ReAgent's test; the logged actions are 0 and 1.
    policy, reward = np.array([[0.6, 0.4], [0.7, 0.3]]), np.array([1.0, 0.0])
    weights = policy / np.array([[0.7, 0.3], [0.5, 0.5]])
    model = np.array([[0.4, 0.5], [0.0, 0.0]])
    weight = weights[[0, 1], [0, 1]]
    given = reward, weight, weights, policy, model
    largest = one_step.switch(*given, threshold=weights.max())
    np.testing.assert_array_equal(largest, weight * reward)
    assert largest.mean() == pytest.approx(3 / 7, **EXACT)
    none = one_step.switch(*given, threshold=0.0)
    np.testing.assert_array_equal(none, (policy * model).sum(1))
    assert none.mean() == pytest.approx(0.22, **EXACT)


@st.composite
def logs(draw):
    """Return random logged decisions of 1 to 12 rows and 1 to 4 actions."""
    n, actions = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    numbers = st.floats(-3, 3, width=32)
    positive = st.floats(0.0625, 1, width=32)
    logger = draw(hnp.arrays(np.float64, (n, actions), elements=positive))
    policy = draw(hnp.arrays(np.float64, (n, actions), elements=positive))
    logger /= logger.sum(1, keepdims=True)
    policy /= policy.sum(1, keepdims=True)
    model = draw(hnp.arrays(np.float64, (n, actions), elements=numbers))
    reward = draw(hnp.arrays(np.float64, n, elements=numbers))
    action = draw(hnp.arrays(np.int64, n, elements=st.integers(0, actions - 1)))
    return reward, action, logger, policy, model, draw(st.floats(0, 5))


@settings(max_examples=200)
@given(logs())
def test_estimates_are_those_of_a_loop_over_rows_and_actions(log):
    reward, action, logger, policy, model, threshold = log
    direct, weighted, errors, used, switched = [], [], [], [], []
    for i, a in enumerate(action):
        rho = policy[i, a] / logger[i, a]
        direct.append(sum(policy[i] * model[i]))
        weighted.append(rho * reward[i])
        errors.append(rho * (reward[i] - model[i, a]))
        used.append(errors[-1] if rho <= threshold else 0.0)
        above = policy[i] / logger[i] > threshold
        switched.append(weighted[-1] if rho <= threshold else 0.0)
        switched[-1] += sum(policy[i, above] * model[i, above])
    rows = np.arange(len(reward))
    weights = policy / logger
    weight = weights[rows, action]
    models = model[rows, action], (policy * model).sum(1)
    expected = {
        "dm": np.mean(direct),
        "ips": np.mean(weighted),
        "snips": sum(weighted) / weight.sum(),
        "dr": np.mean(direct) + np.mean(errors),
        "sndr": np.mean(direct) + sum(errors) / weight.sum(),
        "switch_dr": np.mean(direct) + np.mean(used),
    }
    found = estimates(reward, weight, *models, threshold)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
    terms = one_step.switch(reward, weight, weights, policy, model, threshold)
    np.testing.assert_allclose(terms, switched, rtol=1e-9, atol=1e-9)


@given(logs())
def test_thresholds_reach_from_the_direct_method_to_all_weights(log):
    reward, action, logger, policy, model, _ = log
    rows = np.arange(len(reward))
    weight = (policy / logger)[rows, action]
    candidates = one_step.candidates(weight)
    assert len(candidates) == 21 and candidates[0] == 0
    assert candidates[-1] == weight.max()
    assert (np.diff(candidates) >= -1e-12).all()
    columns = reward, model[rows, action], (policy * model).sum(1)
    reward, logged, expected = (x[:, np.newaxis] for x in columns)
    chosen = one_step.thresholds(reward, weight, logged, expected, len(rows))
    assert chosen.shape == (1,) and chosen[0] in candidates
    np.testing.assert_array_equal(one_step.candidates(np.zeros(3)), np.zeros(21))


def test_a_rare_heavy_weight_is_left_to_the_model():
    rng = np.random.default_rng(0)
    ones = np.ones([1000, 1])
    reward, weight = rng.normal(1.0, 0.1, [1000, 1]), np.ones(1000)
    # Nothing is gained by leaving out rows.
    assert one_step.thresholds(reward, weight, ones, ones, 1000) == [1]
    weight[0], reward[0] = 500.0, 5.0
    (chosen,) = one_step.thresholds(reward, weight, ones, ones, 1)
    assert 1 <= chosen < 500


def test_estimates_of_open_bandit_are_those_of_obp():
    with OPEN_BANDIT.open() as file:
        rows = list(csv.DictReader(file))
    given = [
        np.array([float(row[name]) for row in rows])
        for name in ("click", "weight", "model_logged", "model_expected")
    ]
    found = estimates(*given, threshold=0.5)
    expected = {  # of sb-obp 0.5.10
        "dm": 0.004177174112817006,
        "ips": 0.11798197584230018,
        "snips": 0.20138141545044547,
        "dr": 0.1201754118337654,
        "sndr": 0.2021725809131378,
        "switch_dr": 0.028988208803556972,
    }
    assert found == pytest.approx(expected, rel=1e-7)
    found = estimates(*given, threshold=2.0)
    assert found["switch_dr"] == pytest.approx(0.07011009060473394, rel=1e-7)
