"""The numbers of Horizon's test of normalization, recomputed with SciPy 1.17.1."""

import numpy as np
import pytest

from tests.offline.features import drawn
from tfagents_batch.features.layout import layout
from tfagents_batch.features.specification import Feature, Specification
from tfagents_batch.offline.features import twin
from tfagents_batch.offline.features.find import find
from tfagents_batch.offline.features.identify import FeatureSettings
from tfagents_batch.offline.reader import open_rows

QUANTILES = """
-4.337531 -1.264514 -.827376 -.523379 -.234558 .000854 .079113 .159349 .233484 .321898
.417545 .514776 .622156 .742033 .876767 1.036917 1.214734 1.453562 1.767015 2.361509
7.809937"""


@pytest.fixture(scope="module")
def found():
    settings = FeatureSettings(
        gate="fixed",
        std_floor=1.0,
        feature_overrides={9: "CONTINUOUS_ACTION", 10: "CONTINUOUS_ACTION"},
    )
    with open_rows(drawn.table(drawn.values())) as rows:
        return {each.id: each for each in find(rows, settings).features}


@pytest.mark.parametrize(
    ("feature", "kind", "expected"),
    [
        (1, "BINARY", {}),
        (2, "BINARY", {}),
        (7, "PROBABILITY", {"min_value": 0.01, "max_value": 0.987587}),
        (3, "BOXCOX", {"boxcox_shift": -1e-5, "mean": -0.357799, "stddev": 1.0}),
        (4, "CONTINUOUS", {"mean": -0.000206, "stddev": 1.0}),
        (5, "CONTINUOUS", {"mean": 0.000682, "stddev": 1.000821}),
        (6, "ENUM", {"possible_values": range(0, 10_000, 1000)}),
        (8, "QUANTILE", {"quantiles": [*map(float, QUANTILES.split())]}),
        (9, "CONTINUOUS_ACTION", {"min_value": -3.517151, "max_value": 3.786468}),
        (10, "CONTINUOUS_ACTION", {"min_value": -3.420828, "max_value": 4.194106}),
        (11, "CONTINUOUS", {"mean": 0.0, "stddev": 1.0}),
    ],
)
def test_types_and_parameters(feature, kind, expected, found):
    given = found[feature].feature
    assert given.feature_type == kind
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(given, name), value, atol=1e-4)


def test_the_transform_of_the_exponential_feature(found):
    given, why = found[3].feature, found[3].normality
    assert given.boxcox_lambda == pytest.approx(0.271687, abs=1e-3)
    assert why.k2 == pytest.approx(3815.02, rel=1e-4)
    assert why.k2_box_cox == pytest.approx(42.87, rel=1e-3)
    applied(given, [0, 0.1, 1, 8], [-3.236647, -1.353968, 0.357789, 3.152824])


def applied(feature, values, expected, tolerance=1e-4):
    places = layout(Specification({0: feature}, version=1))  # Horizon's
    found = twin.normalize(places, np.array(values, np.float32)[:, np.newaxis])
    np.testing.assert_allclose(found[:, 0], expected, atol=tolerance)


def test_normalized_numbers():
    odds = [-11.51292, -6.90676, -2.19722, 0, 2.19722, 11.5129]
    values = [0, 0.001, 0.1, 0.5, 0.9, 1]
    applied(Feature("PROBABILITY"), values, odds, tolerance=2e-3)
    values = [-5, 0, 40, 80, 90, 100, 1e9]
    expected = [0, 0, 0.25, 0.5, 0.75, 1, 1]
    applied(Feature("QUANTILE", quantiles=(0, 80, 100)), values, expected)
    applied(Feature("CLIP_LOG"), [0, 1, np.e], [-11.513, 0, 1])
    applied(Feature("BINARY"), [0, 1, 7], [0, 1, 1])
    applied(Feature("DO_NOT_PREPROCESS"), [1e9], [1e9])
    applied(Feature("DISCRETE_ACTION"), [1e9, 3], [11.513, 3])


def test_continuous_actions_and_their_inverse():
    feature = Feature("CONTINUOUS_ACTION", min_value=-5, max_value=10)
    expected = [-0.999999, -0.333333, 0, 0.999999, 0.999999]
    applied(feature, [-5, 0, 2.5, 10, 12], expected)
    raw = twin.inverse_action([feature], np.array(expected)[:, np.newaxis])
    np.testing.assert_allclose(raw[:, 0], [-5, 0, 2.5, 10, 10], atol=1e-4)


def test_columns_are_in_the_order_of_types_and_then_of_ids():
    given = Specification(
        {
            1: Feature("ENUM", possible_values=(12, 4, 2)),
            2: Feature("CONTINUOUS", mean=0, stddev=1),
            3: Feature("ENUM", possible_values=(15, 3)),
        }
    )
    rows = np.array([[12, 1, 15], [4, 2, 3], [2, 3, 15], [2, 3, np.nan]], np.float32)
    expected = [
        [1, 1, 0, 0, 1, 0],
        [2, 0, 1, 0, 0, 1],
        [3, 0, 0, 1, 1, 0],
        [3, 0, 0, 1, 0, 0],
    ]
    places = layout(given)
    np.testing.assert_array_equal(twin.normalize(places, rows), expected)
    assert places.names == ("2", "1=12", "1=4", "1=2", "3=15", "3=3")


@pytest.mark.parametrize("n", [1_000, 10_000, 100_000])
def test_types_do_not_depend_on_the_number_of_rows(n):
    features = {i: x for i, x in drawn.values(n).items() if i in (3, 4, 5, 8)}
    with open_rows(drawn.table(features)) as rows:
        kinds = [each.feature.feature_type for each in find(rows).features]
    assert kinds == ["BOXCOX", "CONTINUOUS", "CONTINUOUS", "QUANTILE"]
