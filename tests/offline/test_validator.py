import json
import os
import pathlib
import re

import pyarrow.parquet
import pytest

from tests.offline import made
from tests.offline.test_reader import parquet, table
from tfagents_batch.errors import UserError
from tfagents_batch.offline import rules, validator
from tfagents_batch.offline.reader import open_rows
from tfagents_batch.offline.report import ERROR, WARNING
from tfagents_batch.offline.schema import Schema
from tfagents_batch.offline.validator import Options, validate

QUIET = {"rare_feature": 0, "common_action": 1.0}


def check(data, mode="discrete", schema=None, extra_columns=(), **options):
    options = Options(**QUIET | options)
    with open_rows(data, mode, schema, extra_columns=extra_columns) as rows:
        return validate(rows, schema, options)


def found(data, *arguments, **options):
    """Return severity and count of each rule that is broken."""
    report = check(data, *arguments, **options)
    return {each.rule: (each.severity, each.count) for each in report.findings}


def test_clean_rows_have_no_findings():
    report = check([*made.episode(3), *made.episode(4, "u8")])
    assert report.findings == () and report.rows == 7
    assert report.table() == "7 rows: 0 errors, 0 warnings"
    assert report.to_json() == "[]"
    report.raise_for_errors()


def test_clean_rows_of_other_modes_have_no_findings():
    rows = [made.parametric(), made.parametric(sequence_number=1, terminated=True)]
    assert found(rows, "parametric") == {}
    rows = [made.continuous(), made.continuous(sequence_number=1, terminated=True)]
    assert found(rows, "continuous") == {}


NAN, INF = float("nan"), float("inf")
# Changes of the second of three rows, and the error they are.
BROKEN = [
    ({"ds": None}, "missing_ds"),
    ({"mdp_id": None}, "missing_mdp_id"),
    ({"sequence_number": None}, "missing_sequence_number"),
    ({"state_features": None}, "missing_state_features"),
    ({"action": None}, "missing_action"),
    ({"reward": None}, "missing_reward"),
    ({"possible_actions": None}, "missing_possible_actions"),
    ({"reward": NAN}, "number_in_reward"),
    ({"reward": -INF}, "number_in_reward"),
    ({"reward": -1e39}, "number_in_reward"),
    ({"state_features": {"0": 1e300}}, "number_in_state_features"),
    ({"state_features": {"0": NAN}}, "number_in_state_features"),
    ({"state_features": {"0": 1, "3": INF}}, "number_in_state_features"),
    ({"state_features": {"0": 1, "3": "DE"}}, "wrong_type"),
    ({"metrics": {"click": NAN}}, "number_in_metrics"),
    ({"action_log_density": NAN}, "number_in_action_log_density"),
    ({"action": "wait"}, "impossible_action"),
    ({"possible_actions": ["send", "drop", "send"]}, "repeated_possible_action"),
    ({"action_probability": 0}, "propensity"),
    ({"action_probability": 1.2}, "propensity"),
    ({"action_probability": -0.1}, "propensity"),
    ({"action_probability": NAN}, "propensity"),
    ({"terminated": True}, "early_end"),
    ({"truncated": True}, "early_end"),
    ({"sequence_number": 0}, "duplicate_key"),
    ({"sequence_number": 1.5}, "wrong_type"),
    ({"reward": "much"}, "wrong_type"),
    ({"state_features": {"age": 1}}, "feature_key"),
    ({"state_features": [[1]]}, "wrong_type"),
]


@pytest.mark.parametrize(("changes", "rule"), BROKEN)
def test_an_error_is_found_with_its_place(changes, rule, tmp_path):
    rows = made.episode(3)
    rows[1] = {k: v for k, v in (rows[1] | changes).items() if v is not None}
    path = made.write(tmp_path / "a.jsonl", rows)
    report = check(path)
    (finding,) = report.errors
    assert (finding.rule, finding.count) == (rule, 1)
    (example,) = finding.examples
    assert (example.file, example.row) == (str(path), 2)
    with pytest.raises(UserError, match=rf"(?s)a\.jsonl, row 2: .*{rule}|{rule}"):
        report.raise_for_errors()


