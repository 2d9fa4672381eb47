"""Columns of odd types and values, with what every engine reads in them."""

import datetime
import json

import pyarrow as pa

REFUSED = object()

_FLOATS, _INTEGERS, _TEXTS = pa.float64(), pa.int64(), pa.string()
_STAMP = datetime.datetime(2024, 3, 31, 23, 30, 0, 500000)
_UTC = _STAMP.replace(tzinfo=datetime.UTC)


def _map(entries, key, value=_FLOATS):
    return pa.array([entries] * 3, pa.map_(key, value))


def _pairs(entries, key=_INTEGERS, value=_FLOATS):
    pairs = [{"k": k, "v": v} for k, v in entries]
    return pa.array([pairs] * 3, pa.list_(pa.struct({"k": key, "v": value})))


def _struct(**fields):
    return pa.array([fields] * 3)


def _lists(values, kind):
    return pa.array([values] * 3, pa.list_(kind))


def _flags(*flags):
    numbers = _lists([1.0, 2.0, 3.0], _FLOATS)
    flags = pa.array(flags, pa.list_(pa.bool_()))
    return {"state_features": numbers, "state_features_presence": flags}


def _decimals(*texts, scale):
    return pa.array(texts, _TEXTS).cast(pa.decimal128(38, scale))


def _floats(*values, kind=_FLOATS):
    return pa.array(values, kind)


