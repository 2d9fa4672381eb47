import dataclasses

import numpy as np
import pytest

from tests.offline import made
from tests.offline.features import drawn
from tfagents_batch.errors import UserError
from tfagents_batch.features.layout import layout
from tfagents_batch.features.specification import STANDARDIZED, VERSION
from tfagents_batch.offline.features import twin
from tfagents_batch.offline.features.find import find
from tfagents_batch.offline.features.identify import FeatureSettings
from tfagents_batch.offline.reader import open_rows

N = 2000


def search(features, rewards=None, threads=None, **settings):
    """Return the result for features of float arrays, NaN where missing."""
    features = {i: np.asarray(x, float) for i, x in features.items()}
    with open_rows(drawn.table(features, rewards), threads=threads) as rows:
        return find(rows, FeatureSettings(**settings))


def kinds(found):
    return {x.id: x.feature.feature_type for x in found.features}


def only(x, **settings):
    """Return what is found about one feature, and what is suspicious."""
    (found,) = search({7: x}, **settings).features
    return found, {each.name: each.text for each in found.suspicions}


@pytest.fixture(scope="module")
def normal():
    return np.random.default_rng(0).normal(size=N)


def test_a_constant_feature_is_binary_and_suspicious():
    found, odd = only(np.full(N, 3.5))
    assert found.feature.feature_type == "BINARY"
    assert odd["constant"].startswith("every value is 3.5")


def test_few_values_that_are_no_counts_are_suspicious():
    found, odd = only(np.resize([-1, 0.5, 2], N))
    assert found.feature.feature_type == "QUANTILE"
    assert "only 3 values: -1, 0.5, 2" in odd["few values"]
    found, odd = only(np.resize([0, 1, 2], N))
    assert found.feature.possible_values == (0, 1, 2) and not odd


def test_a_sample_of_equal_values_is_not_transformed():
    x = np.full(N, 5.0)
    x[7] = -1.0
    for seed in range(3):  # a sample of 20 in 2,001 rows
        found, _ = only(x, sample=20, seed=seed)
        assert found.feature.feature_type in ("CONTINUOUS", "QUANTILE")


def test_rare_exact_zeros_of_a_share_are_suspicious():
    rare = np.where(np.arange(N) % 500, SHARES, 0)
    found, odd = only(rare)
    assert odd["exact 0 or 1"].startswith("0.20% of the values are exactly 0 or 1")
    assert found.normalized.min() < -5
    assert not only(SHARES)[1]
    assert not only(np.where(np.arange(N) % 3, SHARES, 0))[1]


def test_an_estimate_of_different_values_is_at_most_their_number():
    rng = np.random.default_rng(0)
    found = search({i: rng.normal(size=N) for i in range(10)}).features
    assert all(each.facts.distinct <= N for each in found)


def test_an_outlier_is_suspicious(normal):
    _, odd = only(np.concatenate([normal, [1e6]]))
    assert "but one is 1e+06" in odd["outliers"]
    assert not only(normal)[1]


def test_infinite_values_give_no_specification(normal):
    for value in (np.inf, -1e300):
        found = search(
            {7: np.concatenate([normal, [value]]), 8: np.resize(normal, N + 1)}
        )
        assert found.features[0].feature is None
        assert found.features[1].feature.feature_type == "CONTINUOUS"
        wrong = rf"feature 7 is infinite .* in 1 of 2,001 rows, such as {value:g} in "
        with pytest.raises(UserError, match=wrong.replace("+", r"\+")) as error:
            found.specification  # noqa: B018
        assert "\n" not in str(error.value)


def test_nan_and_absent_features_are_missing(normal):
    x = np.where(np.arange(N) % 2 == 0, normal, np.nan)
    found, _ = only(np.append(x, 0.0))
    assert found.facts.present == N / 2 + 1
    rows = made.episode(40)
    for k, row in enumerate(rows):
        row["state_features"] = {"0": float(k), "1": k / 3} if k % 2 else {"0": 1.5}
    with open_rows(rows) as opened:
        found = find(opened)
    assert [x.facts.share for x in found.features] == [1, 0.5]


def test_a_feature_with_few_values_is_left_out_or_an_error(normal):
    rare = np.where(np.arange(N) < 19, normal, np.nan)
    found = search({1: normal, 2: rare})
    assert found.specification.ids == (1,)
    assert [x.name for x in found.features[1].suspicions] == ["too few"]
    with pytest.raises(
        UserError, match="feature 2 has 19 values; expected at least 20"
    ):
        search({1: normal, 2: rare}, strict=True)
    with pytest.raises(UserError, match="no feature has 20 values"):
        search({2: rare}).specification  # noqa: B018