def test_numbers_of_a_final_state_are_finite():
    rows = made.episode(3)
    rows[-1]["final_state_features"] = {"0": NAN}
    assert found(rows) == {"number_in_final_state_features": (ERROR, 1)}


def test_every_row_counts_and_three_are_shown(tmp_path):
    rows = made.episode(10, reward=NAN)
    (finding,) = check(made.write(tmp_path / "a.jsonl", rows)).errors
    assert finding.count == 10
    assert [each.row for each in finding.examples] == [1, 2, 3]
    assert {each.value for each in finding.examples} == {"nan"}


def test_an_end_marker_needs_no_action_reward_or_propensity():
    state = {"0": 1}
    end = {"sequence_number": 9, "action": "", "possible_actions": []}
    others = {"reward": None, "action_probability": 0.0, "metrics": None}
    marker = made.row(**end | others, state_features=state)
    rows = made.episode(3)[:2]
    assert found([*rows, marker]) == {}
    # A list of no actions makes a marker of a row with an action, too.
    marker = made.row(sequence_number=9, possible_actions=[], reward=0, metrics=None)
    assert found([*rows, marker]) == {}


def test_what_follows_an_end_marker_is_an_error():
    marker = made.row(sequence_number=1, action="", possible_actions=[], reward=0)
    rows = [made.row(), marker | {"metrics": {}}, made.row(sequence_number=2)]
    assert found(rows) == {"early_end": (ERROR, 1)}


def test_a_final_state_before_the_last_row_is_an_error():
    rows = made.episode(3)
    rows[0]["final_state_features"] = {}  # none, as tables of columns write it
    assert found(rows) == {}
    rows[0]["final_state_features"] = {"0": 1}
    assert found(rows) == {"early_end": (ERROR, 1)}


@pytest.mark.parametrize(
    ("mode", "action"), [("discrete", "send"), ("parametric", {"100": 0.5})]
)
def test_possible_actions_after_the_end_before_the_last_row_are_an_error(mode, action):
    make = made.row if mode == "discrete" else made.parametric
    rows = [make(sequence_number=k) for k in range(3)]
    rows[-1] |= {"terminated": True, "final_possible_actions": []}
    rows[0]["final_possible_actions"] = []  # none, as tables of columns write it
    assert found(rows, mode) == {}
    rows[0]["final_possible_actions"] = [action]
    assert found(rows, mode) == {"early_end": (ERROR, 1)}


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 2**62 + 1])
def test_a_sequence_number_that_cannot_be_added_to_is_an_error(number):
    rows = [made.row(sequence_number=number), made.row(sequence_number=3)]
    errors = found(rows)
    assert errors["large_sequence_number"] == (ERROR, 1)
    assert "sequence_gap" not in errors


@pytest.mark.parametrize("name", ["possible_actions", "final_possible_actions"])
def test_an_unknown_possible_action_is_an_error(name):
    schema = Schema("discrete", ("send", "drop"), (0, 3), (), ("click", "send_cost"))
    rows = made.episode(3)
    rows[-1][name] = ["send", "drop", "sned"]
    assert found(rows, schema=schema)["unknown_action"] == (ERROR, 1)


def test_an_action_of_final_states_alone_is_an_error():
    rows = made.episode(3)
    rows[-1]["final_possible_actions"] = ["send", "sned", "dorp"]
    (finding,) = check(rows).errors
    assert (finding.rule, finding.count) == ("unknown_action", 2)
    assert [each.value for each in finding.examples] == ["dorp", "sned"]
    rows[-1]["final_possible_actions"] = ["send", None]
    assert found(rows) == {"missing_final_possible_action": (ERROR, 1)}


def test_the_reward_of_an_end_marker_is_lost():
    marker = {"sequence_number": 1, "action": "", "possible_actions": []}
    for lost in ({"reward": 1}, {"reward": 0, "metrics": {"click": 1}}):
        rows = [made.row(), made.row(**{"metrics": {}} | marker | lost)]
        assert found(rows) == {"marker_reward": (WARNING, 1)}


