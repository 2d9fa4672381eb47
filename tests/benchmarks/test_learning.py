"""The command that measures times to a threshold, and its contenders."""

import dataclasses
import json
import time

import pytest

from benchmarks import learning
from benchmarks.contenders import CONTENDERS, learn_ours
from benchmarks.inside.watch import Watch
from benchmarks.measure import process, results
from benchmarks.measure.duel import DifferentWork
from benchmarks.measure.process import Failure
from benchmarks.work.thresholds import OURS, PEER, TASKS, Learning
from tests.support import peers
from tfagents_batch.configs import PRESETS
from tfagents_batch.errors import UserError

TASK = TASKS["cartpole-475"]
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


def answer(name, work):
    same = {"threshold": work.threshold, "episode_seeds": [work.seed]}
    return RESULT | {"same": same}


def play(tmp_path, answer, **flags):
    runner, path = Runner(answer, probe_seconds=0, **flags), tmp_path / "x.jsonl"
    failed = learning.play("cartpole-475", TASK, runner, path)
    return runner.ran, results.read(path), failed


def test_rounds_alternate_and_each_side_has_its_own_budget(tmp_path):
    ran, found, failed = play(tmp_path, answer, rounds=3)
    assert [name for name, _ in ran] == [OURS, PEER, PEER, OURS, OURS, PEER]
    assert [work.seed for _, work in ran] == [1, 1, 2, 2, 3, 3]
    assert [line["round"] for line in found] == [1, 1, 2, 2, 3, 3]
    assert {x["contender"]: x["config"]["steps"] for x in found} == TASK.steps
    # A run knows its deadline, so that it ends with a lower bound.
    assert {work.deadline for _, work in ran} == {TASK.deadline}
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
        return RESULT | {"same": {"contender": name}}

    with pytest.raises(DifferentWork, match=PEER):
        play(tmp_path, differs, rounds=1)


def test_the_peer_gets_its_fastest_settings_of_those_that_run():
    def by_settings(name, work):
        fast = work.settings["vectorisation"] == "forkserver"
        phases = {"import": 50.0 * fast, "training": 1.0}
        return RESULT | {"phases": phases, "rate": 1000.0 if fast else 10.0}

    def some(name, work):
        return RESULT if work.settings["vectorisation"] == "dummy" else FAILURE

    runner = Runner(by_settings)
    settings = runner.settings(TASK)
    assert settings == {"threads": 1, "vectorisation": "forkserver"}
    assert all(work.seconds == 10 for _, work in runner.ran)
    assert Runner(some).settings(TASK)["vectorisation"] == "dummy"
    with pytest.raises(UserError, match="none of its settings"):
        Runner(lambda *_: FAILURE).settings(TASK)


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.title)
def test_a_task_names_existing_presets_and_contenders(task):
    preset = PRESETS[task.work.preset]()
    assert preset.env.removeprefix("tf/") == task.work.env
    assert {OURS} <= {*task.steps} <= {OURS, PEER} <= {*CONTENDERS}
    assert preset.steps == task.steps[OURS]
    text = json.dumps(dataclasses.asdict(task.work))
    assert Learning(**json.loads(text)) == task.work


def short(preset="cartpole"):
    work = Learning("CartPole-v1", preset, 1.0, 10**6, 1, 2)
    return dataclasses.replace(work, launched=time.time())


def check(found):
    assert found["reached"]
    ((steps, seconds, mean),) = found["curve"]
    assert steps == found["steps"] > 0
    assert seconds == pytest.approx(found["seconds"], abs=1e-3)
    assert 1 <= mean <= 500
    assert {*found["phases"]} == {*RESULT["phases"]}
    assert sum(found["phases"].values()) == pytest.approx(found["seconds"])
    assert found["same"]["environment"]["id"] == "CartPole-v1"


def test_our_learner_trains_evaluates_and_ends(preset):
    watch = Watch(short(preset))
    watch.phase("import")
    learn_ours.train(short(preset), watch)
    watch.close()
    check(watch.result())


def test_the_peers_learner_trains_evaluates_and_ends():
    peers.require()
    found = process.run_contender(PEER, short(), 250, peers.PYTHONS)
    assert not isinstance(found, process.Failure), str(found)
    check(found)
