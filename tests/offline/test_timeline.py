"""Samples of the timeline, compared with numbers computed by hand.

Cases T1 to T14 are those of Horizon's own timeline tests.
"""

import hashlib
import itertools
import json
import math

import pytest

from tests.support import logged
from tfagents_batch.errors import UserError
from tfagents_batch.offline.schema import Schema

DS = "2018-01-01"


def row(number, reward, action, mdp="mdp1", ds=DS, **more):
    """Return a logged row."""
    found = {
        "ds": ds,
        "mdp_id": mdp,
        "sequence_number": number,
        "state_features": {1: float(number)},
        "action": action,
        "action_probability": 0.5,
        "reward": reward,
    }
    return found | more


def with_last(rows, **changes):
    """Return rows of which the last one is changed."""
    return [*rows[:-1], rows[-1] | changes]


def column(samples, name):
    return [sample[name] for sample in samples]


def widgets(value):
    return {"Widgets": value}


T1 = [
    row(
        *(1, 1.0, "action1"),
        action_probability=0.8,
        state_features={1: 1.0},
        possible_actions=["action1", "action2"],
        metrics=widgets(10.0),
    ),
    row(
        *(11, 0.2, "action2"),
        action_probability=0.7,
        state_features={2: 1.0},
        possible_actions=[],
        metrics=widgets(20.0),
    ),
]
POSSIBLE_T2 = [["1", "2"], ["2", "3"], ["3", "4"], ["4", "1", "2", "3"]]
T2 = [
    row(
        *(number, reward, str(k)),
        action_probability=0.9 - 0.1 * k,
        state_features={k: 1.0},
        possible_actions=POSSIBLE_T2[k - 1],
        metrics=widgets(10.0 * k),
    )
    for k, number, reward in ((1, 1, 1.0), (2, 11, 0.2), (3, 12, 0.9), (4, 13, 0.4))
]


def features(one, other):
    return {1001: one, 1002: other}


TAKEN_T3 = [features(0.3, 0.5), features(0.1, 0.9), features(0.8, 0.2)]
OTHER_T3 = [features(0.6, 0.2), features(0.8, 0.2), features(0.3, 0.3)]
POSSIBLE_T3 = [list(both) for both in zip(TAKEN_T3, OTHER_T3, strict=True)]
T3 = [
    row(
        *(number, reward, TAKEN_T3[k]),
        state_features={k + 1: 1.0},
        possible_actions=POSSIBLE_T3[k],
        metrics=widgets(10.0 * (k + 1)),
    )
    for k, number, reward in ((0, 1, 1.0), (1, 11, 0.2), (2, 12, 0.9))
]
MARKER_T4 = row(11, 0.2, {}, state_features={2: 1.0}, possible_actions=[])
T4 = [T3[0], MARKER_T4]
T15 = [
    row(0, 1.0, "a", metrics={"m": 10.0}),
    row(2, 2.0, "b", metrics={"m": 20.0}),
    row(5, 4.0, "a", metrics={"m": 40.0}),
]


def test_an_end_marker_gives_the_next_row_and_is_no_sample(tmp_path):  # T1, T11
    summary, (sample,) = logged.build(T1, tmp_path, last_row="drop")
    assert sample == {
        "mdp_id": "mdp1",
        "mdp_key": 746996893146706110,
        "split": "train",
        "state_features": {1: 1.0},
        "action": "action1",
        "action_probability": 0.8,
        "reward": 1.0,
        "metrics": {"Widgets": 10.0},
        "next_state_features": {2: 1.0},
        "next_action": "action2",  # beside an empty list, the row is still a marker
        "sequence_number": 1,
        "sequence_number_ordinal": 1,
        "time_diff": 10,
        "time_since_first": 0,
        "step": 1,
        "not_terminal": False,
        "discount": 0.5,
        "possible_actions": ["action1", "action2"],
        "possible_next_actions": [],
    }
    assert (summary.read, summary.samples, summary.episodes) == (2, 1, 1)
    assert summary.terminals == summary.dropped["end markers"] == 1


