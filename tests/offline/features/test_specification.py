import dataclasses
import hashlib
import json

import numpy as np
import pytest

from tfagents_batch.errors import UserError
from tfagents_batch.features.layout import layout
from tfagents_batch.features.specification import Feature, Specification, to_dict
from tfagents_batch.offline.features import specification, twin

GIVEN = Specification(
    {
        3: Feature("BOXCOX", 0.27, -1e-05, -0.36, 1.0, min_value=0.0, max_value=8.0),
        10: Feature("ENUM", possible_values=(12, 4, 2)),
        -2: Feature("QUANTILE", quantiles=(0.0, 80.0, 100.0)),
    },
    n=100,
)


@pytest.mark.parametrize("name", ["features.json", "features.json.gz"])
def test_a_file_gives_what_was_written_with_the_same_hash(name, tmp_path):
    specification.write(GIVEN, tmp_path / name)
    found = specification.read(tmp_path / name)
    assert found.ids == (-2, 3, 10)
    assert found.sha256 == GIVEN.sha256
    assert found.features == GIVEN.features


def test_a_file_of_version_1_keeps_its_numbers_and_its_hash(tmp_path):
    # A file of version 1: its moments of log odds were without effect.
    entry = {"feature_type": "PROBABILITY", "mean": 3.0, "stddev": 2.0}
    feature = dataclasses.asdict(Feature(**entry))
    del feature["name"], feature["categories"]
    content = {"version": 1, "n": 7, "gate": "fixed", "missing_as_zero": False}
    content["features"] = {"0": feature}
    path = tmp_path / "features.json"
    path.write_text(json.dumps(content))
    found = specification.read(path)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert found.sha256 == hashlib.sha256(text.encode()).hexdigest()
    seen = twin.normalize(layout(found), np.array([[0.0], [0.5]]))
    np.testing.assert_allclose(seen[:, 0], [-11.5129, 0], atol=1e-4)
    specification.write(found, path)
    assert specification.read(path) == found
    now = specification.from_dict(content | {"version": 2})
    seen = twin.normalize(layout(now), np.array([[0.0], [0.5]]))
    np.testing.assert_allclose(seen[:, 0], [-7.2565, -1.5], atol=1e-4)


NAMED = {
    "feature_type": "ENUM",
    "possible_values": [0, 1],
    "name": "country",
    "categories": ["DE", "FR"],
}


def test_names_of_columns_and_categories_are_kept_and_hashed(tmp_path):
    given = specification.from_dict({"version": 2, "features": {"4": NAMED}})
    feature = given.features[4]
    assert (feature.name, feature.categories) == ("country", ("DE", "FR"))
    specification.write(given, tmp_path / "features.json")
    assert specification.read(tmp_path / "features.json") == given
    other = dataclasses.replace(feature, categories=("DE", "PL"))
    assert Specification({4: other}).sha256 != given.sha256


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "7"}, "name is '7'; expected text, and no whole number"),
        ({"name": None}, "name is None; expected text"),
        ({"name": 7}, "name is 7; expected text"),
        ({"categories": ["DE", "DE"]}, "expected texts that differ"),
        ({"categories": "DE"}, "categories is 'DE'; expected texts"),
        ({"categories": [1]}, "expected texts that differ"),
    ],
)
def test_wrong_names_are_refused(changes, message):
    content = {"version": 2, "features": {"4": NAMED | changes}}
    with pytest.raises(UserError, match=message):
        specification.from_dict(content)


def test_two_features_with_one_name_are_refused():
    content = {"version": 2, "features": {"4": NAMED, "5": NAMED}}
    with pytest.raises(UserError, match="has a name twice"):
        specification.from_dict(content)


def test_the_hash_changes_with_each_number():
    other = dict(GIVEN.features) | {3: Feature("BOXCOX", 0.28, -1e-05, -0.36, 1.0)}
    hashes = {
        each.sha256
        for each in (
            GIVEN,
            Specification(other, n=100),
            Specification(GIVEN.features, n=101),
            Specification(GIVEN.features, n=100, missing_as_zero=True),
            Specification(GIVEN.features, n=100, version=1),
        )
    }
    assert len(hashes) == 5


def wrong(**changes):
    content = to_dict(GIVEN) | changes
    return {k: x for k, x in content.items() if x is not None}


def entry(**changes):
    return wrong(features={"3": {"feature_type": "CONTINUOUS", "mean": 0} | changes})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (wrong(version=3), "has version 3; expected 1 or 2"),
        (wrong(version=True), "has version True; expected 1 or 2"),
        (wrong(gates="fixed"), "unknown key .*gates.*did you mean.*gate"),
        (wrong(features={}), "has no features"),
        (wrong(features={"a": {"feature_type": "BINARY"}}), "'a' is no id"),
        (wrong(n=1.5), "n is 1.5; expected int"),
        (entry(stddev=0), "stddev of CONTINUOUS is 0.0; expected more than 0"),
        (entry(), "stddev of CONTINUOUS is None"),
        (entry(feature_type="PROBABILITY"), "stddev of PROBABILITY is None"),
        (entry(stddev="1"), "stddev is '1'; expected a number"),
        (entry(stddev=10**400), "stddev is 1000.*; expected a number"),
        (entry(stdev=1), "unknown key .*stdev.*stddev"),
        (entry(feature_type="NORMAL"), "feature_type.*NORMAL"),
        (entry(feature_type="QUANTILE", quantiles=[1, 1]), "expected ascending"),
        (entry(feature_type="ENUM", possible_values=[0.5]), "expected whole numbers"),
        ([], r"is \[\]; expected an object"),
    ],
)
def test_a_wrong_file_is_one_line(content, message, tmp_path):
    path = tmp_path / "features.json"
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=message) as error:
        specification.read(path)
    assert "\n" not in str(error.value)
    path.write_text("{")
    with pytest.raises(UserError, match="is no JSON"):
        specification.read(path)


def test_features_that_the_rows_do_not_have_are_refused():
    with pytest.raises(UserError, match="features 10, which the rows do not have"):
        layout(GIVEN, (3, -2, 4))
    assert layout(GIVEN, (10, 7, 3, -2)).inputs == 4
