import dataclasses
import json

import pytest

from benchmarks import learning
from benchmarks.contenders import CONTENDERS
from benchmarks.measure import curves_plot, results
from benchmarks.measure.duel import DifferentWork
from benchmarks.measure.process import Failure
from benchmarks.work import thresholds
from benchmarks.work.thresholds import OURS, PEER, TASKS
from tfagents_batch.configs import PRESETS
from tfagents_batch.errors import UserError

RESULT = {
    "reached": True,
    "seconds": 3.0,
    "steps": 10,
    "curve": [],
    "phases": {"import": 1, "construction": 1, "first_iteration": 1, "training": 1},
    "rate": 10.0,
    "own": {"workers": 2, "vectorisation": "dummy", "threads": 1},
    "versions": {},
}
FAILURE = Failure(PEER, "ended with status 1", "")


class Runner(learning.Runner):
    """Runner that returns given results; ``ran`` records the calls."""

    def __init__(self, answer, **flags):
        super().__init__(learning.Command(**flags), None)
        self.ran = []
        self._answer = answer

    def run(self, name, task, **changes):
        work = self.work(name, task, **changes)
        self.ran.append((name, work))
        return self._answer(name, work)


def same(work, **more):
    return {"threshold": work.threshold, "episode_seeds": [work.seed], **more}


def answer(name, work):
    return RESULT | {"same": same(work)}


def play(tmp_path, answer, **flags):
    runner, path = Runner(answer, probe_seconds=0, **flags), tmp_path / "x.jsonl"
    failed = learning._play("cartpole-475", TASKS["cartpole-475"], runner, path)
    return runner.ran, results.read(path), failed


def test_rounds_alternate_and_each_side_has_its_own_budget(tmp_path):
    ran, found, failed = play(tmp_path, answer, rounds=3)
    task = TASKS["cartpole-475"]
    assert [name for name, _ in ran] == [OURS, PEER, PEER, OURS, OURS, PEER]
    assert [work.seed for _, work in ran] == [1, 1, 2, 2, 3, 3]
    assert [line["round"] for line in found] == [1, 1, 2, 2, 3, 3]
    assert {x["contender"]: x["config"]["steps"] for x in found} == task.steps
    # A run knows its deadline, so that it ends with a lower bound.
    assert {work.deadline for _, work in ran} == {task.deadline}
    assert not {"cache_home", "launched"} & {*found[0]["config"]}  # not published
    assert not failed


def test_a_side_that_fails_is_not_run_again_and_the_other_continues(tmp_path):
    def fails(name, work):
        return FAILURE if name == PEER else answer(name, work)

    ran, found, failed = play(tmp_path, fails, rounds=2)
    assert [name for name, _ in ran] == [OURS, PEER, OURS]
    assert failed and found[1]["failed"]["reason"] == "ended with status 1"


def test_other_work_is_refused(tmp_path):
    def differs(name, work):
        return RESULT | {"same": same(work, contender=name)}

    with pytest.raises(DifferentWork, match=PEER):
        play(tmp_path, differs, rounds=1)


def test_the_peer_gets_its_fastest_settings():
    def by_settings(name, work):
        fast = work.settings["vectorisation"] == "forkserver"
        phases = {"import": 50.0 * fast, "training": 1.0}
        return RESULT | {"phases": phases, "rate": 1000.0 if fast else 10.0}

    runner = Runner(by_settings)
    settings = runner.settings(TASKS["cartpole-475"])
    assert settings == {"threads": 1, "vectorisation": "forkserver"}
    assert all(work.seconds == 10 for _, work in runner.ran)


def test_settings_that_fail_are_skipped_unless_all_fail():
    def some(name, work):
        return RESULT if work.settings["vectorisation"] == "dummy" else FAILURE

    assert Runner(some).settings(TASKS["cartpole-475"])["vectorisation"] == "dummy"
    with pytest.raises(UserError, match="none of its settings"):
        Runner(lambda *_: FAILURE).settings(TASKS["cartpole-475"])


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.title)
def test_a_task_names_existing_presets_and_contenders(task):
    assert PRESETS[task.work.preset]().env.removeprefix("tf/") == task.work.env
    assert {OURS} <= {*task.steps} <= {OURS, PEER} <= {*CONTENDERS}
    assert PRESETS[task.work.preset]().steps == task.steps[OURS]
    text = json.dumps(dataclasses.asdict(task.work))
    assert thresholds.Learning(**json.loads(text)) == task.work


def test_a_finished_run_keeps_its_last_return_in_the_median():
    short = [[1, 1.0, 10.0], [2, 2.0, 500.0]]
    long = [[1, 1.0, 20.0], [9, 9.0, 400.0]]
    seconds, values = curves_plot.median([short, long, long])
    assert (seconds[0], seconds[-1]) == (1, 9)
    assert (values[0], values[-1]) == (20, 400)
    assert curves_plot.median([short, short, long])[1][-1] == 500
