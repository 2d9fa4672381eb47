"""Tests of sweeps whose trainings are a fake that takes no time."""

import contextlib
import csv
import itertools
import os
import select
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

import tfagents_batch as tfb
from tfagents_batch.distribute import (
    sweep_loop,
    sweep_results,
    sweep_search,
    sweep_storage,
    trial_process,
)
from tfagents_batch.distribute.sweep_search import SearchPlan
from tfagents_batch.errors import SaveError, UserError
from tfagents_batch.settings import fields

PROGRAM = sys.executable, str(Path(__file__).with_name("fake_train.py"))
KINDS = {"x": fields.kind(float), "do": fields.kind(str)}


def plan_of(fixed, search_texts, **options):
    """Return the plan of a sweep with these values of the searched flags."""
    space = {k: sweep_search.parse(k, x, KINDS[k], {}) for k, x in search_texts.items()}
    return SearchPlan(fixed, search_texts, space, **options)


UNIFORM = {"x": "uniform:0:1"}
PLAN = plan_of({"steps": "100"}, UNIFORM)
DOING = plan_of({}, {"x": "uniform:0:9", "do": "train,kill,refuse"})
ROOT = Path(__file__).parents[2]
DEADLINE = 60  # seconds
SWEEP = """
import sys
from pathlib import Path
from tests.distribute import test_sweep
test_sweep.sweep(Path(sys.argv[1]), jobs=int(sys.argv[2]))
"""