def test_an_unknown_action_is_an_error():
    schema = Schema(actions=("send", "drop"), features=(0, 3))
    schema = Schema(**vars(schema) | {"metrics": ("click", "send_cost")})
    assert found(made.episode(3), "discrete", schema) == {}
    rows = [made.row(action="wait", possible_actions=["wait"], terminated=True)]
    errors = found(rows, "discrete", schema)
    assert errors["unknown_action"] == (ERROR, 1)


def test_a_missing_action_is_not_also_an_unknown_one():
    schema = Schema("discrete", ("send", "drop"), (0, 3), (), ("click", "send_cost"))
    rows = made.episode(3)
    del rows[0]["action"]
    assert found(rows, "discrete", schema) == {"missing_action": (ERROR, 1)}
    rows = made.episode(1, possible_actions=["send", "drop", None])
    rule = "repeated_possible_action"  # it also names NULL
    assert found(rows, "discrete", schema) == {rule: (ERROR, 1)}


def test_another_schema_is_an_error_that_shows_the_difference():
    with open_rows(made.episode(3)) as rows:
        schema = rows.find_schema()
    later = made.episode(3, state_features={"0": 1, "4": 2})
    (finding,) = check(later, schema=schema).errors
    assert finding.rule == "schema"
    assert "features lost 3 and gained 4" in finding.text
    more = Schema(**vars(schema) | {"actions": ("send", "drop", "wait")})
    assert found(made.episode(3), schema=more) == {}
    less = made.episode(3, state_features={"0": 1})
    assert found(less, schema=schema) == {"smaller_schema": (WARNING, 1)}


def test_an_unknown_column_is_an_error_unless_it_is_listed():
    rows = made.episode(3, rewards=1)
    (finding,) = check(rows).errors
    assert finding.rule == "unknown_column"
    assert finding.examples[0].value == "rewards (did you mean reward?)"
    assert found(rows, extra_columns=["rewards"]) == {}


def test_a_column_that_the_last_files_lack_is_an_error_that_names_them(tmp_path):
    for number in range(20):
        columns = table(made.episode(2, f"u{number}"))
        if number == 19:
            columns = columns.drop_columns(["reward", "possible_actions"])
        parquet(tmp_path / f"{number:02}.parquet", columns)
    report = check(tmp_path)
    assert {each.rule: each.count for each in report.errors} == {
        "missing_reward": 2,
        "missing_possible_actions": 2,
    }
    for finding in report.errors:
        assert os.path.basename(finding.examples[0].file) == "19.parquet"


def test_a_line_that_is_no_object_is_one_error(tmp_path):
    lines = [*made.episode(2), "{broken", "[]"]
    assert found(made.write(tmp_path / "a.jsonl", lines)) == {"not_json": (ERROR, 2)}


def test_no_rows_are_an_error(tmp_path):
    path = made.write(tmp_path / "a.jsonl", [])
    assert found(path) == {"empty": (ERROR, 1)}
    assert found([]) == {"empty": (ERROR, 1)}
    empty = table([made.row()]).slice(0, 0)
    assert found(parquet(tmp_path / "a.parquet", empty)) == {"empty": (ERROR, 1)}


# ---- parametric and continuous actions


def test_candidates_are_compared_whatever_the_order_of_their_features():
    action = {"100": 0.3, "101": 1.0}
    other = {"101": 1.0, "100": 0.3}
    for one, two in ((action, other), (other, action)):
        row = made.parametric(action=one, possible_actions=[two], terminated=True)
        assert found([row], "parametric") == {}
    row["possible_actions"] = [other, action]
    assert found([row], "parametric") == {"repeated_possible_action": (ERROR, 1)}
    row["possible_actions"] = [{"100": 0.3}]
    assert found([row], "parametric") == {"impossible_action": (ERROR, 1)}