def test_sums_of_three_rewards_end_at_the_last_row(tmp_path):  # T2
    _, found = logged.build(T2, tmp_path, last_row="drop", n_step=3)
    assert column(found, "reward") == pytest.approx([1 + 0.1 + 0.225, 0.2 + 0.45, 0.9])
    assert column(found, "time_diff") == [12, 2, 1]
    assert column(found, "time_since_first") == [0, 10, 11]
    assert column(found, "next_action") == ["4"] * 3
    assert column(found, "next_state_features") == [{4: 1.0}] * 3
    assert column(found, "possible_next_actions") == [POSSIBLE_T2[3]] * 3
    assert column(found, "metrics") == [*map(widgets, (27.5, 35.0, 30.0))]
    assert column(found, "step") == [3, 2, 1]


def test_parametric_sums_have_the_features_of_the_last_action(tmp_path):  # T3
    _, found = logged.build(T3, tmp_path, "parametric", last_row="drop", n_step=2)
    assert column(found, "reward") == pytest.approx([1 + 0.1, 0.2])
    assert column(found, "time_diff") == [11, 1]
    assert column(found, "next_action") == [TAKEN_T3[2]] * 2
    assert column(found, "possible_next_actions") == [POSSIBLE_T3[2]] * 2
    assert column(found, "metrics") == [widgets(20.0), widgets(20.0)]


def test_an_empty_parametric_action_is_a_marker(tmp_path):  # T4
    _, (sample,) = logged.build(T4, tmp_path, "parametric", last_row="drop")
    assert sample["next_action"] == {}
    assert sample["possible_next_actions"] == []
    assert sample["time_diff"] == 10
    assert not sample["not_terminal"]


@pytest.mark.parametrize(
    "query, passes",
    [
        ("SELECT count(*) = 0 FROM {input} WHERE reward > 1", True),  # T5
        ("SELECT count(*) = 0 FROM {input} WHERE reward <= 1", False),  # T6
        ("SELECT count(*) = 1 FROM {output}", True),  # T7
        ("SELECT count(*) = 0 FROM {output}", False),  # T8
        ("SELECT count(*) = 1 FROM {config.outputTableName}", True),
        ("SELECT count(*) = 2 FROM {config.inputTableName}", True),
        ("SELECT true, NULL", False),
        ("SELECT 1", False),
        ("SELECT true WHERE false", False),
        ("SELECT true UNION ALL SELECT true", False),
        ("SELECT nothing FROM {output}", False),
    ],
)
def test_the_validation_query_decides_on_publishing(tmp_path, query, passes):
    def run():
        settings = {"last_row": "drop", "validation_sql": query}
        return logged.build(T4, tmp_path, "parametric", **settings)

    if passes:
        assert len(run()[1]) == 1
    else:
        with pytest.raises(UserError, match=r"validation_sql .*othing is published"):
            run()
        assert not list(tmp_path.glob("*ds=*"))


def test_outlier_episodes_are_dropped(tmp_path):  # T12
    lengths = [2] * 95 + [100] * 5
    found = [
        row(k, 0.0, "a", f"mdp{number}")
        for number, length in enumerate(lengths)
        for k in range(length)
    ]
    # The exact percentile is 2 + 0.05 (100 - 2) = 6.9.
    summary, samples = logged.build(
        found, tmp_path, last_row="drop", max_length_percentile=0.95
    )
    assert len(samples) == 95
    assert summary.dropped["of episodes that are too long"] == 500
    assert not [x for x in summary.notices if "percentile" in x]


