import psutil
import pytest

from benchmarks.measure import process
from tests.benchmarks.contenders.talks import Work


def run(name, deadline=60.0):
    module = f"tests.benchmarks.contenders.{name}"
    return process.run(module, Work(3), deadline)


def test_other_output_of_a_contender_does_not_change_its_result():
    assert run("talks") == {"value": 3}


def test_a_missing_interpreter_is_named_with_its_flag(monkeypatch):
    monkeypatch.setitem(process.FOLDERS, "batch_ppo", "missing")
    failure = process.run_contender("ppo_batch_ppo", Work(), 1.0)
    assert "pass --batch_ppo_python" in str(failure)
    assert "benchmarks.make_environments" in str(failure)


@pytest.mark.parametrize(
    ("name", "reason", "stderr"),
    [
        ("fails", "ended with status 3", "the last words"),
        ("mumbles", "did not print one line of JSON", ""),
        ("missing", "ended with status 1", "No module named"),
    ],
)
def test_a_contender_without_a_result_is_reported_with_its_stderr(name, reason, stderr):
    failure = run(name)
    assert isinstance(failure, process.Failure)
    assert failure.reason == reason
    assert stderr in str(failure)


def test_a_hanging_contender_is_ended_with_all_its_processes():
    before = {each.pid for each in psutil.process_iter()}
    failure = run("hangs", deadline=3.0)
    assert failure.reason == "did not end within 3 s"
    assert "going to sleep" in failure.stderr
    left = [
        each
        for each in psutil.process_iter()
        if each.pid not in before and "time.sleep(3600)" in " ".join(_command(each))
    ]
    _, alive = psutil.wait_procs(left, timeout=20)
    assert not alive


def _command(each):
    try:
        return each.cmdline()
    except psutil.Error:
        return []