# Column, its Arrow array (or several arrays), and the values or REFUSED.
COLUMNS = {
    # Names that became floats
    "float ids": ("mdp_id", _floats(7.0, 12345678.0, -0.0), ["7", "12345678", "0"]),
    "large float ids": ("mdp_id", _floats(1, 2, 2**53 - 1), ["1", "2", f"{2**53 - 1}"]),
    "float ids that lost digits": ("mdp_id", _floats(1, 2, 2**53), REFUSED),
    "ids of fractions": ("mdp_id", _floats(1, 2.5, 3), REFUSED),
    "ids that are NaN": ("mdp_id", _floats(1, float("nan"), 3), REFUSED),
    "infinite ids": ("mdp_id", _floats(1, float("inf"), 3), REFUSED),
    "float32 ids": ("mdp_id", _floats(7, 8, 9, kind=pa.float32()), ["7", "8", "9"]),
    "float32 ids that lost digits": (
        *("mdp_id", _floats(7, 2**24, 9, kind=pa.float32()), REFUSED),
    ),
    "decimal ids": (
        "mdp_id",
        _decimals("7.00", "80.00", "-1", scale=2),
        ["7", "80", "-1"],
    ),
    "long decimal ids": (
        *("mdp_id", _decimals("9" * 38, "1", "2", scale=0), ["9" * 38, "1", "2"]),
    ),
    "decimal ids of fractions": (
        "mdp_id",
        _decimals("7.00", "7.50", "1", scale=2),
        REFUSED,
    ),
    "int64 ids": ("mdp_id", pa.array([2**60 + 1, 7, -3]), [f"{2**60 + 1}", "7", "-3"]),
    "uint64 ids": (
        *(
            "mdp_id",
            pa.array([2**64 - 1, 7, 3], pa.uint64()),
            [f"{2**64 - 1}", "7", "3"],
        ),
    ),
    "texts that look like floats": (
        "mdp_id",
        pa.array(["7.0", "7", "1e3"]),
        ["7.0", "7", "1e3"],
    ),
    "float actions": ("action", _floats(0, 11, None), ["0", "11", None]),
    "actions of fractions": ("action", _floats(0, 0.5, 1), REFUSED),
    "true and false as actions": (
        "action",
        pa.array([True, False, None]),
        ["true", "false", None],
    ),
    "lists of float actions": (
        *(
            "possible_actions",
            _lists([0.0, 1.0, None], _FLOATS),
            [["0", "1", None]] * 3,
        ),
    ),
    "lists of fractions": ("possible_actions", _lists([0.0, 0.5], _FLOATS), REFUSED),
    "days that are floats": (
        "ds",
        _floats(20240101, 20240102, 20240103),
        ["20240101", "20240102", "20240103"],
    ),
    # Numbers and flags that became floats or texts
    "float numbers": ("sequence_number", _floats(0, 1, 2.0**40), [0, 1, 2**40]),
    "float numbers that lost digits": (
        "sequence_number",
        _floats(0, 1, 2.0**53),
        REFUSED,
    ),
    "numbers of fractions": ("sequence_number", _floats(0, 1.5, 2), REFUSED),
    "texts of numbers": (
        "sequence_number",
        pa.array(["0", "1.0", f"{2**60 + 1}"]),
        [0, 1, 2**60 + 1],
    ),
    "texts of fractions": ("sequence_number", pa.array(["0", "1.5", "2"]), REFUSED),
    "decimal numbers": (
        "sequence_number",
        _decimals("0", "1.0", "2", scale=1),
        [0, 1, 2],
    ),
    "float flags": ("terminated", _floats(0, None, 1), [False, None, True]),
    "half flags": ("terminated", _floats(0, 0.5, 1), REFUSED),
    "integer flags": ("truncated", pa.array([0, 1, None]), [False, True, None]),
    "flags beyond 1": ("truncated", pa.array([0, 1, 2]), REFUSED),
    "texts of flags": (
        "terminated",
        pa.array(["1.0", "false", "0.0"]),
        [True, False, False],
    ),
    "texts of rewards": ("reward", pa.array(["1.5", "-2", "1e3"]), [1.5, -2.0, 1000.0]),
    "texts with underscores": ("reward", pa.array(["1_0", "2", "3"]), REFUSED),
    "numbers with underscores": (
        "sequence_number",
        pa.array(["1_0", "2"] * 2)[:3],
        REFUSED,
    ),
    "texts without a number": ("reward", pa.array(["1,5", "-2", "1e3"]), REFUSED),
    # Times
    "times of a zone": (
        *("ds", pa.array([_UTC] * 3, pa.timestamp("us", "Asia/Tokyo"))),
        ["2024-03-31 23:30:00.5"] * 3,
    ),
    "times without a zone": (
        *(
            "ds",
            pa.array([_STAMP] * 3, pa.timestamp("us")),
            ["2024-03-31 23:30:00.5"] * 3,
        ),
    ),
    "days": ("ds", pa.array([_STAMP.date()] * 3), ["2024-03-31"] * 3),
    # Maps of features
    "float keys": (
        "state_features",
        _map([(1.0, 2.0), (7.0, 3.0)], _FLOATS),
        [{1: 2.0, 7: 3.0}] * 3,
    ),
    "keys of fractions": ("state_features", _map([(0.4, 1.0)], _FLOATS), REFUSED),
    "keys that round to one": (
        "state_features",
        _map([(1.0, 1.0), (1.2, 2.0)], _FLOATS),
        REFUSED,
    ),
    "a key twice": (
        "state_features",
        _map([(0, 1.0), (1, 2.0), (1, 9.0)], pa.int64()),
        REFUSED,
    ),
    "a key twice in a final state": (
        "final_state_features",
        _map([(1, 2.0), (1, 9.0)], pa.int64()),
        REFUSED,
    ),
    "a metric twice": ("metrics", _map([("m", 2.0), ("m", 9.0)], _TEXTS), REFUSED),
    "texts as keys": (
        "state_features",
        _map([("1", 2.0), ("-7", 3.0)], _TEXTS),
        [{1: 2.0, -7: 3.0}] * 3,
    ),
    "fractions as texts": ("state_features", _map([("1.5", 2.0)], _TEXTS), REFUSED),
    "spaces in keys": ("state_features", _map([(" 1", 2.0)], _TEXTS), REFUSED),
    "two texts of one key": (
        "state_features",
        _map([("1", 2.0), ("01", 3.0)], _TEXTS),
        REFUSED,
    ),
    "texts as values": (
        "state_features",
        _map([(1, "2.5")], pa.int64(), _TEXTS),
        [{1: 2.5}] * 3,
    ),
    "texts without numbers as values": (
        "state_features",
        _map([(1, "n/a")], pa.int64(), _TEXTS),
        REFUSED,
    ),
    "underscores in values": (
        "state_features",
        _map([(1, "1_0")], pa.int64(), _TEXTS),
        REFUSED,
    ),
    "underscores in values of texts": (
        "state_features",
        _map([("1", "1_0")], _TEXTS, _TEXTS),
        REFUSED,
    ),
    "truth as values": (
        "state_features",
        _map([(1, True), (2, False)], pa.int64(), pa.bool_()),
        [{1: 1.0, 2: 0.0}] * 3,
    ),
    "float names of metrics": (
        "metrics",
        _map([(3.0, 2.0)], _FLOATS),
        [{"3": 2.0}] * 3,
    ),
    # Structs, pairs and lists
    "structs": (
        "state_features",
        _struct(**{"1": 2.0, "3": None, "7": 1}),
        [{1: 2.0, 7: 1.0}] * 3,
    ),
    "structs of texts": (
        "state_features",
        _struct(**{"1": "2.5", "7": "-1"}),
        [{1: 2.5, 7: -1.0}] * 3,
    ),
    "structs with a decimal comma": (
        "state_features",
        _struct(**{"1": 2.0, "7": "0,5"}),
        REFUSED,
    ),
    "structs with underscores": ("metrics", _struct(m=2.0, n="1_0"), REFUSED),
    "structs with n/a": ("metrics", _struct(m=2.0, n="n/a"), REFUSED),
    "structs in structs": ("state_features", _struct(**{"1": {"x": 2.0}}), REFUSED),
    "lists in structs": ("state_features", _struct(**{"1": [2.0], "2": 1.0}), REFUSED),
    "names in structs": ("state_features", _struct(**{"1": 2.0, "age": 3.0}), REFUSED),
    "fractions in structs": (
        "state_features",
        _struct(**{"1": 2.0, "1.5": 3.0}),
        REFUSED,
    ),
    "two names of one key": (
        "state_features",
        _struct(**{"1": 2.0, "01": 3.0}),
        REFUSED,
    ),
    "structs of metrics": ("metrics", _struct(m=2.0, n=None), [{"m": 2.0}] * 3),
    "pairs": ("state_features", _pairs([(1, 2.0), (7, 3.0)]), [{1: 2.0, 7: 3.0}] * 3),
    "a pair twice": ("state_features", _pairs([(1, 2.0), (1, 3.0)]), REFUSED),
    "pairs of fractions": ("state_features", _pairs([(0.4, 2.0)], _FLOATS), REFUSED),
    "pairs of floats": (
        "state_features",
        _pairs([(4.0, 2.0)], _FLOATS),
        [{4: 2.0}] * 3,
    ),
    "pairs with underscores": (
        "metrics",
        _pairs([("m", "1_0")], _TEXTS, _TEXTS),
        REFUSED,
    ),
    "pairs of texts": (
        "metrics",
        _pairs([("m", "2.5")], _TEXTS, _TEXTS),
        [{"m": 2.5}] * 3,
    ),
    "lists": ("state_features", _lists([5, 6], pa.int32()), [{0: 5.0, 1: 6.0}] * 3),
    "empty lists": ("state_features", _lists([], _FLOATS), [{}] * 3),
    "flags": (
        "state_features",
        _flags([True] * 3, [True, False, True], [False] * 3),
        [{0: 1.0, 1: 2.0, 2: 3.0}, {0: 1.0, 2: 3.0}, {}],
    ),
    "too few flags": (
        "state_features",
        _flags([True] * 3, [True], [True] * 3),
        REFUSED,
    ),
    "too many flags": (
        "state_features",
        _flags([True] * 3, [True, True, True, False], [True] * 3),
        REFUSED,
    ),
    "a flag too many that is unknown": (
        "state_features",
        _flags([True] * 3, [True, None, True, True], [True] * 3),
        REFUSED,
    ),
    "no flags": ("state_features", _flags([True] * 3, None, [True] * 3), REFUSED),
    "unknown flags": (
        "state_features",
        _flags([True] * 3, [True, None, True], [True] * 3),
        REFUSED,
    ),
    "JSON texts": ("state_features", pa.array(['{"1": 2.5}'] * 3), [{1: 2.5}] * 3),
    "JSON texts of names": ("state_features", pa.array(['{"age": 2.5}'] * 3), REFUSED),
    "JSON texts of actions": (
        "possible_actions",
        pa.array(['["a", 7.0, 8]'] * 3),
        [["a", "7", "8"]] * 3,
    ),
    # Columns without values
    "nothing as a flag": ("terminated", pa.nulls(3), [None] * 3),
    "nothing as a map": ("metrics", pa.nulls(3), [None] * 3),
    "nothing as a list": ("possible_actions", pa.nulls(3), [None] * 3),
    "nothing as a float": ("final_state_features", pa.nulls(3, _FLOATS), [None] * 3),
    "nothing as a text": ("final_state_features", pa.nulls(3, _TEXTS), [None] * 3),
    "nothing as a time": ("request_id", pa.nulls(3, pa.timestamp("us")), [None] * 3),
    "lists of nothing": ("possible_actions", _lists([], pa.null()), [[]] * 3),
}