def test_overrides_and_allowlist(normal):
    given = {1: normal, 2: normal, 3: np.abs(normal)}
    overrides = {1: "QUANTILE", "3": "BOXCOX"}
    found = search(given, feature_overrides=overrides, default_override="CLIP_LOG")
    assert kinds(found) == {1: "QUANTILE", 2: "CLIP_LOG", 3: "BOXCOX"}
    assert kinds(search(given, allowlist=(3, 1))).keys() == {1, 3}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"feature_overrides": {5: "BINARY"}}, "names feature 5, which no row has"),
        ({"allowlist": (9,)}, "allowlist names feature 9, which no row has.* 1"),
        ({"feature_overrides": {"a": "BINARY"}}, "has 'a'; expected ids"),
        ({"feature_overrides": {1: "BINRY"}}, "BINRY.*did you mean.*BINARY"),
        ({"feature_overrides": {1: "ENUM"}}, "1 cannot be ENUM: .*few whole numbers"),
        ({"default_override": "box"}, "type of a feature"),
    ],
)
def test_wrong_settings_are_one_line(settings, message, normal):
    with pytest.raises(UserError, match=message) as error:
        search({1: normal}, **settings)
    assert "\n" not in str(error.value)


def test_skipped_transforms_use_raw_values():
    x = np.random.default_rng(0).exponential(size=N)
    (found,) = search({1: x}, skip_box_cox=True).features
    assert found.feature.feature_type == "QUANTILE"
    (found,) = search({1: x}, skip_box_cox=True, skip_quantiles=True).features
    assert found.feature.feature_type == "CONTINUOUS"
    assert found.feature.mean == pytest.approx(x.mean(), rel=1e-5)


def test_a_sample_depends_on_its_seed_only(normal):
    def feature(**options):
        return (
            search({1: normal, 2: -normal}, sample=500, **options).features[0].feature
        )

    first = feature()
    assert first == feature(threads=1)
    assert abs(first.mean - normal.mean()) < 0.2
    assert first.mean != feature(seed=1).mean
    assert dataclasses.replace(first, mean=0, stddev=0) == dataclasses.replace(
        feature(seed=1), mean=0, stddev=0
    )


def test_features_that_say_more_about_the_reward_come_first(normal):
    noise = np.random.default_rng(1).normal(size=N)
    half = np.where(np.arange(N) % 2 == 0, normal, np.nan)
    given = {1: noise, 2: half, 3: normal}
    found = search(given, rewards=normal).by_importance
    assert [each.id for each in found] == [3, 2, 1]
    assert found[0].importance == pytest.approx(np.log2(10), abs=0.05)
    assert found[1].importance == pytest.approx(np.log2(10) / 2, abs=0.05)
    assert found[2].importance < 0.02


SHARES = np.random.default_rng(0).beta(1, 4, N)
AMOUNTS = np.where(np.arange(N) % 3, 1e4 * SHARES, 0)
SEEN = {
    "shares, many exactly 0": (np.where(np.arange(N) % 3, SHARES, 0), {}),
    "shares, a few exactly 1": (np.where(np.arange(N) % 50, SHARES, 1), {}),
    "tiny probabilities": (SHARES * 1e-3, {}),
    "probabilities near 1": (1 - SHARES * 1e-3, {}),
    "large log-normal numbers": (1e6 * np.exp(SHARES * 9), {}),
    "small numbers with a long tail": (0.01 * np.exp(SHARES * 9), {}),
    "a narrow range": (50 + SHARES * 5e-5, {"std_floor": 1e-8}),
    "logarithms of exact zeros": (AMOUNTS, {"default_override": "CLIP_LOG"}),
    "powers of exact zeros": (AMOUNTS, {"default_override": "BOXCOX"}),
}


@pytest.mark.parametrize("name", SEEN)
def test_standardized_features_have_mean_0_and_deviation_1(name):
    x, settings = SEEN[name]
    found, _ = only(x, **settings)
    assert found.feature.feature_type in STANDARDIZED[VERSION]
    seen = found.normalized.astype(np.float64)
    assert seen.mean() == pytest.approx(0, abs=0.02)
    assert seen.std() == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("kind", STANDARDIZED[VERSION])
def test_missing_features_that_count_as_0_are_standardized_with_the_others(kind):
    x = np.where(np.arange(N) % 4, SHARES, np.nan)
    given = {7: x, 8: np.arange(N)}
    overrides = {7: kind, 8: "DO_NOT_PREPROCESS"}
    found = search(given, missing_as_zero=True, feature_overrides=overrides)
    raw, places = np.stack([*given.values()], 1), layout(found.specification)
    seen = twin.normalize(places, raw)[:, places.names.index("7")]
    assert seen.mean() == pytest.approx(0, abs=0.02)
    assert seen.std() == pytest.approx(1, abs=0.02)
