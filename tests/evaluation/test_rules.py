"""Rules accept a policy, refuse it, or say that nothing can be told."""

import dataclasses
import json

import pytest

from tfagents_batch import config
from tfagents_batch.errors import UserError
from tfagents_batch.evaluation import page, rules
from tfagents_batch.evaluation.result import (
    Diagnostics,
    Estimate,
    EstimateInterval,
    OfflineEvaluation,
)
from tfagents_batch.evaluation.rules import DeployRules

DIAGNOSTICS = Diagnostics(
    rows=10_000,
    episodes=1000,
    fitted_rows=40_000,
    fitted_episodes=4000,
    cut=0.0,
    gaps=0,
    effective=300.0,
    effective_least=300.0,
    mean_weight=1.0,
    mean_weight_error=0.05,
    largest_share=0.01,
    capped=0.0,
    rare=0.0,
    reach=0.0,
    exact_cells=True,
    cells=50,
    surprise=0.0,
    surprise_error=0.01,
    fit_bias=0.0,
    fit_bias_error=0.01,
    outside=0.0,
    rising=False,
    logged={"send": 0.5, "drop": 0.5},
    served={"send": 0.25, "drop": 0.75},
    ratios=tuple(range(34)),
    weights=tuple(range(34)),
)


def around(value, error):
    bounds = [value + x * error for x in (-2, 2, -1.6, 1.6)]
    return EstimateInterval(value, error, *bounds)


def beside(value, error, base):
    ratio = around(value / base, error / abs(base)) if base > 0 else None
    return Estimate(around(value, error), around(value - base, error), ratio)


def evaluation(
    value=1.2,
    error=0.05,
    base=1.0,
    fqe=None,
    judged_by="unseen",
    values_from="folds",
    propensities="logged",
    **changes,
):
    """Return an evaluation in which all estimators find a value."""
    names = "fqe", "sdr", "wsdr", "magic", "wpdis", "pdis", "wis", "ips"
    estimates = {
        x: {
            "reward": beside(value, error, base),
            "click": beside(3.0, 0.1, 2.0),
        }
        for x in names
    }
    if fqe is not None:
        estimates["fqe"]["reward"] = beside(fqe, error, base)
    one_step = {x: {"reward": beside(0.1, 0.01, 0.1)} for x in ("dm", "ips", "dr")}
    return OfflineEvaluation(
        "policy <b>",
        "table",
        {},
        {"reward": around(base, 0.02), "click": around(2.0, 0.02)},
        estimates,
        one_step,
        {"reward": around(0.1, 0.001), "click": around(0.2, 0.001)},
        {"reward": 0.5, "click": 0.5},
        dataclasses.replace(DIAGNOSTICS, **changes),
        propensities,
        judged_by,
        values_from,
        ("A warning.",),
    )


@pytest.mark.parametrize(
    ("given", "limits", "verdict", "reason"),
    [
        ({}, {}, "deploy", "1.200 times the log's 1"),
        ({"value": 0.8}, {}, "do not deploy", "0.800 times"),
        ({"value": 1.09}, {}, "deploy", "It is at least 1.010 with 95 % confidence"),
        ({"value": 1.001}, {}, "cannot tell", "that hardly any log would tell"),
        (
            {"value": 1.02},
            {},
            "cannot tell",
            "value is needed; about 20,000 episodes for evaluation would tell",
        ),
        ({}, {"uplift": 0.3}, "do not deploy", "1.3 times the log's value is needed"),
        ({}, {"uplift": 0.2}, "cannot tell", "1.2 times the log's value is needed"),
        ({"reach": 0.2}, {}, "deploy", "1.200"),
        (
            {"reach": 0.2, "effective_least": 4.0},
            {},
            "cannot tell",
            "fewer than 5 times in similar states",
        ),
        (
            {"reach": 0.2, "propensities": "estimated"},
            {},
            "cannot tell",
            "fewer than 5 times in similar states",
        ),
        (
            {"effective_least": 1000.0, "mean_weight_error": 0.0},
            {},
            "cannot tell",
            "This log is the policy's own: nothing is to be decided.",
        ),
        ({"rare": 0.2}, {}, "cannot tell", "below 1 %"),
        ({"fqe": 2.0}, {}, "cannot tell", "WSDR gives 1.2 and FQE 2"),
        ({"value": 0.6, "fqe": 0.3}, {}, "do not deploy", "0.600 times"),
        ({"mean_weight": 0.5}, {}, "cannot tell", "if propensities are right"),
        ({"mean_weight": 1 + 1e-6, "mean_weight_error": 1e-8}, {}, "deploy", "1.200"),
        ({"surprise": 0.2}, {}, "cannot tell", "not those of the logging policy"),
        ({"outside": 0.5}, {}, "cannot tell", "beyond what the rewards"),
        ({"fit_bias": 0.2}, {}, "cannot tell", "FQE may be too low by 0.2"),
        ({"fit_bias": -0.4, "fit_bias_error": 0.2}, {}, "deploy", "1.200"),
        (
            {"fit_bias": -0.4, "fit_bias_error": 0.2, "effective_least": 4.0},
            {},
            "cannot tell",
            "FQE may be too high by 0.4 +- 0.2",
        ),
        # Diverged: so large errors that none of them is more than chance.
        ({"fit_bias_error": 2.0}, {}, "cannot tell", "by 0 +- 2, and an episode"),
        ({"fit_bias": 3.0, "fit_bias_error": 2.0}, {}, "cannot tell", "by 3 +- 2"),
        ({"fqe": 100.0, "fit_bias": 2.0}, {}, "cannot tell", "FQE may be too low by 2"),
        ({"rising": True}, {}, "cannot tell", "rose at the end"),
        ({"effective_least": 4.0}, {}, "deploy", "1.200"),
        ({"effective_least": 4.0, "value": 2.0, "fqe": 1.2}, {}, "deploy", "1.200"),
        (
            {"effective_least": 20.0, "value": 2.0, "fqe": 1.2},
            {},
            "cannot tell",
            "WSDR",
        ),
        (
            {"effective_least": 4.0},
            {"estimator": "wsdr"},
            "cannot tell",
            "effective sample size",
        ),
        (
            {},
            {"most_variation": 0.1},
            "do not deploy",
            "from the log's by 25.0%",
        ),
        ({}, {"most_actions": {"drop": 0.5}}, "do not deploy", "takes drop in 75.0%"),
        ({}, {"guards": {"click": [None, 2.0]}}, "do not deploy", "3 of click"),
        ({}, {"guards": {"click": [2.9, None]}}, "cannot tell", "3 of click"),
        ({}, {"guards": {"click": [2.0, 4.0]}}, "deploy", "1.200"),
        ({"value": -0.5, "base": -1.0}, {}, "deploy", "+0.5 beside the log's -1"),
        ({"value": 0.5, "base": 0.0}, {}, "deploy", "+0.5 beside the log's 0"),
        ({"value": -1.5, "base": -1.0}, {}, "do not deploy", "At least the log's"),
        ({"value": float("nan")}, {}, "cannot tell", "could not be estimated"),
        ({"value": 0.0, "base": 0.0, "error": 0.0}, {}, "cannot tell", "equal"),
        ({"episodes": 1}, {}, "cannot tell", "1 episodes for evaluation"),
    ],
)
def test_verdict_and_reason(given, limits, verdict, reason):
    found = rules.decide(evaluation(**given), config.replace(DeployRules(), limits))
    assert found.verdict == verdict
    assert reason in found.reason