def test_a_percentile_that_would_remove_another_share_is_not_applied(tmp_path):  # T13
    found = [row(k, 0.0, "a", mdp) for mdp in "xyz" for k in range(1, 11)]
    summary, samples = logged.build(
        *(found, tmp_path),
        last_row="horizon_keep",
        max_length_percentile=0.95,
        time_window_limit=3,
    )
    assert [x for x in summary.notices if "max_length_percentile is not applied" in x]
    assert len(samples) == 12
    for sample in samples:
        assert sample["time_since_first"] == sample["sequence_number"] - 1 <= 3
    assert summary.dropped["after time_window_limit"] == 18


def test_sums_of_rewards_end_at_a_terminal_state(tmp_path):  # T15
    _, found = logged.build(T15, tmp_path, n_step=2)
    assert column(found, "reward") == [2.0, 4.0, 4.0]
    assert column(found, "metrics") == [{"m": 20.0}, {"m": 40.0}, {"m": 40.0}]
    assert column(found, "step") == [2, 2, 1]
    assert column(found, "time_diff") == [5, 3, 0]
    assert column(found, "not_terminal") == [True, False, False]
    assert column(found, "next_action") == ["a", "", ""]
    assert column(found, "next_state_features") == [{1: 5.0}, {}, {}]
    assert column(found, "possible_next_actions") == [["a", "b"], [], []]


def test_gamma_may_count_time(tmp_path):  # T16
    _, found = logged.build(T15, tmp_path, n_step=2, discount="time")
    assert column(found, "reward") == [1.5, 2.5, 4.0]
    assert found[0]["discount"] == 0.03125


def test_a_dropped_last_row_leaks_no_reward(tmp_path):  # T17
    summary, found = logged.build(T15, tmp_path, n_step=2, last_row="drop")
    assert column(found, "reward") == [2.0, 2.0]
    assert column(found, "step") == [2, 1]
    assert column(found, "time_diff") == [5, 3]
    assert column(found, "discount") == [0.25, 0.5]
    assert column(found, "not_terminal") == [True, True]
    assert summary.dropped["last rows without a next row"] == 1
    assert any("no episode has a terminal state" in x for x in summary.notices)


# ---- T18


def test_a_duplicate_is_an_error_with_its_places(tmp_path):
    found = [row(0, 1.0, "a"), row(1, 2.0, "a"), row(1, 3.0, "b")]
    text = r"2 rows have the .* of another row: (<list>, row 2|/\S+) \(mdp_id mdp1"
    with pytest.raises(UserError, match=text):
        logged.build(found, tmp_path)
    assert not list(tmp_path.glob("ds=*"))


@pytest.mark.parametrize("which, day", [("first", 1.0), ("last", 3.0)])
def test_the_first_or_last_duplicate_by_ds_is_kept(tmp_path, which, day):
    found = [
        row(k, float(day), "a", ds=f"2018-01-0{day}")
        for k in range(8)
        for day in (2, 3, 1)
    ]
    summary, samples = logged.build(found, tmp_path, on_duplicate=which)
    assert column(samples, "reward") == [day] * 8
    assert summary.dropped["duplicates"] == 16


@pytest.mark.parametrize("mode", ["discrete", "parametric"])
def test_duplicates_of_one_day_are_ordered_by_their_content(tmp_path, mode):
    if mode == "discrete":
        found = [row(0, float(k), "a") for k in range(5)]
    else:
        found = [
            T3[0] | {"reward": 1.0, "possible_actions": [TAKEN_T3[0], {1001: float(k)}]}
            for k in range(5)
        ]
    kept = set()
    for number, rows in enumerate((found, found[::-1])):
        folder = tmp_path / f"{number}"
        _, (sample,) = logged.build(rows, folder, mode, on_duplicate="first")
        kept.add(str((sample["reward"], sample["possible_actions"])))
    assert len(kept) == 1


def test_a_missing_metric_keeps_its_position(tmp_path):
    found = [dict(each) for each in T2]
    found[1]["metrics"] = None
    _, sums = logged.build(found, tmp_path, last_row="drop", n_step=3)
    assert sums[0]["metrics"] == widgets(10 + 0.25 * 30)


