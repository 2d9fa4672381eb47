import pytest

from benchmarks import duel, session
from benchmarks.contenders import Contender
from benchmarks.process import Failure
from benchmarks.rows import Row
from benchmarks.stepping import Stepping

ROW = Row("two", Stepping("CartPole-v1", 2), "mine", ("slow", "fast"), {"Peer": 2.0})
CONTENDERS = {
    "slow": Contender("Peer", "Kind", "slow"),
    "fast": Contender("Peer", "Kind", "fast"),
}


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
    """Play with canned answers; what was run, and what came out."""
    ran = []

    def run(name):
        ran.append(name)
        answer = answers[name]
        return answer.pop(0) if isinstance(answer, list) else answer

    return ran, duel.play(ROW, pairs, run, lambda text: None)


def test_contenders_alternate():
    answers = {name: result(1) for name in ("mine", "slow", "fast")}
    ran, _ = play(answers, 3)
    assert ran[:6] == ["mine", "slow", "fast", "fast", "slow", "mine"]
    assert ran[6:] == ran[:3]


def test_a_line_has_the_median_of_the_pairs_and_both_figures():
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
    assert line["subject_phases"] == {"import": 1.0, "steady": 2.0}
    assert line["config"]["num_envs"] == 2
    assert line["pairs"] == 3


def test_other_work_is_refused_and_the_difference_named():
    answers = {"mine": result(1), "slow": result(1, wrappers=[]), "fast": result(1)}
    with pytest.raises(duel.DifferentWork, match=r"slow.*wrappers is \[\], not None"):
        play(answers)


def test_a_rival_that_fails_sits_out_and_is_recorded():
    failure = Failure("slow", "ended with status 1", "why")
    answers = {"mine": result(2), "slow": [result(1), failure], "fast": result(1)}
    ran, played = play(answers, 3)
    assert ran.count("slow") == 2
    slow, fast = duel.lines("two", ROW, played, CONTENDERS)
    assert slow["failed"] == failure._asdict()
    assert fast["pairs"] == 3


def test_nothing_runs_against_a_subject_that_failed():
    failure = Failure("mine", "did not end within 3 s", "")
    ran, played = play({"mine": failure})
    assert ran == ["mine"]
    for line in duel.lines("two", ROW, played, CONTENDERS):
        assert line["failed"]["contender"] == "mine"


def test_work_is_repeated_for_a_time_or_a_number_of_blocks():
    assert session.repeat(lambda: 3, 0.0, 4).count == 12
    measured = session.repeat(lambda: 1, 1e-3)
    assert measured.count > 0
    assert measured.rate == pytest.approx(measured.count / measured.seconds)