def test_features_of_states_and_actions_have_different_ids():
    row = made.parametric(state_features={"100": 1, "5": 1}, terminated=True)
    (finding,) = check([row], "parametric").errors
    assert finding.rule == "shared_feature"
    assert [each.value for each in finding.examples] == ["100"]
    row = made.continuous(state_features={"10": 1}, terminated=True)
    assert found([row], "continuous") == {"shared_feature": (ERROR, 1)}


def test_features_of_actions_are_finite():
    row = made.parametric(terminated=True, action={"100": NAN})
    assert "number_in_action" in found([row], "parametric")
    row = made.parametric(terminated=True)
    row["possible_actions"].append({"100": INF})
    assert found([row], "parametric") == {"number_in_possible_actions": (ERROR, 1)}
    last = {"final_state_features": {"0": 1}, "truncated": True}
    for number in (NAN, 1e39):
        row = made.parametric(final_possible_actions=[{"100": number}], **last)
        expected = {"number_in_final_possible_actions": (ERROR, 1)}
        assert found([row], "parametric", continuing_task=True) == expected


def test_an_empty_map_is_an_end_marker():
    marker = {"sequence_number": 1, "action": {}, "reward": 0, "metrics": {}}
    rows = [made.parametric(), made.parametric(possible_actions=[], **marker)]
    assert found(rows, "parametric") == {}
    rows = [made.continuous(), made.continuous(**marker)]
    assert found(rows, "continuous") == {}


def test_a_continuous_action_needs_a_density_or_a_propensity():
    rows = [made.continuous(action_log_density=None, terminated=True)]
    assert found(rows, "continuous") == {"missing_propensity": (WARNING, 1)}
    rows[0]["action_probability"] = 0.5
    assert found(rows, "continuous") == {}


# ---- options

SUM = {"metric_weights": {"click": 1, "send_cost": 1}}  # 0.5 in each row


@pytest.mark.parametrize(
    ("changes", "options", "expected"),
    [
        ({"possible_actions": None}, {}, {}),
        ({"state_features": {"0": None}}, {}, {"number_in_state_features": (ERROR, 3)}),
        ({"action_probability": None}, {}, {"missing_propensity": (WARNING, 3)}),
        (
            {"action_probability": None},
            {"propensities": True},
            {"missing_propensity": (ERROR, 3)},
        ),
        ({"action_probability": 1e-7}, {}, {"small_propensity": (WARNING, 3)}),
        ({"action_probability": 1e-7}, {"propensity_floor": 1e-8}, {}),
        ({"reward": 0.5}, SUM, {}),
        ({"reward": 0.50001}, SUM, {"reward_of_metrics": (WARNING, 3)}),
        ({}, {"common_action": 0.6}, {"common_action": (WARNING, 1)}),
        ({}, {"common_action": 0.7}, {}),
        ({}, {"max_features": 2}, {}),
        ({}, {"max_features": 1}, {"too_many_features": (ERROR, 2)}),
    ],
)
def test_rows_are_judged_by_the_options(changes, options, expected):
    assert found(made.episode(3, **changes), **options) == expected


@pytest.mark.parametrize(
    ("last", "options", "expected"),
    [
        ({}, {}, {"no_terminal": (WARNING, 1)}),
        ({}, {"continuing_task": True}, {}),
        ({"terminated": True, "truncated": True}, {}, {"both_flags": (ERROR, 1)}),
        ({"terminated": True, "ds": "2025"}, {}, {"day_backwards": (WARNING, 1)}),
    ],
)
def test_the_last_row_of_an_episode_is_checked(last, options, expected):
    rows = made.episode(3)[:2]
    rows[1] |= last
    assert found(rows, **options) == expected


def test_a_rare_feature_is_a_warning():
    rows = made.episode(25)
    rows[3]["state_features"] = {"0": 1, "9": 2}
    report = check(rows, rare_feature=20)
    (finding,) = report.warnings
    assert (finding.rule, finding.examples[0].value) == ("rare_feature", "9")


def test_a_gap_is_a_warning_unless_numbers_are_times():
    rows = made.episode(30)
    del rows[10:12]
    assert found(rows) == {"sequence_gap": (WARNING, 1)}
    for row in rows:
        row["sequence_number"] **= 2
    assert found(rows) == {}