def test_an_episode_is_joined_across_days_into_the_last_partition(tmp_path):
    found = [row(k, float(k), "a", ds=f"2018-01-0{k}") for k in (1, 2, 3, 4)]
    summary, samples = logged.build(
        found, tmp_path, start_ds="2018-01-02", end_ds="2018-01-03", last_row="drop"
    )
    assert [summary.folder] == [*tmp_path.glob("ds=*")] == [tmp_path / "ds=2018-01-03"]
    assert column(samples, "reward") == [2.0]
    assert column(samples, "next_state_features") == [{1: 3.0}]
    assert column(samples, "sequence_number_ordinal") == [1]


@pytest.mark.parametrize(
    ("end_ds", "share"), [(None, 0.5), ("2018-01-03", 0.5), (None, 0.3)]
)
def test_evaluations_have_no_episode_that_began_before_the_first_day(
    tmp_path, end_ds, share
):
    """An episode has the rewards 1, 10 and 100; some began a day before start_ds."""
    days = {"whole": ("02", "02", "03"), "part": ("01", "02", "03")}
    found = [
        row(k + 1, 10.0**k, "a", mdp_id=f"{name}{i}", ds=f"2018-01-{day}")
        for name, each in days.items()
        for i in range(20)
        for k, day in enumerate(each)
    ]
    settings = {"start_ds": "2018-01-02", "end_ds": end_ds}
    settings |= {"train_share": share, "eval_share": share}
    summary, samples = logged.build(found, tmp_path, **settings)
    kept = {x["mdp_id"] for x in samples if x["split"] == "eval"}
    trained = {x["mdp_id"] for x in samples if x["split"] == "train"}
    assert kept and not [x for x in kept if x.startswith("part")]
    assert [x for x in trained if x.startswith("part")]
    rows = summary.dropped["of episodes for evaluation that began before start_ds"]
    left = rows // 2
    assert left > 0
    neither = summary.dropped["of episodes in neither share"]
    assert (neither > 0) == (share < 0.5)
    assert summary.read == summary.samples + rows + neither
    (notice,) = (x for x in summary.notices if "start_ds" in x)
    assert f"2018-01-02: {left}; they are left out" in notice


@pytest.mark.parametrize(
    ("whole", "part", "told"), [(0, 1, True), (1, 37, True), (1, 1, False)]
)
def test_episodes_whose_first_rows_are_not_in_the_log_are_told(
    tmp_path, whole, part, told
):
    """Old days may be deleted, or not in the input."""
    first = {f"whole{i}": whole for i in range(30)} | {
        f"part{i}": part for i in range(10)
    }
    found = [
        row(start + k, 1.0, "a", mdp_id=name)
        for name, start in first.items()
        for k in range(3)
    ]
    shares = {"train_share": 0.0, "eval_share": 1.0}
    summary, _ = logged.build(found, tmp_path, **shares)
    text = "episodes for evaluation that do not begin with sequence_number"
    expected = [f"{text} {whole}, as others do: 10;"] if told else []
    notices = [x for x in summary.notices if "sequence_number" in x]
    assert [x[: len(y)] for x, y in zip(notices, expected, strict=True)] == expected


def test_episodes_that_begin_with_any_number_are_not_told(tmp_path):
    found = [
        row(1000 * i + k, 1.0, "a", mdp_id=f"u{i}") for i in range(30) for k in range(3)
    ]
    summary, _ = logged.build(found, tmp_path, train_share=0.0, eval_share=1.0)
    assert not [x for x in summary.notices if "sequence_number" in x]


def test_an_unknown_action_is_an_error_not_a_terminal_state(tmp_path):
    schema = Schema("discrete", ("a", "c"))
    with pytest.raises(UserError, match="1 row has an action that is none of a, c"):
        logged.build(T15, tmp_path, schema=schema)


