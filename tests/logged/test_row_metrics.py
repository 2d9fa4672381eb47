"""Metrics of logged rows: two episodes of three and two rows, computed by hand.

The first episode has ended, the second was cut off. Actions are a and b; c was never
logged.
"""

import numpy as np
import pytest

from tfagents_batch.logged import reports
from tfagents_batch.logged.reports import ReportedRows
from tfagents_batch.types import Assessment

NAMES = "a", "b", "c"
NAN = np.nan
ROWS = ReportedRows(
    {
        "action": np.array([0, 1, 0, 1, 1], np.int32),
        "reward": np.array([1, 2, 4, 0, 1], np.float32),
    },
    propensity=np.array([0.5, 0.25, 1, NAN, 0.75], np.float32),
    returns=np.array([4, 5, 2, NAN, NAN]),
    steps_to_end=np.array([3, 2, 1, 0, 0]),
)
FOUND = Assessment(
    q=np.array([[3, 9, 0], [0, 7, 1], [4, 1, 2], [5, 2, 0], [1, 2, 0]], np.float32),
    target=np.array([4, 5, 2, 3, NAN], np.float32),  # of values 3, 7, 4, 2 and 2
    probability=np.array(
        [[0, 1, 0], [0.25, 0.5, 0.25], [1, 0, 0], [0.75, 0.25, 0], [0, 1, 0]],
        np.float32,
    ),
)
CLONED = FOUND._replace(q=np.zeros(0), target=np.zeros(0))  # without values


def test_td_losses_are_squared_errors_of_rows_whose_target_is_known():
    found = reports.td_loss("eval_td_loss", ROWS, FOUND, NAMES)
    np.testing.assert_array_equal(found.pop("eval_td_loss"), [1, 4, 4, 1])
    assert found == {
        "eval_td_loss/mean": 2.5,
        "eval_td_loss/action/a": 2.5,
        "eval_td_loss/action/b": 2.5,
        "eval_td_loss/steps_to_end/1": 4.0,
        "eval_td_loss/steps_to_end/2-3": 2.5,
    }


def test_buckets_of_time_to_the_end_double_in_size():
    steps = np.array([1, 2, 3, 4, 7, 8, 15, 16, 0])
    rows = ROWS._replace(columns={"action": np.zeros(9, int)}, steps_to_end=steps)
    found = Assessment(np.zeros([9, 1]), np.arange(9.0) ** 0.5, ())
    found = reports.td_loss("td_loss", rows, found, "a")
    buckets = {k.rpartition("/")[2]: x for k, x in found.items() if "end" in k}
    expected = {"1": 0, "2-3": 1.5, "4-7": 3.5, "8-15": 5.5, "16-31": 7}
    assert buckets == pytest.approx(expected)


def test_mc_losses_are_those_of_episodes_that_ended():
    found = reports.mc_loss(ROWS, FOUND)  # differences -1, 2 and 2
    np.testing.assert_array_equal(found.pop("mc_loss"), [1, 2, 2])
    expected = {"mean": 5 / 3, "rmse": 3**0.5, "bias": 1.0}
    assert found == pytest.approx({f"mc_loss/{k}": x for k, x in expected.items()})


def test_the_gain_is_that_of_one_decision():
    # Weights 0 / 0.5, 0.5 / 0.25 and 1 / 1 of the returns 4, 5 and 2.
    found = reports.gain(ROWS, FOUND)
    error = np.hypot(2 * 1, 1 * 2) / 3
    expected = {"gain": 4 - 11 / 3, "gain_error": error}
    assert found == pytest.approx({f"actions/{k}": x for k, x in expected.items()})
    never = FOUND._replace(probability=np.eye(3)[[2] * 5])
    assert reports.gain(ROWS, never) == {}


def test_values_are_those_of_actions_that_were_possible():
    found = reports.values(ROWS, FOUND, NAMES)
    assert found["value/logged"] == pytest.approx(11 / 3)
    assert found["value/model_logged_action"] == pytest.approx(18 / 5)
    assert found["value/model/b"] == pytest.approx(21 / 5)
    assert found["value_std/model/a"] == pytest.approx(3.44**0.5)
    mask = np.ones([5, 3], bool)
    mask[:, 2], mask[0, 1] = False, False
    masked = ROWS._replace(columns=ROWS.columns | {"mask": mask})
    found = reports.values(masked, FOUND, NAMES)
    assert found["value/model/b"] == 3
    assert "value/model/c" not in found and "value_std/model/c" not in found


def test_actions_are_shares_and_what_is_not_known_of_one_is_left_out():
    assert reports.actions(ROWS, FOUND, NAMES) == pytest.approx(
        {
            "actions/logged/a": 0.4,
            "actions/logged/b": 0.6,
            "actions/logged/c": 0.0,
            "actions/model/a": 0.4,
            "actions/model/b": 0.6,
            "actions/model/c": 0.0,
            "propensities/logged/a": 0.75,
            "propensities/logged/b": 0.5,
            "propensities/model/a": 0.4,
            "propensities/model/b": 0.55,
            "propensities/model/c": 0.05,
            "reward/logged/a": 2.5,
            "reward/logged/b": 1.0,
        }
    )
    unknown = ROWS._replace(propensity=np.full(5, NAN, np.float32))
    found = reports.actions(unknown, FOUND, NAMES)
    assert not [name for name in found if name.startswith("propensities/logged")]


def test_shares_are_compared_with_the_target_distribution():
    found = reports.actions(ROWS, FOUND, NAMES, {"a": 0.1, "c": 0.9})
    assert found["actions/target_mse"] == pytest.approx((0.3**2 + 0.6**2 + 0.9**2) / 3)


def test_metrics_without_rows_that_they_need_are_left_out():
    unknown = ROWS._replace(returns=np.full(5, NAN), steps_to_end=np.zeros(5, int))
    assert reports.mc_loss(unknown, FOUND) == {}
    assert "value/logged" not in reports.values(unknown, FOUND, NAMES)
    assert "steps_to_end" not in str(reports.td_loss("t", unknown, FOUND, NAMES))
    no_target = FOUND._replace(target=np.full(5, NAN))
    assert reports.td_loss("t", ROWS, no_target, NAMES) == {}
    assert reports.td_loss("t", ROWS, CLONED, NAMES) == {}
    assert reports.mc_loss(ROWS, CLONED) == {}
    assert reports.values(ROWS, CLONED, NAMES) == {}


def test_values_that_are_not_finite_are_reported():
    lost = FOUND._replace(q=np.full([5, 3], NAN))
    assert np.isnan(reports.td_loss("t", ROWS, lost, NAMES)["t/mean"])
    assert np.isnan(reports.mc_loss(ROWS, lost)["mc_loss/rmse"])
