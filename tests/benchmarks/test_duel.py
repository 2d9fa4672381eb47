import pytest

from benchmarks import duel
from benchmarks.contenders import Contender
from benchmarks.inside import session
from benchmarks.process import Failure
from benchmarks.rows import Row
from benchmarks.stepping import Stepping

ROW = Row("two", Stepping("CartPole-v1", 2), "mine", ("slow", "fast"), {"Peer": 2.0})
CONTENDERS = {
    "mine": Contender("Ours", "Kind"),
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

    def run(name, number):
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


def test_rounds_are_numbered_for_their_seeds():
    numbers = []

    def run(name, number):
        numbers.append(number)
        return result(1)

    duel.play(ROW, 2, run, lambda text: None)
    assert numbers == [1, 1, 1, 2, 2, 2]


def test_what_a_contender_declares_may_differ_and_is_told():
    slow = result(1, steps=8) | {"differs": {"steps": "it takes fewer"}}
    answers = {"mine": result(1, steps=9), "slow": slow, "fast": result(1, steps=9)}
    _, played = play(answers)
    line, other = duel.lines("two", ROW, played, CONTENDERS)
    assert line["differs"] == {"slow": {"steps": {"is": 8, "why": "it takes fewer"}}}
    assert other["differs"] == {}


def test_what_a_contender_does_not_declare_may_not_differ():
    slow = result(1, steps=8, rows=1) | {"differs": {"steps": "it takes fewer"}}
    mine = result(1, steps=9, rows=2)
    with pytest.raises(duel.DifferentWork, match="slow did other work: rows is 1"):
        play({"mine": mine, "slow": slow, "fast": mine})


def probe(values, row=ROW, contenders=CONTENDERS):
    ran = []

    def run(name):
        ran.append(name)
        value = values[name]
        if isinstance(value, list):
            value = value.pop(0)
        return value if isinstance(value, Failure) else result(value)

    return ran, duel.probe(row, run, contenders, lambda text: None)


def test_of_a_peers_settings_the_fastest_plays():
    ran, probed = probe({"slow": 1, "fast": 2})
    # Who has one setting is not looked at; the others are, twice.
    assert ran == ["slow", "fast", "fast", "slow"]
    assert probed.row.rivals == ("fast",)
    assert probed.values == {"slow": 1, "fast": 2}


def test_the_better_of_a_settings_probes_counts():
    _, probed = probe({"slow": [4, 1], "fast": [2, 3]})
    assert probed.values == {"slow": 4, "fast": 3}
    assert probed.row.rivals == ("slow",)


def test_a_setting_that_fails_once_does_not_play():
    failure = Failure("fast", "ended with status 1", "why")
    _, probed = probe({"slow": 1, "fast": [9, failure]})
    assert probed.row.rivals == ("slow",)
    assert probed.values == {"slow": 1}


def test_a_setting_that_fails_its_probe_does_not_play():
    failure = Failure("fast", "ended with status 1", "why")
    _, probed = probe({"slow": 1, "fast": failure})
    assert probed.row.rivals == ("slow",)
    assert probed.failures == {"fast": failure}


def test_a_peer_whose_settings_all_fail_still_plays_and_is_recorded():
    failure = Failure("", "ended with status 1", "why")
    _, probed = probe({"slow": failure, "fast": failure})
    assert probed.row.rivals == ("slow",)


@pytest.mark.parametrize("other, kept", [(9, ("other", "fast")), (1, ("fast",))])
def test_the_subject_plays_and_so_does_its_best_setting(other, kept):
    row = ROW._replace(rivals=("other", *ROW.rivals))
    contenders = {**CONTENDERS, "other": Contender("Ours", "Kind", "other")}
    values = {"mine": 5, "other": other, "slow": 1, "fast": 2}
    _, probed = probe(values, row, contenders)
    assert (probed.row.subject, probed.row.rivals) == ("mine", kept)


def returned(*values):
    return [{"returns": value} for value in values]


def test_returns_are_at_parity_when_their_intervals_overlap():
    found = duel.parity(returned(10.0, 12.0, 11.0), returned(11.0, 13.0, 12.0))
    assert found["parity"] is True
    assert found["subject_returns"] == [10.0, 12.0, 11.0]
    assert found["rival_return"]["mean"] == 12
    far = duel.parity(returned(10.0, 12.0, 11.0), returned(31.0, 33.0, 32.0))
    assert far["parity"] is False


def test_one_round_or_a_run_without_episodes_says_nothing_about_parity():
    assert duel.parity(returned(1.0), returned(1.0))["parity"] is None
    found = duel.parity(returned(1.0, 2.0), returned(None, 2.0))
    assert found["parity"] is None and "rival_return" not in found


def test_returns_that_say_nothing_are_kept_and_not_compared():
    found = duel.parity(returned(1.0, 2.0), returned(1.0, 2.0), compare=False)
    assert found["subject_returns"] == [1.0, 2.0]
    assert found["parity"] is None and "subject_return" not in found


def test_work_that_learns_nothing_has_no_returns():
    assert duel.parity([result(1)], [result(1)]) == {}