@pytest.mark.parametrize("name", ["possible_actions", "final_possible_actions"])
@pytest.mark.parametrize("other", ["sned", None])
def test_an_unknown_action_of_a_list_is_an_error(tmp_path, name, other):
    """It would leave the list, or become an action of its own."""
    end = {"truncated": True, "final_state_features": {1: 2.0}}
    rows = with_last(T15, **end | {name: ["a", "b", other]})
    text = "1 row has a name in possible_actions or final_possible_actions that is none"
    with pytest.raises(UserError, match=text):
        logged.build(rows, tmp_path, schema=Schema("discrete", ("a", "b"), (1,)))
    rows = with_last(T15, **end | {name: ["b", "a"]})
    logged.build(rows, tmp_path, schema=Schema("discrete", ("a", "b"), (1,)))


# ---- Q1: Horizon's test of a query of dense batches

Q1 = [
    row(
        *(number, float(number), "LRUD"[k]),
        action_probability=0.3 + 0.1 * k,
        possible_actions=list(possible),
        metrics={"m": 10.0 * number},
    )
    for k, (number, possible) in enumerate([(0, "LR"), (1, "RU"), (4, "UD"), (5, "D")])
]
Q1 += [row(6, 0.0, "", state_features={6: 1.0}, possible_actions=[])]
NAMES = Schema("discrete", ("L", "R", "U", "D"), metrics=("m",))


def number_of(sample):
    return "LRUD".find(sample["next_action"]) if sample["next_action"] else 4


def masks(samples, name):
    return ["".join(str(int(x in sample[name])) for x in "LRUD") for sample in samples]


def test_a_single_step_gives_the_batch_of_horizon(tmp_path):
    _, found = logged.build(Q1, tmp_path, schema=NAMES)
    assert column(found, "reward") == [0, 1, 4, 5]
    assert [*map(number_of, found)] == [1, 2, 3, 4]
    assert column(found, "time_diff") == [1, 3, 1, 1]
    assert column(found, "not_terminal") == [True, True, True, False]
    assert masks(found, "possible_actions") == ["1100", "0110", "0011", "0001"]
    assert masks(found, "possible_next_actions") == ["0110", "0011", "0001", "0000"]
    assert found[-1]["next_state_features"] == {6: 1.0}


def test_a_custom_reward_is_computed_before_the_sum(tmp_path):
    settings = {"schema": NAMES, "custom_reward": "POWER(reward, 3) + 10"}
    _, found = logged.build(Q1, tmp_path / "1", **settings)
    assert column(found, "reward") == [10, 11, 74, 135]
    _, found = logged.build(Q1, tmp_path / "2", n_step=2, **settings)
    assert column(found, "reward") == [10 + 0.5 * 11, 11 + 37, 74 + 67.5, 135]


def test_two_steps_give_the_batch_of_horizon_with_sums_of_metrics(tmp_path):
    _, found = logged.build(Q1, tmp_path, schema=NAMES, n_step=2, gamma=0.9)
    expected = [0.9, 4.6, 8.5, 5]
    assert column(found, "reward") == pytest.approx(expected, abs=1e-12)
    sums = [sample["metrics"]["m"] for sample in found]
    assert sums == pytest.approx([10 * x for x in expected], abs=1e-12)
    assert [*map(number_of, found)] == [2, 3, 4, 4]
    assert column(found, "not_terminal") == [True, True, False, False]
    assert column(found, "step") == [2, 2, 2, 1]
    assert masks(found, "possible_next_actions") == ["0011", "0001", "0000", "0000"]


# ---- how episodes end


def test_flags_that_are_all_false_drop_the_last_row(tmp_path):
    found = with_last(T15, terminated=False, truncated=False)
    summary, samples = logged.build(found, tmp_path)
    assert column(samples, "not_terminal") == [True, True]
    assert summary.dropped["last rows without a next row"] == 1


