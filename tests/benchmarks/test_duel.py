import pytest

from benchmarks.contenders import Contender
from benchmarks.measure import duel
from benchmarks.measure.process import Failure
from benchmarks.measure.rows import Row
from benchmarks.work.works import Stepping

ROW = Row("two", Stepping("CartPole-v1", 2), "mine", ("slow", "fast"), {"Peer": 2.0})
CONTENDERS = {
    "mine": Contender("Ours", "Kind"),
    "slow": Contender("Peer", "Kind", "slow"),
    "fast": Contender("Peer", "Kind", "fast"),
}
FAILURE = Failure("", "ended with status 1", "why")


def result(value, **same):
    return {
        "value": float(value),
        "unit": "env steps/s",
        "phases": {"import": 1.0, "steady": 2.0},
        "same": {"environment": "CartPole-v1", **same},
        "own": {"workers": 2},
        "versions": {},
    }


def play(answers, pairs=2):
    """Play with given results; return which contender ran in which round, and all."""
    ran = []

    def run(name, number):
        ran.append((name, number))
        answer = answers[name]
        return answer.pop(0) if isinstance(answer, list) else answer

    return ran, duel.play(ROW, pairs, run)


def test_contenders_alternate_in_numbered_rounds():
    answers = {name: result(1) for name in ("mine", "slow", "fast")}
    ran, _ = play(answers, 3)
    names = ["mine", "slow", "fast", "fast", "slow", "mine", "mine", "slow", "fast"]
    assert ran == list(zip(names, [1] * 3 + [2] * 3 + [3] * 3, strict=True))


def test_a_line_has_the_median_ratio_and_both_figures():
    answers = {
        "mine": [result(x) for x in (20, 40, 90)],
        "slow": [result(x) for x in (10, 10, 10)],
        "fast": result(10),
    }
    _, played = play(answers, 3)
    line, _ = duel.lines("two", ROW, played, CONTENDERS)
    assert line["ratio"]["median"] == 4
    assert (line["subject_value"], line["rival_value"]) == (40, 10)
    assert line["subject_values"] == [20, 40, 90]
    assert (line["peer"], line["setting"], line["goal"]) == ("Peer", "slow", 2.0)
    assert line["pairs"] == 3


def test_different_work_is_refused_and_the_difference_is_named():
    slow = result(1, steps=8, rows=1) | {"differs": {"steps": "it takes fewer"}}
    mine = result(1, steps=9, rows=2)
    with pytest.raises(duel.DifferentWork, match="slow did other work: rows is 1"):
        play({"mine": mine, "slow": slow, "fast": mine})


def test_declared_differences_are_allowed_and_recorded():
    slow = result(1, steps=8) | {"differs": {"steps": "it takes fewer"}}
    answers = {"mine": result(1, steps=9), "slow": slow, "fast": result(1, steps=9)}
    _, played = play(answers)
    line, other = duel.lines("two", ROW, played, CONTENDERS)
    assert line["differs"] == {"slow": {"steps": {"is": 8, "why": "it takes fewer"}}}
    assert other["differs"] == {}


def test_a_rival_that_fails_is_recorded_and_not_run_again():
    answers = {"mine": result(2), "slow": [result(1), FAILURE], "fast": result(1)}
    ran, played = play(answers, 3)
    assert [name for name, _ in ran].count("slow") == 2
    slow, fast = duel.lines("two", ROW, played, CONTENDERS)
    assert slow["failed"] == FAILURE._asdict()
    assert fast["pairs"] == 3


def test_nothing_runs_against_a_subject_that_failed():
    ran, played = play({"mine": FAILURE})
    assert ran == [("mine", 1)]
    for line in duel.lines("two", ROW, played, CONTENDERS):
        assert line["failed"] == FAILURE._asdict()


def probe(values, row=ROW, contenders=CONTENDERS):
    ran = []

    def run(name):
        ran.append(name)
        value = values[name]
        if isinstance(value, list):
            value = value.pop(0)
        return value if isinstance(value, Failure) else result(value)

    return ran, duel.probe(row, run, contenders)


@pytest.mark.parametrize(
    ("values", "rival", "probed"),
    [
        ({"slow": [4, 1], "fast": [2, 3]}, "slow", {"slow": 4, "fast": 3}),
        ({"slow": 1, "fast": [9, FAILURE]}, "slow", {"slow": 1}),
        ({"slow": FAILURE, "fast": FAILURE}, "slow", {}),  # it fails again, recorded
    ],
)
def test_the_fastest_setting_of_a_peer_in_the_better_of_two_probes_is_selected(
    values, rival, probed
):
    ran, found = probe(values)
    # A peer with one setting is not probed; the others are, twice if they run.
    assert ran == ["slow", "fast", "fast", "slow"][: len(ran)] and "mine" not in ran
    assert (found.row.rivals, found.values) == ((rival,), probed)


@pytest.mark.parametrize("other, rivals", [(9, ("other", "fast")), (1, ("fast",))])
def test_the_best_setting_of_the_subject_is_selected_too(other, rivals):
    row = ROW._replace(rivals=("other", *ROW.rivals))
    contenders = {**CONTENDERS, "other": Contender("Ours", "Kind", "other")}
    values = {"mine": 5, "other": other, "slow": 1, "fast": 2}
    _, probed = probe(values, row, contenders)
    assert (probed.row.subject, probed.row.rivals) == ("mine", rivals)


@pytest.mark.parametrize(
    ("mine", "theirs", "parity"),
    [
        ([10.0, 12.0, 11.0], [11.0, 13.0, 12.0], True),
        ([10.0, 12.0, 11.0], [31.0, 33.0, 32.0], False),
        ([1.0], [1.0], None),  # one round has no interval
        ([1.0, 2.0], [None, 2.0], None),  # a run without episodes
    ],
)
def test_returns_are_at_parity_if_their_intervals_overlap(mine, theirs, parity):
    ran = [[{"returns": value} for value in values] for values in (mine, theirs)]
    found = duel.parity(*ran)
    assert found["parity"] is parity
    assert found["subject_returns"] == mine
    only_recorded = duel.parity(*ran, compare=False)
    assert only_recorded["parity"] is None and "subject_return" not in only_recorded


def test_work_without_training_has_no_returns():
    assert duel.parity([result(1)], [result(1)]) == {}