# Column, the values as JSON, and what is read or REFUSED.
LINES = {
    "names of JSON": ("mdp_id", ["7.0", '"7.0"', "7e0"], ["7", "7.0", "7"]),
    "long integers": (
        "mdp_id",
        ["12345678901234567890123", "1", "null"],
        ["12345678901234567890123", "1", None],
    ),
    "large floats": ("mdp_id", ["1e17", "1", "2"], REFUSED),
    "fractions": ("action", ["0.5", "1", "2"], REFUSED),
    "NaN": ("action", ["NaN", "1", "2"], REFUSED),
    "objects": ("action", ['{"1": 2}', "1", "2"], REFUSED),
    "lists as names": ("action", ["[1]", "1", "2"], REFUSED),
    "brackets": ("action", ['"[none]"', '"{skip}"', '"-"'], ["[none]", "{skip}", "-"]),
    "minus zero": ("action", ["-0.0", "true", '"true"'], ["0", "true", "true"]),
    "lists of names": (
        "possible_actions",
        ['[7.0, "7.0", 7]', "[]", '["a,1.5", "[b"]'],
        [["7", "7.0", "7"], [], ["a,1.5", "[b"]],
    ),
    "lists with a fraction": ("possible_actions", ["[0.5]", "[]", "[]"], REFUSED),
    "lists with an object": ("possible_actions", ['[{"1": 2}]', "[]", "[]"], REFUSED),
    "whole floats": ("sequence_number", ["3.0", "1e3", '"5"'], [3, 1000, 5]),
    "fractions as numbers": ("sequence_number", ["3.5", "1", "2"], REFUSED),
    "flags of JSON": ("terminated", ["1.0", "0", "false"], [True, False, False]),
    "flags that are none": ("terminated", ["0.5", "0", "false"], REFUSED),
    "features": (
        "state_features",
        ['{"1": 2, "-3": 0.5}', "{}", "null"],
        [{1: 2.0, -3: 0.5}, {}, None],
    ),
    "features of fractions": ("state_features", ['{"1.5": 2}', "{}", "{}"], REFUSED),
    "features twice": ("state_features", ['{"1": 2, "1": 3}', "{}", "{}"], REFUSED),
    "features twice in two texts": (
        "state_features",
        ['{"1": 2, "01": 3}', "{}", "{}"],
        REFUSED,
    ),
    "underscores": ("state_features", ['{"1": "1_0"}', "{}", "{}"], REFUSED),
    "rewards with underscores": ("reward", ['"1_0"', "1", "2"], REFUSED),
    "decimal commas": ("state_features", ['{"1": "0,5"}', "{}", "{}"], REFUSED),
}


def table(column, values):
    """Return an Arrow table of three rows with a column of odd values."""
    return pa.table(
        _base() | (values if isinstance(values, dict) else {column: values})
    )


def lines(column, values):
    """Return three lines of JSON with a column of odd values, which are JSON texts."""
    base = _base()
    del base["state_features"]
    rows = [
        {name: json.dumps(each[k]) for name, each in base.items()} for k in range(3)
    ]
    for row, value in zip(rows, values, strict=True):
        row.setdefault("state_features", '{"0": 1}')
        row[column] = value
    return [
        "{" + ", ".join(f'"{name}": {text}' for name, text in row.items()) + "}"
        for row in rows
    ]


def _base():
    return {
        "ds": ["d"] * 3,
        "mdp_id": ["a", "b", "c"],
        "sequence_number": [0] * 3,
        "state_features": _lists([1.0], _FLOATS),
        "action": ["x", "y", "x"],
        "reward": [1.0] * 3,
    }
