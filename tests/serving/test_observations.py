import numpy as np
import pytest

from tests.serving import exports
from tfagents_batch.errors import UserError
from tfagents_batch.serving import reading
from tfagents_batch.serving.observations import Reader

NAN, INFINITY = float("nan"), float("inf")
X = [0.1, 0.2, -0.3, 4]


def reader(folder):
    return Reader(reading.read(folder))


def test_numbers_become_an_array(simple):
    found = reader(simple).read(X)
    array = found.arrays["observation"]
    assert array.dtype == np.float32 and found.features is None
    np.testing.assert_array_equal(array, np.float32(X))
    assert reader(simple).read([1e38, 0, 0, -1e38]).arrays["observation"][0] > 9e37


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2, 3], "observation has 3 numbers; expected 4 numbers"),
        ([[1, 2, 3, 4]], r"observation has shape \[1, 4\]; expected 4"),
        ([1, 2, 3, NAN], r"observation\[3\] is nan; expected a finite number"),
        ([INFINITY, 2, 3, 4], r"observation\[0\] is inf"),
        ([1, 2, 3, 1e300], r"observation\[3\] is 1e\+300"),
        ([1, 2, 3, "4"], r"observation\[3\] is '4'; expected 4 numbers"),
        ([1, 2, None, 4], r"observation\[2\] is null"),
        ([1, 2, 3, [4]], "observation is no array"),
        ([1, 2, 3, 10**40], "observation is .*; expected 4 numbers"),
        ({"0": 1}, "observation is {'0': 1}"),
        (None, "observation is null"),
        (7, r"observation has shape \[\]"),
    ],
)
def test_wrong_numbers_are_named(simple, value, message):
    with pytest.raises(UserError, match=message):
        reader(simple).read(value)


def test_a_missing_feature_is_zero_and_counted(named):
    found = reader(named).read({"3": 2.5, "9": -1})
    assert found.arrays["observation_state"].tolist() == [0.0, 2.5, 0.0, -1.0]
    assert found.features == {"3": 2.5, "9": -1} and found.missing == 2


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"4": 1}, "unknown feature '4'; known: 0, 3, 7, 9"),
        ({"3": NAN}, r"observation\['3'\] is nan; expected a finite number"),
        ({"3": 1e39}, r"observation\['3'\] is 1e\+39"),
        ({"3": "1"}, r"observation\['3'\] is '1'"),
        ({"3": True}, r"observation\['3'\] is True"),
        ([1, 2, 3, 4], "expected an object of numbers by feature"),
    ],
)
def test_wrong_features_are_named(named, value, message):
    with pytest.raises(UserError, match=message):
        reader(named).read(value)


@pytest.fixture(scope="module")
def by_name(tmp_path_factory):
    """Return an export whose features have names, as of a table."""
    folder = exports.discrete(
        tmp_path_factory.mktemp("exports") / "a", size=3, features=[0, 1, 2]
    )
    names = {"age": 0, "country": 1, "store": 2}
    values = {"country": ["DE", "FR"], "store": ["3", "17", "true"]}
    exports.change(folder, names=names, categories=values)
    return folder


@pytest.mark.parametrize(
    ("value", "features"),
    [
        ({"age": 31, "country": "FR", "store": "17"}, {"0": 31, "1": 1, "2": 1}),
        ({"store": 17, "0": 31}, {"0": 31, "2": 1}),
        ({"store": 17.0, "country": None}, {"2": 1}),
        ({"store": True}, {"2": 2}),
        ({"0": 31, "1": 1}, {"0": 31, "1": 1}),
    ],
)
def test_features_are_given_by_name_and_logged_by_id(by_name, value, features):
    found = reader(by_name).read(value)
    assert found.features == features and found.unknown == 0
    assert found.missing == 3 - len(features)