@pytest.mark.parametrize("final, expected", [(None, ["a", "b"]), (["b"], ["b"])])
def test_the_final_possible_actions_are_the_next_ones(tmp_path, final, expected):
    found = with_last(
        T15,
        truncated=True,
        final_state_features={1: 9.0},
        **{"final_possible_actions": final} if final else {},
    )
    _, samples = logged.build(found, tmp_path)
    assert samples[-1]["possible_next_actions"] == expected
    assert samples[-1]["next_action"] == ""  # none for SARSA


@pytest.mark.parametrize("last_row", ["terminal", "drop", "horizon_keep"])
def test_episodes_without_a_sign_of_their_end_are_told(tmp_path, last_row):
    found = [row(k, 1.0, "a", name) for name in ("m1", "m2") for k in range(2)]
    summary, _ = logged.build(found, tmp_path / "1", last_row=last_row)
    assert not [x for x in summary.notices if "flag" in x]  # all are alike
    found += [row(0, 1.0, "a", "m3", terminated=True)]
    summary, _ = logged.build(found, tmp_path / "2", last_row=last_row)
    told = [x for x in summary.notices if "end marker, unlike others: 2;" in x]
    assert len(told) == (last_row == "terminal")


def test_an_episode_that_goes_on_after_the_last_partition_is_open(tmp_path):
    found = [
        row(0, 1.0, "a", "m1"),
        row(1, 2.0, "a", "m1", "2018-01-02"),
        row(0, 1.0, "a", "m2"),
        row(0, 1.0, "a", "m3", final_state_features={1: 7.0}),
        row(1, 1.0, "a", "m3", "2018-01-02"),
    ]
    summary, samples = logged.build(found, tmp_path / "1", end_ds=DS)
    assert column(samples, "mdp_id") == ["m2", "m3"]
    assert column(samples, "not_terminal") == [False, True]
    assert summary.dropped["last rows without a next row"] == 1
    (told,) = [x for x in summary.notices if "after end_ds" in x]
    assert told.startswith("episodes that go on after end_ds 2018-01-01: 1;")
    settings = {"end_ds": DS, "last_row": "horizon_keep"}
    _, samples = logged.build(found[:3], tmp_path / "2", **settings)
    assert column(samples, "mdp_id") == ["m1", "m2"]
    _, samples = logged.build(found[:3], tmp_path / "3")
    assert column(samples, "mdp_id") == ["m1", "m1", "m2"]


def test_a_terminated_flag_is_terminal_also_where_last_rows_are_dropped(tmp_path):
    found = with_last(T15, terminated=True, final_state_features={1: 9.0})
    _, samples = logged.build(found, tmp_path, last_row="drop")
    assert column(samples, "not_terminal") == [True, True, False]
    assert samples[-1]["next_state_features"] == {1: 9.0}  # kept for models of it
    assert samples[-1]["possible_next_actions"] == []
    assert samples[-1]["time_diff"] == 0


def test_continuous_actions_have_a_density_and_no_choices(tmp_path):
    found = [row(k, 1.0, {100: 0.1 * k}, action_log_density=-1.0 - k) for k in range(3)]
    _, samples = logged.build(found, tmp_path, "continuous")
    assert column(samples, "action_log_density") == [-1.0, -2.0, -3.0]
    assert column(samples, "next_action") == [{100: 0.1}, {100: 0.2}, {}]
    assert column(samples, "not_terminal") == [True, True, False]
    assert "possible_actions" not in samples[0]


def test_a_parametric_end_without_candidates_does_not_bootstrap(tmp_path):
    found = with_last(T3, truncated=True, final_state_features={9: 1.0})
    summary, _ = logged.build(found, tmp_path / "1", "parametric")
    assert summary.dropped["last rows without a next row"] == 1
    found = with_last(found, final_possible_actions=OTHER_T3[:1])
    _, samples = logged.build(found, tmp_path / "2", "parametric")
    assert samples[-1]["possible_next_actions"] == OTHER_T3[:1]
    assert samples[-1]["not_terminal"]


