"""Rows that need a GPU: their choice, their table, and a dry run on the CPU."""

import fcntl
import subprocess
import sys

import pytest

from benchmarks import gpu
from benchmarks.inside import session
from benchmarks.measure import process, results, tables
from benchmarks.measure.gpu_rows import ROWS, Row, Run
from benchmarks.measure.process import Failure
from benchmarks.work.works import Stepping
from tests.benchmarks.contenders.talks import Work
from tfagents_batch.errors import UserError

WORK = Stepping("CartPole-v1", 2, block=4, seconds=0.0, blocks=1)


def table(name, *measured):
    context = {"date": "2026-01-01", "commit": "abc", "tensorflow": "2.21.0"}
    host = {"gpu": "a GPU", "cpu": "a CPU", "cores": 16, "load": 0.1}
    lines = gpu.row_lines(name, ROWS[name], list(measured))
    return tables.gpu([{**context, "machine": host, **line} for line in lines])


def ran(value, device="gpu"):
    phases = {"construction": 1.0, "warm_up": 24.5}
    own = {"device": device}
    return {"value": value, "phases": phases, "own": own, "same": {}, "versions": {}}


def test_the_table_compares_figures_and_names_what_is_missing():
    text = table("cartpole-4096", ran(1e7), ran(2e7))
    assert "| 10,000,000 env steps/s | 0.5 times JAX loop | 25.5 |" in text
    assert "| JAX loop | 20,000,000 env steps/s |  | 25.5 |" in text
    assert "a GPU, TensorFlow 2.21.0; 16 cores of a CPU, load 0.1, commit abc" in text
    text = table("step", ran(1e6 / 100, "cpu"), ran(1e6 / 138))
    assert "| GPU's program | 138 µs | +38.0 µs to CPU's program |" in text
    text = table("cartpole-64", ran(1e6), "jax is not installed")
    assert "| 1,000,000 env steps/s |  | 25.5 |" in text
    assert "| JAX loop | skipped: jax is not installed |  |  |" in text
    text = table("cartpole-64", ran(1e6), ran(1e5, "cpu"))
    assert "| JAX loop | skipped: it sees no GPU |" in text
    text = table("step", ran(1e4, "cpu"), ran(1e4, "cpu"))
    assert "| GPU's program | failed: used the cpu |" in text
    failure = Failure("off_policy_ours", "did not end within 45 s", "")
    text = table("sac", failure, ran(900.0))
    assert "| two programs | failed: did not end within 45 s |  |  |" in text
    assert "| 900 updates/s |  | 25.5 |" in text


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(gpu.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(process, "python_of", lambda name: sys.executable)
    row = ROWS["pong"]
    assert gpu.missing(row, row.runs[0]) == "ale_py is not installed"
    row = ROWS["cartpole-64"]
    assert [gpu.missing(row, x) for x in row.runs] == ["", "jax is not installed"]


def test_all_rows_end_within_seven_minutes():
    assert sum(row.seconds for row in ROWS.values()) <= 7 * 60


@pytest.fixture
def measured(monkeypatch):
    """Return the rows that the command measured, on a made-up GPU."""
    names = []

    def measure(row, flags):
        names.append(row.title)
        return [ran(1.0, run.options.get("device", "gpu")) for run in row.runs]

    monkeypatch.setattr(gpu, "gpu", lambda: "a GPU")
    monkeypatch.setattr(gpu, "measure", measure)
    return names


def test_the_chosen_rows_are_measured_and_recorded(measured, tmp_path):
    command = gpu.Command(rows=("step", "cart*64"), folder=str(tmp_path))
    assert gpu.main(command) == 0
    assert measured == [ROWS["cartpole-64"].title, ROWS["step"].title]
    lines = results.read(tmp_path / "gpu.jsonl")
    assert [line["row"] for line in lines] == ["cartpole-64"] * 2 + ["step"] * 2
    assert all(line["machine"]["gpu"] == "a GPU" for line in lines)
    with pytest.raises(UserError, match="unknown row 'pongs'"):
        gpu.main(gpu.Command(rows=("pongs",)))


def test_a_failed_row_is_the_exit_status(measured, monkeypatch, tmp_path):
    failed = Failure("native", "ended with status 1", "")
    monkeypatch.setattr(gpu, "measure", lambda row, _: [failed for _ in row.runs])
    assert gpu.main(gpu.Command(rows=("step",), folder=str(tmp_path))) == 1


def test_without_a_gpu_one_line_says_so(monkeypatch, capsys):
    monkeypatch.setattr(gpu, "gpu", lambda: None)
    assert gpu.main(gpu.Command()) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and line.endswith("runs all rows on the CPU")


@pytest.mark.slow  # a dry run of one row shows the same of runs that do not fail
@pytest.mark.xla
def test_runs_of_a_row_are_measured_in_processes_of_their_own():
    options = {"device": "cpu", "batched": True}
    wrong = options | {"batches": True}
    runs = Run("good", "native", WORK, options), Run("bad", "native", WORK, wrong)
    good, bad = gpu.measure(Row("", "µs", 200, runs), gpu.Command())
    assert good["count"] == {"warm_up": 4, "steady": 4}
    assert good["own"]["device"] == "cpu"
    assert bad.reason == "ended with status 1" and "batches" in bad.stderr


def test_processes_compile_together_and_measure_alone(tmp_path):
    path = tmp_path / "turns"
    path.touch()
    with session._turns(str(path)) as turn, open(path) as other:
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)  # it compiles too
        fcntl.flock(other, fcntl.LOCK_UN)
        turn()
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)


def test_processes_end_when_the_command_is_interrupted():
    talks = "tests.benchmarks.contenders.talks"
    with pytest.raises(KeyboardInterrupt), process.started(talks, Work("hangs")):
        raise KeyboardInterrupt  # the fixture of all tests looks for processes


@pytest.mark.xla
@pytest.mark.parametrize("names", [("step",), pytest.param((), marks=pytest.mark.slow)])
def test_a_dry_run_measures_every_row_and_records_nothing(tmp_path, names):
    command = [sys.executable, "-m", "benchmarks.gpu", "--dry_run"]
    command += [f"--rows={name}" for name in names]
    command.append(f"--folder={tmp_path}")
    done = subprocess.run(command, capture_output=True, text=True, timeout=290)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("Dry run")
    runs = [run for name in names or ROWS for run in ROWS[name].runs]
    assert len(done.stdout.splitlines()) == 2 + 2 + len(runs) + 2
    assert "failed" not in done.stdout
    assert not [*tmp_path.iterdir()]
