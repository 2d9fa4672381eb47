"""Policies of a gridworld are evaluated from rows, beside their exact values."""

import dataclasses
import json

import numpy as np
import pytest

from tests.evaluation import grid
from tests.offline import made
from tfagents_batch.errors import UserError
from tfagents_batch.evaluation import (
    counterfactual,
    episode_rows,
    fitted_q,
    fitting,
    rules,
    summary,
    totals,
)
from tfagents_batch.evaluation.fitting import EvaluationSettings, FitSettings
from tfagents_batch.offline import table_reader
from tfagents_batch.offline.reader import open_rows
from tfagents_batch.offline.timeline import TimelineConfig, build

TABULAR = EvaluationSettings(folds=2, values="tabular", resamples=200)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Return a table of 8,000 rows of the policy with exploration 0.6."""
    folder = tmp_path_factory.mktemp("log") / "table"
    return grid.table(folder, grid.policy(0.6), 8000, 0)


def candidate(found, epsilon):
    return grid.Policy(grid.policy(epsilon), found.schema.features)


def fixed(*chances):
    """Return a policy with the same probabilities in every state."""

    class Fixed:
        name = "fixed"

        def probabilities(self, columns, part):
            return np.tile(chances, [len(columns["reward"]), 1])

    return Fixed()


def judged(found, policy, settings):
    return counterfactual.evaluate(found, policy, settings, fitted_q.Fit)


def rewards(result):
    return {k: x["reward"].value.value for k, x in result.estimates.items()}


def test_networks_find_the_value_of_another_policy(log):
    settings = dataclasses.replace(
        TABULAR, values="neural", fit=FitSettings(steps=1000, batch_size=128)
    )
    found = rewards(judged(log, candidate(log, 0.3), settings))
    for name in ("fqe", "sdr", "wsdr", "magic"):
        assert found[name] == pytest.approx(grid.value(grid.policy(0.3)), rel=0.05), (
            name
        )


def test_means_of_cells_find_it_too(log):
    result = judged(log, candidate(log, 0.3), TABULAR)
    expected = grid.value(grid.policy(0.3))
    for name in ("fqe", "sdr", "wsdr", "magic"):
        assert rewards(result)[name] == pytest.approx(expected, rel=0.05), name
    assert result.diagnostics.exact_cells
    assert result.diagnostics.reach < 0.05


def test_networks_see_standardized_numbers_of_any_normalization():
    """Old specifications leave log odds as they are, and raw features have any size."""
    random = np.random.default_rng(0)
    raw = random.normal([0, 0.5, 0, 2026, 7], [1, 0.5, 9, 1, 0], [1000, 5])
    raw[:10, 2] = np.nan
    inputs = fitting.inputs(np.nan_to_num, raw)(raw)
    np.testing.assert_array_equal(inputs[:, :2], raw[:, :2].astype(np.float32))
    assert np.abs(inputs.mean(0)).max() < 0.6
    np.testing.assert_allclose(inputs[:, 2:].std(0), [1, 1, 0], atol=1e-4)
    inputs = fitting.inputs(None, raw)(raw)
    np.testing.assert_allclose(inputs.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(inputs.std(0), [1, 1, 1, 1, 0], atol=1e-4)


def test_networks_see_standardized_log_odds_of_which_few_are_of_an_exact_zero():
    """Log odds of 5 % exact zeros have a root mean square of 2.6, others are near 0."""
    raw = np.random.default_rng(0).normal(0, 0.1, [1000, 1])
    raw[:50] = -11.5
    inputs = fitting.inputs(np.nan_to_num, raw)(raw)
    assert np.abs(inputs).max() < 5
    np.testing.assert_allclose(inputs.std(0), 1, atol=1e-4)


def test_a_policy_against_itself_is_worth_the_same(log):
    result = judged(log, candidate(log, 0.6), TABULAR)
    for name, each in result.estimates.items():
        # Values are learned from more than the returns, so they differ by chance.
        exact = name in ("ips", "wis", "pdis", "wpdis")
        near = pytest.approx(1, abs=1e-6 if exact else 0.06)
        assert each["reward"].ratio.value == near, name
    assert result.diagnostics.effective == pytest.approx(result.diagnostics.episodes)
    assert result.diagnostics.mean_weight == pytest.approx(1)
    assert result.diagnostics.variation == pytest.approx(0, abs=0.03)


def test_blocks_of_rows_change_nothing(log, monkeypatch):
    whole = judged(log, candidate(log, 0.3), TABULAR)
    monkeypatch.setattr(counterfactual, "_BLOCK_ROWS", 700)
    monkeypatch.setattr(counterfactual, "_PADDED", 2000)
    parts = judged(log, candidate(log, 0.3), TABULAR)
    np.testing.assert_allclose(
        list(rewards(parts).values()), list(rewards(whole).values()), rtol=1e-9
    )
    for name, value in dataclasses.asdict(parts.diagnostics).items():
        other = getattr(whole.diagnostics, name)
        assert value == pytest.approx(other, rel=1e-6, abs=1e-9), name


def test_values_never_see_the_episodes_that_they_judge(log):
    fitted = counterfactual.fit(log, candidate(log, 0.3), TABULAR, fitted_q.Fit, None)
    (span,) = episode_rows.spans(log, episode_rows.EVERY.where, 10**6)
    columns, _ = episode_rows.read(log, span)
    for fold in (0, 1):
        others = columns["episode"] % 2 != fold
        cell = np.nan_to_num(columns["state"][others]).argmax(-1)
        pairs = cell * 4 + columns["action"][others]
        total = np.bincount(pairs, columns["reward"][others], 4 * 21)
        mean = total / np.maximum(np.bincount(pairs, minlength=4 * 21), 1)
        state = fitted.normalize(np.eye(21, dtype=np.float32))
        found = fitted.values.predict(state, np.ones([21, 4], bool), fold).reward
        np.testing.assert_allclose(found.ravel(), mean, atol=1e-6)


def one_state(folder, episodes, length, gamma, reward, end):
    """Return the rows of episodes in one state, where "b" earns 0.1 less than "a".

    Args:
      folder, gamma: of the timeline.
      episodes, length: numbers of episodes, and of rows in each.
      reward: returns the reward of "a" by the number of an episode.
      end: columns of the last row of an episode.
    """
    random = np.random.default_rng(0)
    rows = [
        made.row(
            mdp_id=f"u{i}",
            sequence_number=t,
            state_features={"0": 1.0},
            action="ab"[action],
            action_probability=0.5,
            reward=reward(i) - 0.1 * action,
            possible_actions=["a", "b"],
            metrics=None,
            **(end if t == length - 1 else {}),
        )
        for i in range(episodes)
        for t, action in enumerate(random.integers(0, 2, length).tolist())
    ]
    with open_rows(rows) as opened:
        config = TimelineConfig(train_share=0.0, eval_share=1.0, gamma=gamma)
        build(opened, opened.find_schema(), config, folder)
    return table_reader.partition(folder)


def test_episodes_that_were_cut_off_count_what_would_have_followed(tmp_path):
    # One state; "b" earns 0.1 less. Episodes end after 10 steps by a time limit.
    end = {"truncated": True, "final_state_features": {"0": 1.0}}
    found = one_state(tmp_path, 200, 10, 0.95, lambda i: 1.0, end)
    result = judged(found, fixed(0.4, 0.6), TABULAR)
    assert result.diagnostics.cut == 1
    assert result.logged["reward"].value == pytest.approx(0.95 / 0.05, rel=0.01)
    for name in ("fqe", "sdr", "wsdr", "magic"):
        value = result.estimates[name]["reward"].value.value
        assert value == pytest.approx(0.94 / 0.05, rel=0.01), name
    assert rules.decide(result, rules.DeployRules()).verdict == "do not deploy"


def test_a_late_goal_is_not_reached_by_the_log(tmp_path):
    found = grid.table(tmp_path / "table", grid.policy(0.05), 1500, 0)
    result = judged(found, candidate(found, 1), TABULAR)
    assert result.diagnostics.reach > 0.3
    assert result.diagnostics.effective < 50
    assert any("nothing is known" in x for x in result.warnings)


def test_estimated_propensities_are_said(log):
    settings = dataclasses.replace(TABULAR, propensities="estimated")
    result = judged(log, candidate(log, 0.3), settings)
    expected = grid.value(grid.policy(0.3))
    assert rewards(result)["wsdr"] == pytest.approx(expected, rel=0.05)
    assert "estimated" in result.warnings[0]


def test_rows_without_propensities_are_refused(log, tmp_path):
    found = grid.table(tmp_path / "table", grid.policy(0.4), 300, 0, propensities=False)
    with pytest.raises(UserError, match=r"have no action_probability.*estimated"):
        judged(found, candidate(found, 0.6), TABULAR)


def test_a_policy_of_which_nothing_was_logged_cannot_be_told(log):
    left = np.zeros([25, 4])
    left[:, 0] = 1  # impossible at the start
    policy = grid.Policy(left, log.schema.features)
    found = judged(log, policy, TABULAR)
    assert found.diagnostics.effective == 0
    assert found.diagnostics.reach == pytest.approx(1, abs=1e-6)
    decision = rules.decide(found, rules.DeployRules())
    assert decision.verdict == "cannot tell"
    assert "No episode" in found.warnings[0]
    json.dumps(found.to_dict(), allow_nan=False)


def test_a_weight_of_1e30_is_no_error(log, monkeypatch):
    read = episode_rows.read

    def tiny(*arguments):
        columns, gaps = read(*arguments)
        propensity = columns["propensity"].copy()
        propensity[5] = 1e-30
        return columns | {"propensity": propensity}, gaps

    monkeypatch.setattr(episode_rows, "read", tiny)
    found = judged(log, candidate(log, 0.3), TABULAR)
    assert found.diagnostics.effective < 1.01
    assert np.isfinite(rewards(found)["wsdr"])
    json.dumps(found.to_dict(), allow_nan=False)


def test_rewards_of_0_cannot_be_told(tmp_path):
    found = grid.table(
        tmp_path / "table", grid.policy(0.6), 1500, 0, custom_reward="0.0 * reward"
    )
    result = judged(found, candidate(found, 0.3), TABULAR)
    assert result.estimates["wsdr"]["reward"].ratio is None
    assert rules.decide(result, rules.DeployRules()).verdict == "cannot tell"


def test_negative_rewards_have_a_ratio_and_a_difference(tmp_path):
    found = grid.table(
        tmp_path / "table", grid.policy(0.6), 4000, 0, custom_reward="reward - 0.1"
    )
    result = judged(found, candidate(found, 0.3), TABULAR)
    each = result.estimates["fqe"]["reward"]
    assert each.value.value < 0 and each.difference.value > 0
    assert 0 < each.ratio.value < 1
    assert rules.decide(result, rules.DeployRules()).verdict == "deploy"


@pytest.mark.parametrize(
    ("settings", "changes", "message"),
    [
        ({"n_step": 2}, {}, "samples of 2 rewards"),
        ({}, {"folds": 0}, "no rows for training"),
        ({"train_share": 1.0, "eval_share": 0.0}, {}, "no rows for evaluation"),
    ],
)
def test_a_table_that_does_not_fit_is_one_line(tmp_path, settings, changes, message):
    found = grid.table(tmp_path / "table", grid.policy(0.4), 300, 0, **settings)
    with pytest.raises(UserError, match=message) as error:
        judged(found, candidate(found, 0.6), dataclasses.replace(TABULAR, **changes))
    assert "\n" not in str(error.value)


def test_one_episode_is_one_line(tmp_path):
    found = grid.table(tmp_path / "table", grid.policy(0.05), 12, 0)
    with pytest.raises(UserError, match="at least two"):
        judged(found, candidate(found, 0.6), TABULAR)


@pytest.mark.parametrize(("freedom", "quantile"), [(3, 3.182), (8, 2.306), (60, 2.0)])
def test_intervals_of_few_episodes_are_those_of_student(freedom, quantile):
    found = summary._student(freedom + 1) * 1.96
    assert found == pytest.approx(quantile, rel=0.01)


def test_many_decisions_of_few_episodes_do_not_make_intervals_narrow(
    tmp_path, monkeypatch
):
    """Rows of an episode are alike: 12 episodes of 50 rows are no 600 observations."""
    end = {"terminated": True}
    found = one_state(tmp_path, 12, 50, 0.5, lambda i: 1.0 + 0.2 * i, end)
    policy = fixed(0.4, 0.6)
    wide = judged(found, policy, TABULAR)
    with monkeypatch.context() as patch:
        patch.setattr(summary, "_student", lambda effective: 1.0)
        narrow = judged(found, policy, TABULAR)

    def widths(result):
        estimates = {"logged": result.logged, "logged step": result.logged_step}
        given = result.estimates | {f"1 {k}": x for k, x in result.one_step.items()}
        estimates |= {k: {"reward": x["reward"].value} for k, x in given.items()}
        found = {k: x["reward"] for k, x in estimates.items()}
        return {k: x.high - x.low for k, x in found.items()}

    wider = {k: x / widths(narrow)[k] for k, x in widths(wide).items()}
    for name, factor in wider.items():  # 0.975 quantiles of t(11) and of the normal
        assert factor > 2.2 / 1.96 - 1e-3, name


@pytest.mark.parametrize(("bias", "expected"), [(0, 0.05), (3, 3)])
def test_the_error_of_a_fit_has_its_bias(bias, expected):
    """A bias of 0 adds nothing to the chance of 400 episodes."""
    found, ones = totals.Totals(), np.ones(400)
    error = bias + np.tile([[1.0], [-1.0]], [200, 1])
    some = np.ones([400, 2]) / 2
    found.add_rows(
        totals.Judged(np.zeros(400, int), ones / 2, some, some, ones, error, ones),
        np.arange(400),
    )
    found.add(episodes=400)
    assert found.fit_error(400) == pytest.approx(expected, rel=0.01)


# ---- accuracy


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("logged", "evaluated"), grid.CASES)
def test_networks_are_as_accurate_as_the_log_allows(tmp_path, logged, evaluated):
    policy = grid.policy(evaluated)
    errors, reach, verdicts = [], [], []
    for seed in range(8):
        found = grid.table(tmp_path / str(seed), grid.policy(logged), 10_000, seed)
        settings = EvaluationSettings(folds=2, seed=seed, fit=FitSettings(steps=3000))
        result = judged(found, candidate(found, evaluated), settings)
        names = "fqe", "sdr", "wsdr", "magic"
        error = [abs(rewards(result)[x] / grid.value(policy) - 1) for x in names]
        errors.append(error)
        reach.append(result.diagnostics.reach)
        verdicts.append(rules.decide(result, rules.DeployRules()).verdict)
    print(logged, evaluated, np.round(np.mean(errors, 0), 4), np.mean(reach))
    if logged >= 0.4:
        assert np.mean(errors, 0).max() <= 0.05
    else:
        assert min(reach) > 0.05
        assert "deploy" not in verdicts


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("case", grid.CASES[1:5])
def test_intervals_cover_the_truth(tmp_path, case):
    logged, policy = map(grid.policy, case)
    truth = grid.value(policy)
    covered = dict.fromkeys(("fqe", "sdr", "wsdr"), 0)
    for seed in range(100):
        found = grid.table(tmp_path / str(seed), logged, 10_000, seed)
        settings = dataclasses.replace(TABULAR, resamples=1000, seed=seed)
        result = judged(found, candidate(found, case[1]), settings)
        for name in covered:
            each = result.estimates[name]["reward"].value
            covered[name] += each.low <= truth <= each.high
    print(case, covered)
    assert all(90 <= x <= 98 for x in covered.values()), covered