def sweep(folder, plan=PLAN, trials=20, jobs=1, enqueue=(), **options):
    """Run a sweep; return its rows."""
    with (
        mock.patch.object(trial_process, "PROGRAM", PROGRAM),
        sweep_storage.opened(folder, plan, **options) as study,
    ):
        for values in enqueue:
            study.enqueue_trial(values)
        sweep_loop.run(plan, study, folder, trials, jobs)
        return sweep_results.rows(study, plan)


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Return a function that starts a sweep whose trials hang from a number on.

    It returns the process and, once they hang, the descriptors of its trainings.
    """
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    processes = []

    def start(hang_from, jobs=1):
        env = os.environ | {"PIPE": str(pipe), "HANG_FROM": str(hang_from)}
        command = [sys.executable, "-c", SWEEP, tmp_path / "sweep", str(jobs)]
        options = {"env": env, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, cwd=ROOT, **options)
        processes.append(process)
        hanging = []
        while len(hanging) < jobs:
            with open(pipe) as file:
                hanging += [os.pidfd_open(int(line)) for line in file]
        return process, hanging

    yield start
    for process in processes:
        process.kill()
        process.communicate(timeout=DEADLINE)


def require_end(hanging):
    """Require that processes end, which are no children of this one."""
    for descriptor in hanging:
        assert select.select([descriptor], [], [], DEADLINE)[0]
        os.close(descriptor)


def test_a_killed_sweep_goes_on_with_the_trial_that_was_cut_off(started, tmp_path):
    process, hanging = started(hang_from=8)
    process.kill()
    process.wait(timeout=DEADLINE)
    require_end(hanging)
    folder = tmp_path / "sweep"
    found = sweep(folder)
    assert len(found) == 20 and {row.state for row in found} == {"complete"}
    assert [row.value for row in found] == sorted(
        (r.value for r in found), reverse=True
    )
    assert all(row.value == row.values["x"] for row in found)
    numbers = {row.number: row.values for row in found}
    assert sorted(numbers) == [*range(8), *range(9, 21)]
    with sweep_storage.opened(folder, PLAN) as study:
        assert study.trials[8].params == numbers[9]
    assert len({values["x"] for values in numbers.values()}) == 20  # none drawn twice
    assert sweep(folder) == found  # nothing is left to do
    assert len(sweep(folder, trials=21)) == 21


def test_an_interrupted_sweep_leaves_no_process(started):
    process, hanging = started(hang_from=0, jobs=2)
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=DEADLINE)[1]
    require_end(hanging)


def test_trials_that_fail_or_are_killed_are_counted(tmp_path):
    todo = [{"x": x, "do": do} for x, do in enumerate(["kill", "refuse", "train"])]
    found = sweep(tmp_path, DOING, trials=3, jobs=2, enqueue=todo)
    states = {row.number: (row.state, row.error, row.value) for row in found}
    assert states == {
        0: ("failed", "killed by SIGKILL", None),
        1: ("failed", "x is wrong", None),
        2: ("complete", "", 2.0),
    }
    assert sweep_results.summary(found) == "1 of 3 trials completed, 2 failed (67%)"


def test_a_training_without_the_metric_fails(tmp_path):
    plan = plan_of({"do": "silent"}, UNIFORM)
    (row,) = sweep(tmp_path, plan, trials=1)
    assert row.error == "there is no eval/return_mean in its log"


def test_a_sweep_ends_if_its_first_trials_are_refused(tmp_path):
    plan = plan_of({"do": "refuse"}, UNIFORM)
    with pytest.raises(UserError, match=r"the first 3 trials were refused.*x is wrong"):
        sweep(tmp_path, plan)


def test_a_trial_below_the_median_is_stopped(tmp_path):
    plan = plan_of({}, {"x": "uniform:0:9", "do": "train,hang"})
    todo = [{"x": 5.0, "do": "train"}] * 5 + [{"x": 1.0, "do": "hang"}]
    found = sweep(tmp_path, plan, trials=6, enqueue=todo)
    assert [row.state for row in found] == ["complete"] * 5 + ["pruned"]
    assert found[-1].value == 1.0


@pytest.mark.parametrize(
    ("options", "value"),
    [({}, 5), ({"value": "best"}, 6), ({"value": "best", "goal": "min"}, 4)],
)
def test_the_value_of_a_trial_is_its_last_or_its_best(tmp_path, options, value):
    plan = plan_of({"x": "5"}, {"do": "train,a"}, **options)
    assert sweep(tmp_path, plan, trials=1)[0].value == value


def test_a_second_sweep_in_the_same_folder_is_refused(tmp_path):
    with (
        sweep_storage.opened(tmp_path, PLAN),
        pytest.raises(UserError, match=rf"is in use by process {os.getpid()}"),
        sweep_storage.opened(tmp_path, PLAN),
    ):
        pass


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (plan_of({"steps": "200"}, UNIFORM), "its --steps is 100, not 200"),
        (plan_of({}, UNIFORM), "its --steps is 100, not none"),
        (
            plan_of(PLAN.fixed, {"x": "uniform:0:2"}),
            "its --search=x is uniform:0:1, not uniform:0:2",
        ),
        (plan_of(PLAN.fixed | {"seed": "1"}, UNIFORM), "its --seed is none, not 1"),
        (plan_of(PLAN.fixed, UNIFORM, goal="min"), "its --goal is max, not min"),
    ],
)
def test_a_folder_of_another_sweep_is_refused(tmp_path, plan, text):
    with sweep_storage.opened(tmp_path, PLAN):
        pass
    with pytest.raises(UserError, match=text), sweep_storage.opened(tmp_path, plan):
        pass


@pytest.mark.parametrize("name", ["mine", sweep_storage.NAME])
def test_a_study_that_this_command_did_not_make_is_refused(tmp_path, name):
    import optuna

    with sweep_storage._connected(tmp_path / sweep_storage.FILE) as other:
        study = optuna.create_study(storage=other, study_name=name)
        study.add_trial(optuna.create_trial(value=1.0))
    with pytest.raises(UserError, match="did not make"):
        sweep(tmp_path)
    with sweep_storage._connected(tmp_path / sweep_storage.FILE) as other:
        assert optuna.get_all_study_names(other) == [name]


def test_a_study_of_another_version_of_optuna_is_refused(tmp_path):
    with sweep_storage.opened(tmp_path, PLAN):
        pass
    with contextlib.closing(sqlite3.connect(tmp_path / sweep_storage.FILE)) as database:
        database.execute("update version_info set schema_version = 999")
        database.execute("update alembic_version set version_num = 'v999'")
        database.commit()
    with pytest.raises(UserError, match="is of a version of Optuna other than"):
        sweep(tmp_path)


def test_a_path_that_cannot_be_used_is_refused(tmp_path):
    (tmp_path / sweep_storage.FILE).write_text("something else" * 1000)
    with (
        pytest.raises(UserError, match="cannot be read"),
        sweep_storage.opened(tmp_path, PLAN),
    ):
        pass
    with (
        pytest.raises(UserError, match="cannot create the folder"),
        sweep_storage.opened(tmp_path / sweep_storage.FILE, PLAN),
    ):
        pass


def test_optuna_is_named_if_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with (
        pytest.raises(UserError, match=r"tfagents_batch\[tune\]"),
        sweep_storage.opened(tmp_path, PLAN),
    ):
        pass


def test_a_folder_that_cannot_be_written_ends_the_sweep(tmp_path):
    with sweep_storage.opened(tmp_path, PLAN) as study:
        (tmp_path / "trial-0000").write_text("a file")
        with pytest.raises(SaveError, match="a trial cannot be started"):
            sweep_loop.run(PLAN, study, tmp_path, 1)


def test_results_are_a_file_a_table_a_command_and_a_figure(tmp_path):
    todo = [{"x": x, "do": do} for x, do in [(1, "train"), (2, "kill"), (3, "train")]]
    found = sweep(tmp_path, DOING, trials=3, enqueue=todo)
    sweep_results.write(tmp_path / sweep_results.FILE, found)
    with open(tmp_path / sweep_results.FILE, newline="") as file:
        best, second, failed = csv.DictReader(file)
    assert (best["trial"], best["value"], best["x"]) == ("2", "3.0", "3.0")
    assert (second["folder"], second["state"]) == ("trial-0000", "complete")
    assert (failed["value"], failed["error"]) == ("", "killed by SIGKILL")
    head, first, *_ = sweep_results.table(found).splitlines()
    assert head.split() == ["trial", "value", "x", "do", "seconds"]
    assert first.split()[:4] == ["2", "3", "3", "train"]
    again = "tfagents-batch train --x=3.0 --do=train"
    assert sweep_results.command(DOING, found[0]) == again
    sweep_results.draw(tmp_path / sweep_results.FIGURE, DOING, found)
    assert (tmp_path / sweep_results.FIGURE).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("ends", ["1e-4:1e-3", "2e-4:8e-4", "1e-5:1e-1", "16:256"])
def test_labels_of_a_logarithmic_axis_do_not_overlap(ends, tmp_path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    drawn = []
    monkeypatch.setattr(pyplot, "close", drawn.append)
    plan = plan_of({}, {"x": f"log:{ends}"})
    places = [float(x) for x in ends.split(":")]
    found = [
        sweep_results.Row(i, "complete", 1.0, {"x": x}, 1.0, "", "")
        for i, x in enumerate(places)
    ]
    sweep_results.draw(tmp_path / sweep_results.FIGURE, plan, found)
    axis = drawn[0].axes[1]
    low, high = axis.get_xlim()
    labels = axis.xaxis.get_ticklabels(which="both")
    shown = [x for x in labels if x.get_text() and low <= x.get_position()[0] <= high]
    boxes = sorted(x.get_window_extent().extents[[0, 2]].tolist() for x in shown)
    assert len(boxes) >= 2
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(boxes))


def test_a_file_of_the_working_folder_does_not_replace_a_module_of_python(tmp_path):
    (tmp_path / "ctypes.py").write_text("raise SystemExit('the wrong ctypes')")
    command = [*trial_process.PROGRAM, str(os.getpid()), "--version"]
    options = {"env": os.environ | {"PYTHONPATH": str(ROOT)}, "text": True}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, **options)
    assert done.stdout.strip() == tfb.__version__, done.stderr


def test_several_jobs_divide_the_cores(monkeypatch):
    monkeypatch.setattr(trial_process.cpus, "available", lambda: [0, 1, 2, 3, 5])
    assert trial_process.shares(1) == [[]]
    assert trial_process.shares(2) == [[0, 2, 5], [1, 3]]
    assert trial_process.shares(6) == [[0], [1], [2], [3], [5], [0]]