def test_rows_without_possible_actions_may_take_all(tmp_path):
    _, samples = logged.build(T15, tmp_path)
    assert samples[0]["possible_actions"] == ["a", "b"]


def test_further_columns_have_a_next_value(tmp_path):  # T9, T10
    ids = [{"35": [156, 157], "36": [138]}, {"35": [153, 154], "36": [139]}]
    found = [row(k, 0.0, "a", ids=each) for k, each in enumerate(ids)]
    _, (sample,) = logged.build(found, tmp_path, extra=("ids",), last_row="drop")
    assert [json.loads(sample[name]) for name in ("ids", "next_ids")] == ids


def test_slates_are_further_columns_of_a_kept_timeline(tmp_path):  # T14
    slates = [[0, 1, 2, 3], [3, 1, 2, 0], [3, 2, 1, 0]]
    sequences = [{"7": [{"1": float(k)}]} for k in range(3)]
    given = [
        row(k, 0.0, "slate", state_features={555: k + 1.0}, slate=slate, sequences=each)
        for k, (slate, each) in enumerate(zip(slates, sequences, strict=True))
    ]
    extra = "slate", "sequences"
    _, found = logged.build(given, tmp_path, extra=extra, last_row="horizon_keep")
    states = [{555: 1.0}, {555: 2.0}, {555: 3.0}]
    assert column(found, "state_features") == states
    assert column(found, "next_state_features") == [*states[1:], {}]
    for name, values in (("slate", slates), ("sequences", sequences)):
        for start, wanted in (("", values), ("next_", [*values[1:], None])):
            assert [
                json.loads(x) if isinstance(x, str) else x
                for x in column(found, start + name)
            ] == wanted
    assert column(found, "not_terminal") == [True, True, False]


# ---- rewards, splits, order


def test_weights_of_metrics_replace_the_reward(tmp_path):
    _, found = logged.build(T15, tmp_path, n_step=2, metric_weights={"m": 0.1})
    assert column(found, "reward") == [2.0, 4.0, 4.0]
    with pytest.raises(UserError, match="metric_weights has the unknown metric 'clik'"):
        logged.build(T15, tmp_path, metric_weights={"m": 1, "clik": 1})


def test_a_custom_reward_that_is_null_is_zero(tmp_path):
    _, found = logged.build(T15, tmp_path, custom_reward="nullif(reward, 2)")
    assert column(found, "reward") == [1, 0, 4]


def test_a_custom_reward_with_an_unknown_column_is_refused(tmp_path):
    with pytest.raises(UserError, match="custom_reward 'clicks' cannot be computed"):
        logged.build(T15, tmp_path, custom_reward="clicks")


@pytest.mark.parametrize(
    "name, key, share",
    [
        ("mdp1", 746996893146706110, 0.6479165235),
        ("mdp2", 164849507201643039, 0.1429841551),
        ("u7", 485509554071870887, 0.4211124106),
        ("0", None, 0.8117237400),
        ("10", None, 0.8275339846),
    ],
)
def test_an_episode_is_split_by_a_hash_of_its_name(tmp_path, name, key, share):
    _, (sample,) = logged.build([row(0, 1.0, "a", name)], tmp_path)
    if key is not None:
        assert sample["mdp_key"] == key
    assert sample["mdp_key"] / 2**60 == pytest.approx(share, abs=5e-11)
    assert sample["split"] == ("train" if share < 0.8 else "eval")


def test_the_salt_changes_the_split(tmp_path):
    _, (sample,) = logged.build([row(0, 1.0, "a", "u7")], tmp_path, salt="x")
    digest = hashlib.md5(b"xu7").hexdigest()
    assert sample["mdp_key"] == int(digest[:15], 16)


