"""Tests of sweeps whose trainings are tasks of Ray."""

import json
import sys

import pytest

from tests.distribute.sweep import test_sweep
from tests.support import python
from tfagents_batch.distribute.sweep import on_ray
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import sweep


def test_ray_is_named_if_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    argv = ["--config=cartpole", f"--logdir={tmp_path}", "--on=ray"]
    with pytest.raises(UserError, match=r"tfagents_batch\[ray\]"):
        sweep.main(argv)
    assert not [*tmp_path.iterdir()]


def test_an_address_without_a_head_is_refused(tmp_path):
    argv = ["--config=cartpole", f"--logdir={tmp_path}", "--address=127.0.0.1:9"]
    with pytest.raises(UserError, match=r"nothing answers at Ray's address 127"):
        sweep.main(argv)
    with pytest.raises(UserError, match="pass --on=ray, or leave --address out"):
        sweep.main([*argv[:2], "--address=auto"])


class FakeRay:
    """Ray whose tasks have ended, or are lost."""

    class exceptions:
        RayError = ConnectionError

    def __init__(self, result):
        self.result, self.cancelled = result, []

    def wait(self, tasks, timeout):
        return ([], tasks) if self.result is None else (tasks, [])

    def get(self, task):
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def cancel(self, task, force=False):
        self.cancelled.append(force)


@pytest.mark.parametrize(
    ("result", "status"), [(None, None), (0, 0), (64, 64), (ConnectionError(), -9)]
)
def test_a_task_has_the_status_of_its_training(result, status):
    ray = FakeRay(result)
    process = on_ray.RayProcess(ray, "task")
    assert process.poll() == status
    process.terminate()
    process.kill()
    assert ray.cancelled == ([False, True] if status is None else [])


ON_RAY = """
import json, sys
from pathlib import Path
from tests.distribute.sweep import test_sweep
from tfagents_batch.distribute.sweep import loop, on_ray, results, storage

plan, folder = test_sweep.DOING, Path(sys.argv[1])
with (
    storage.opened(folder, plan) as study,
    on_ray.launchers(2, None, test_sweep.PROGRAM) as jobs,
):
    for x, do in enumerate(["kill", "refuse", "train"]):
        study.enqueue_trial({"x": x, "do": do})
    loop.run(plan, study, folder, 3, jobs)
    found = results.rows(study, plan)
print(json.dumps({row.number: row.error for row in found}))
"""


@pytest.mark.slow
def test_trials_run_on_ray(tmp_path):
    pytest.importorskip("ray")
    # In a process of its own: after a session, Ray leaves files open.
    done = python.run(ON_RAY, tmp_path, cwd=test_sweep.ROOT, timeout=120)
    errors = {"0": "killed by SIGKILL", "1": "x is wrong", "2": ""}
    assert json.loads(done.stdout.splitlines()[-1]) == errors