def test_an_unknown_category_is_missing_and_counted(by_name):
    found = reader(by_name).read({"age": 31, "country": "PL", "store": 4})
    assert found.features == {"0": 31}
    assert (found.missing, found.unknown) == (2, 2)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"aeg": 1}, "unknown feature 'aeg'; known: age, country, store"),
        (
            {"country": ["DE"]},
            r"observation\['country'\] is .*; expected the name of a",
        ),
        ({"age": "31"}, r"observation\['age'\] is '31'"),
        ({"age": 31, "0": 31}, "feature 0 twice, by its name and by its id"),
        ({"1": "FR"}, r"observation\['country'\] is 'FR'"),
        (["DE"], "expected an object of numbers by feature"),
    ],
)
def test_wrong_names_are_named(by_name, value, message):
    with pytest.raises(UserError, match=message):
        reader(by_name).read(value)


@pytest.mark.parametrize("possible", [["right"], [1], [1.0], ["1"]])
def test_possible_actions_are_names_or_numbers(tmp_path, named, possible):
    folder = exports.discrete(tmp_path / "a", masked=True)
    given = (folder, {"state": X}) if possible == ["1"] else (named, {})
    found = reader(given[0]).read(given[1], possible)
    assert found.arrays["observation_action_mask"].tolist() == [0, 1]


def test_without_a_mask_all_actions_are_possible(named):
    assert reader(named).read({}).arrays["observation_action_mask"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("possible", "message"),
    [
        ([], "expected a list of at least one action"),
        ("left", "possible_actions is 'left'"),
        (["lft"], "'lft', which is no action; did you mean 'left'"),
        ([2], "2, which is no action; known: 0, 1, left, right"),
        (["left", None], "null, which is no action"),
        ([True], "True, which is no action"),
        ([0.5], "0.5, which is no action"),
        ([float("nan")], "nan, which is no action"),
        ([["left"]], "which is no action"),
    ],
)
def test_wrong_possible_actions_are_named(named, possible, message):
    with pytest.raises(UserError, match=message):
        reader(named).read({}, possible)


def test_fewer_possible_actions_need_a_mask(simple):
    with pytest.raises(UserError, match="has no action mask; leave it out"):
        reader(simple).read(X, ["0"])


@pytest.mark.parametrize("possible", [["0", "1"], [1, 0], ["1", 0, 1]])
def test_a_policy_without_a_mask_takes_all_actions_as_rows_name_them(simple, possible):
    assert {*reader(simple).read(X, possible).arrays} == {"observation"}


def test_a_null_feature_is_missing(named):
    found = reader(named).read({"3": 2.5, "9": None})
    assert found.arrays["observation_state"].tolist() == [0.0, 2.5, 0.0, 0.0]
    assert found.features == {"3": 2.5} and found.missing == 3


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"state": X, "action_mask": [0, 0]}, "observation.action_mask is all zeros"),
        ({"state": X, "action_mask": [1, 2]}, "expected 1 for each possible action"),
        ({"state": X, "action_mask": [1, 0.5]}, "expected 2 int8 numbers"),
        ({"state": X, "mask": [1, 1]}, "unknown key 'mask'; "),
        ({"action_mask": [1, 1]}, "observation lacks state"),
        ({"state": X[:3]}, "observation.state has 3 numbers; expected 4"),
        (X, "expected an object with action_mask, state"),
    ],
)
def test_wrong_keys_of_a_dict_are_named(tmp_path, value, message):
    folder = exports.discrete(tmp_path / "a", masked=True)
    with pytest.raises(UserError, match=message):
        reader(folder).read(value)


def test_a_mask_is_given_once(tmp_path):
    folder = exports.discrete(tmp_path / "a", masked=True)
    with pytest.raises(UserError, match=r"both .* and possible_actions are given"):
        reader(folder).read({"state": X, "action_mask": [1, 1]}, [0])


def test_pixels_stay_uint8_and_others_are_named(tmp_path):
    read = reader(exports.pixels(tmp_path / "a")).read
    pixels = np.random.default_rng(0).integers(0, 256, (4, 4, 3))
    found = read(pixels.tolist()).arrays["observation"]
    assert found.dtype == np.uint8 and (found == pixels).all()
    for wrong, message in (
        (256, "uint8 does not have"),
        (0.5, "expected uint8 numbers"),
    ):
        value = pixels.tolist()
        value[1][2][0] = wrong
        with pytest.raises(UserError, match=message):
            read(value)