def test_splits_are_disjoint_and_have_their_shares(tmp_path):
    found = [row(0, 1.0, "a", f"mdp{number}") for number in range(1000)]
    settings = {"train_share": 0.5, "eval_share": 0.25}
    summary, samples = logged.build(found, tmp_path, **settings)
    splits = column(samples, "split")
    assert 450 < splits.count("train") < 550
    assert 200 < splits.count("eval") < 300
    dropped = summary.dropped["of episodes in neither share"]
    assert dropped == 1000 - len(samples) > 200


def test_samples_are_shuffled_the_same_each_time(tmp_path):
    from pyarrow import parquet

    found = [row(k, 0.0, "a", f"mdp{m}") for m in range(20) for k in range(20)]
    orders = []
    for name in "12":
        summary, _ = logged.build(found, tmp_path / name)
        keys = ["mdp_id", "sequence_number"]
        parts = sorted(summary.folder.glob("part-*.parquet"))
        tables = [parquet.read_table(x, columns=keys, partitioning=None) for x in parts]
        orders.append([row for table in tables for row in table.to_pylist()])
    assert orders[0] == orders[1] and len(orders[0]) == len(found)
    changes = sum(
        one["mdp_id"] != next["mdp_id"] for one, next in itertools.pairwise(orders[0])
    )
    assert changes > 200  # 19 where nothing is shuffled


# ---- bad rows


@pytest.mark.parametrize(
    "changes, text",
    [
        ({1: {"reward": math.nan}}, "1 row has a reward that is missing or not finite"),
        ({0: {"reward": None}, 1: {"reward": None}}, "2 rows have a reward"),
        ({1: {"sequence_number": None}}, "1 row has no mdp_id or no sequence_number"),
        ({1: {"mdp_id": None}}, r"no mdp_id or no sequence_number: (<list>, row 2|/)"),
        ({1: {"terminated": True}}, "1 row has an end marker, terminated or truncated"),
        ({0: {"truncated": True}}, "only its last row may end an episode"),
        ({1: {"final_state_features": {1: 2.0}}}, "1 row has an end marker, .*state"),
        ({1: {"final_possible_actions": ["a"]}}, "1 row has an end marker, .*final"),
        ({2: {"sequence_number": 2**63 - 1}}, "1 row has a sequence_number beyond"),
        ({1: {"action": "", "possible_actions": []}}, "before the last row"),
    ],
)
def test_rows_without_a_meaning_are_refused(tmp_path, changes, text):
    found = [each | changes.get(k, {}) for k, each in enumerate(T15)]
    schema = Schema("discrete", ("a", "b"), (1,), (), ("m",))
    with pytest.raises(UserError, match=text):
        logged.build(found, tmp_path, schema=schema)
    assert not list(tmp_path.glob("*ds=*"))


def test_an_empty_table_is_refused(tmp_path):
    with pytest.raises(UserError, match="there are no rows"):
        logged.build([], tmp_path)


def test_a_window_without_rows_names_what_there_is(tmp_path):
    text = "no row has a ds from 2020 to 2021; the rows have 2018-01-01 to 2018-01-01"
    with pytest.raises(UserError, match=text):
        logged.build(T15, tmp_path, start_ds="2020", end_ds="2021")


def test_a_timeline_without_samples_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"no sample is left:\n.*\n.*out a next row"):
        logged.build(T15[:1], tmp_path, last_row="drop")


def test_rows_and_schema_of_two_modes_are_refused(tmp_path):
    with pytest.raises(UserError, match="the rows are discrete and the schema is cont"):
        logged.build(T15, tmp_path, schema=Schema("continuous"))


@pytest.mark.parametrize("empty", [{}, None])
def test_an_empty_final_state_is_none(tmp_path, empty):
    rows = with_last(T15, truncated=True, final_state_features=empty)
    rows = [{"final_state_features": {}} | each for each in rows]
    summary, samples = logged.build(rows, tmp_path)
    assert summary.dropped["last rows without a next row"] == 1
    assert column(samples, "sequence_number") == [0, 2]