def test_a_clock_that_runs_backwards_is_a_warning(tmp_path):
    rows = made.episode(30)
    rows[7]["sequence_number"], rows[8]["sequence_number"] = 8, 7
    report = check(made.write(tmp_path / "a.jsonl", rows))
    (finding,) = report.warnings
    assert (finding.rule, finding.count) == ("clock_backwards", 1)
    shuffled = made.write(tmp_path / "b.jsonl", rows[::-1])
    assert found(shuffled) == {}


def test_duplicates_are_a_warning_if_one_of_them_is_chosen():
    rows = [*made.episode(3), *made.episode(2)[:1]]
    assert found(rows) == {"duplicate_key": (ERROR, 1)}
    report = check(rows, on_duplicate="last")
    (finding,) = report.findings
    assert finding.severity == WARNING and "only the last" in finding.text


def test_a_warning_can_be_an_error():
    rows = made.episode(3)[:2]
    assert found(rows, errors=("no_terminal",)) == {"no_terminal": (ERROR, 1)}
    with pytest.raises(UserError, match="did you mean 'no_terminal'"):
        check(rows, errors=("no_terminals",))


def test_every_warning_of_these_tests_can_be_an_error():
    source = pathlib.Path(__file__).read_text()
    assert set(re.findall(r'"(\w+)": \(WARNING', source)) <= {*rules.WARNINGS}
    assert [name for name in rules.WARNINGS if f'"{name}"' not in source] == []


# ---- the report


def test_json_has_rule_severity_count_and_examples(tmp_path):
    path = made.write(tmp_path / "a.jsonl", made.episode(3, action_probability=0))
    (finding,) = json.loads(check(path).to_json())
    assert finding["rule"] == "propensity" and finding["severity"] == "error"
    assert finding["count"] == 3 and "at most 1" in finding["text"]
    assert finding["examples"] == [
        {"file": str(path), "row": row, "value": "0.0"} for row in (1, 2, 3)
    ]


def test_the_table_lists_errors_first(tmp_path):
    rows = made.episode(3, reward=NAN)[:2]
    lines = check(made.write(tmp_path / "a.jsonl", rows)).table().splitlines()
    assert lines[0].startswith("error number_in_reward (2): a number in reward")
    assert lines[1].endswith("a.jsonl, row 1: nan")
    assert lines[3].startswith("warning no_terminal (1): ")
    assert lines[-1] == "2 rows: 1 error, 1 warning"


def test_a_file_that_changes_during_the_check_is_an_error(tmp_path, monkeypatch):
    path = made.write(tmp_path / "a.jsonl", made.episode(3))
    names = validator._names

    def append(*arguments):
        made.write(path, made.episode(4))
        return names(*arguments)

    monkeypatch.setattr(validator, "_names", append)
    with pytest.raises(UserError, match="changed while it was read"):
        check(path)


def test_memory_of_a_check_is_limited(tmp_path):
    rows = [made.row(mdp_id=f"u{k}", terminated=True) for k in range(20_000)]
    path = parquet(tmp_path / "a.parquet", table(rows))
    with open_rows(path, memory="64MB", threads=1) as found:
        assert not validate(found).errors
    assert pyarrow.parquet.read_metadata(path).num_rows == 20_000


def test_episodes_and_actions_in_two_forms_are_a_warning(tmp_path):
    rows = [*made.episode(2, "7"), *made.episode(2, "7.0"), *made.episode(2, "8.0")]
    rows += made.episode(1, "-9.00") + made.episode(1, "-9") + made.episode(1, "v1.0")
    report = check(rows + made.episode(1, "v1"))
    (finding,) = report.warnings
    assert (finding.rule, finding.count) == ("two_forms", 2)
    assert [each.value for each in finding.examples] == ["-9.00", "7.0"]
    for k, row in enumerate(rows := made.episode(3)):
        row |= {"action": ["1", "1.0", "2.0"][k], "possible_actions": None}
    assert found(rows)["two_forms"] == (WARNING, 1)
    assert "two_forms" not in found(made.episode(3))
