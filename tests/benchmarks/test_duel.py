"""Rounds of a row, the comparison of works, and the recorded lines."""

import pytest

from benchmarks.contenders import Contender
from benchmarks.measure import duel
from benchmarks.measure.process import Failure
from benchmarks.measure.rows import Row
from benchmarks.work.works import Stepping

ROW = Row("two", Stepping("CartPole-v1", 2), "ours", {"Peer": 2.0}, ("slow", "fast"))
FAILURE = Failure("", "ended with status 1", "why")


@pytest.fixture(autouse=True)
def contenders(monkeypatch):
    for name, peer in (("ours", "Ours"), ("slow", "Peer"), ("fast", "Peer")):
        contender = Contender(peer, "Kind", name)
        monkeypatch.setitem(duel.CONTENDERS, name, contender)


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
    answers = {name: result(1) for name in ("ours", "slow", "fast")}
    ran, _ = play(answers, 3)
    names = ["ours", "slow", "fast", "fast", "slow", "ours", "ours", "slow", "fast"]
    assert ran == list(zip(names, [1] * 3 + [2] * 3 + [3] * 3, strict=True))


def test_a_line_has_the_median_ratio_and_both_figures():
    ours, tens = [result(x) for x in (20, 40, 90)], [result(10) for _ in range(3)]
    _, played = play({"ours": ours, "slow": tens, "fast": result(10)}, 3)
    line, _ = duel.lines("two", ROW, played)
    assert line["ratio"]["median"] == 4
    assert (line["subject_value"], line["rival_value"]) == (40, 10)
    assert line["subject_values"] == [20, 40, 90]
    assert (line["peer"], line["setting"], line["goal"]) == ("Peer", "slow", 2.0)
    assert line["pairs"] == 3


def test_different_work_is_refused_unless_it_is_declared():
    ours, slow = result(1, steps=9, rows=2), result(1, steps=8, rows=1)
    slow["differs"] = {"steps": "it takes fewer"}
    with pytest.raises(duel.DifferentWork, match="slow did other work: rows is 1"):
        play({"ours": ours, "slow": slow, "fast": ours})
    slow["same"]["rows"] = 2
    _, played = play({"ours": ours, "slow": slow, "fast": ours})
    line, other = duel.lines("two", ROW, played)
    assert line["differs"] == {"slow": {"steps": {"is": 8, "why": "it takes fewer"}}}
    assert other["differs"] == {}


def test_a_contender_that_fails_is_recorded_and_not_run_again():
    answers = {"ours": result(2), "slow": [result(1), FAILURE], "fast": result(1)}
    ran, played = play(answers, 3)
    assert [name for name, _ in ran].count("slow") == 2
    slow, fast = duel.lines("two", ROW, played)
    assert slow["failed"] == FAILURE._asdict()
    assert fast["pairs"] == 3
    ran, played = play({"ours": FAILURE})  # then nothing runs
    assert ran == [("ours", 1)]
    failed = [line["failed"]["reason"] for line in duel.lines("two", ROW, played)]
    assert failed == [FAILURE.reason] * 2


@pytest.mark.parametrize(
    ("ours", "theirs", "parity"),
    [
        ([10.0, 12.0, 11.0], [11.0, 13.0, 12.0], True),
        ([10.0, 12.0, 11.0], [31.0, 33.0, 32.0], False),
        ([1.0], [1.0], None),  # one round has no interval
        ([1.0, 2.0], [None, 2.0], None),  # a run without episodes
    ],
)
def test_returns_are_at_parity_if_their_intervals_overlap(ours, theirs, parity):
    ran = [[{"returns": value} for value in values] for values in (ours, theirs)]
    fields = duel.parity(*ran)
    assert fields["parity"] is parity
    assert fields["subject_returns"] == ours
    only_recorded = duel.parity(*ran, compare=False)
    assert only_recorded["parity"] is None and "subject_return" not in only_recorded
    assert duel.parity([result(1)], [result(1)]) == {}  # without training
