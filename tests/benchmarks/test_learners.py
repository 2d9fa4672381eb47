"""The processes of the learning, scaling and endurance benchmarks, for a moment."""

import dataclasses
import os
import subprocess
import sys
import time

import pytest

from benchmarks import process
from benchmarks.inside.enduring import Enduring
from benchmarks.inside.scaled import Scaled
from benchmarks.thresholds import OURS, PEER, Learning

PYTHONS = {"peers": os.environ.get("TFAGENTS_BATCH_PEER_PYTHON", "")}
PEERS = process.python_of("peers", PYTHONS)
SECONDS = 250
PHASES = {"import", "construction", "first_iteration", "training"}


def run(name, work, python=sys.executable, package="benchmarks.inside"):
    result = process.run(name, dataclasses.asdict(work), SECONDS, python, package)
    assert not isinstance(result, process.Failure), str(result)
    return result


@pytest.mark.parametrize("name", [OURS, PEER])
def test_a_learner_trains_is_evaluated_and_ends(name, tmp_path):
    python = sys.executable
    if name == PEER:
        python, code = PEERS, "import stable_baselines3"
        if subprocess.run([python, "-c", code], capture_output=True).returncode:
            pytest.skip(f"{python} has no Stable-Baselines3")
    work = Learning("CartPole-v1", "cartpole", 1.0, 10**6, 1, 2)
    work = dataclasses.replace(work, launched=time.time())
    found = run(name, work, python, "benchmarks.contenders")
    assert found["reached"]
    ((steps, seconds, mean),) = found["curve"]
    assert steps == found["steps"] > 0
    assert seconds == pytest.approx(found["seconds"], abs=1e-3)
    assert 1 <= mean <= 500
    assert {*found["phases"]} == PHASES
    assert sum(found["phases"].values()) == pytest.approx(found["seconds"])
    assert found["same"]["environment"]["id"] == "CartPole-v1"


@pytest.mark.parametrize("train", [True, False])
def test_one_environment_is_a_batch_too(train):
    found = run("scaled", Scaled(1, train=train, rollout_length=8, seconds=0.01))
    assert found["env_steps_per_second"] > 0
    assert found["iterations"] >= 1
    assert found["workers"] == 1
    assert found["learner_rss_mib"] > found["workers_rss_mib"] > 0


def test_a_long_run_is_looked_at_and_traced_once():
    found = run("enduring", Enduring(steps=8000, every=2000))
    points = found["points"]
    assert len(points) >= 3
    assert points[-1]["steps"] >= 8000
    assert {point["traces"] for point in points} == {1}
    assert all(point["seconds_per_step"] > 0 for point in points)
