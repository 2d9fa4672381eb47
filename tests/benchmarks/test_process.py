import contextlib

import psutil
import pytest

from benchmarks.measure import process
from tests.benchmarks.contenders.talks import Work


def run(end, deadline=60.0):
    return process.run("tests.benchmarks.contenders.talks", Work(end), deadline)


def test_other_output_of_a_contender_does_not_change_its_result():
    assert run("") == {"value": 3}


def test_a_missing_interpreter_is_named_with_its_flag(monkeypatch):
    monkeypatch.setitem(process.FOLDERS, "batch_ppo", "missing")
    failure = process.run_contender("ppo_batch_ppo", Work(), 1.0)
    assert "has no interpreter batch_ppo; see --pythons" in str(failure)
    assert "benchmarks.make_environments" in str(failure)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("fails", "ended with status 3"),
        ("mumbles", "did not print one line of JSON"),
        ("hangs", "did not end within 2 s"),
    ],
)
def test_a_contender_without_a_result_is_ended_and_reported(end, reason):
    failure = run(end, deadline=2.0 if end == "hangs" else 60.0)
    assert failure.reason == reason
    assert "the last words" in failure.stderr
    if end == "hangs":
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(int(failure.stderr.split()[-1])).wait(timeout=20)