def test_enough_weights_let_weighted_doubly_robust_decide():
    assert rules.decide(evaluation(), DeployRules()).estimator == "wsdr"
    few = rules.decide(evaluation(effective_least=9.0), DeployRules())
    assert few.estimator == "fqe"


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            {"most_actions": {"sent": 0.5}},
            "names sent; expected names out of send",
        ),
        (
            {"guards": {"clicks": [0, 1]}},
            "names clicks; expected names",
        ),
        ({"guards": {"click": [5, 1]}}, r"expected \[low, high\]"),
        ({"guards": {"click": 3}}, r"expected \[low, high\]"),
        ({"most_actions": {"send": 2}}, "expected 0 to 1"),
        ({"upift": 0.1}, "upift"),
    ],
)
def test_a_wrong_rule_is_one_line(tmp_path, limits, message):
    path = tmp_path / "rules.json"
    path.write_text(json.dumps(limits))
    with pytest.raises(UserError, match=message) as error:
        rules.check_names(rules.read(path), ("send", "drop"), ("reward", "click"))
    assert "\n" not in str(error.value)


def test_names_are_checked_without_a_file():
    for limits in ({"guards": {"clicks": [0, 1]}}, {"most_actions": {"sent": 0.5}}):
        with pytest.raises(UserError, match=r"names (clicks|sent); expected names"):
            rules.decide(evaluation(), DeployRules(**limits))


@pytest.mark.parametrize("text", ["[]", "{", None])
def test_a_file_that_has_no_rules_is_one_line(tmp_path, text):
    path = tmp_path / "rules.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match="rules"):
        rules.read(path)


def test_the_page_says_the_verdict_and_escapes_names():
    given = evaluation(value=float("nan"))
    text = page.page(given, rules.decide(given, DeployRules()))
    assert "Cannot tell" in text
    assert "policy &lt;b&gt;" in text
    assert "not defined" in text
    assert "http" not in text


def test_the_page_says_which_policy_was_judged():
    given = evaluation()
    facts = {"step": 3000, "exploration": 0.2}
    given = dataclasses.replace(given, facts=facts)
    text = page.page(given, rules.decide(given, DeployRules()))
    assert "checkpoint of step 3,000, with 20% random decisions" in text
    text = page.page(evaluation(), rules.decide(given, DeployRules()))  # of a function
    assert "checkpoint" not in text


def test_the_estimators_of_one_decision_have_their_own_names():
    text = page.page(evaluation(), rules.decide(evaluation(), DeployRules()))
    episodes, decisions = text.split("Reward of one decision")
    assert ">episodes</text>" in episodes and ">IPS</text>" in decisions
    assert ">episodes</text>" not in decisions


def test_the_result_is_json():
    given = evaluation(value=float("nan"))
    content = json.loads(json.dumps(given.to_dict()))
    assert content["estimates"]["fqe"]["reward"]["value"]["value"] is None
    assert content["diagnostics"]["served"] == {"send": 0.25, "drop": 0.75}
