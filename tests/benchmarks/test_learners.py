"""Short runs of the learning, scaling and endurance benchmarks.

Ours run in this process and train a linear preset, because only the benchmarks are
tested.
"""

import dataclasses
import time

import pytest

from benchmarks.contenders import learn_ours
from benchmarks.inside.clock import Clock
from benchmarks.inside.enduring import Enduring
from benchmarks.inside.enduring import measure as endure
from benchmarks.inside.scaled import Scaled
from benchmarks.inside.scaled import measure as scale
from benchmarks.inside.watch import Watch
from benchmarks.measure import process
from benchmarks.work.thresholds import PEER, Learning
from tests.support import peers
from tests.support.linear import Config as Settings
from tfagents_batch.configs import PRESETS
from tfagents_batch.training.config import RunConfig


@pytest.fixture
def preset(linear, monkeypatch):
    """Return the name of a preset that trains quickly."""

    def make():
        return RunConfig(
            linear, "CartPole-v1", num_envs=2, num_workers=1, settings=Settings()
        )

    monkeypatch.setitem(PRESETS, "cartpole", make)
    return "cartpole"


def learning(preset="cartpole"):
    work = Learning("CartPole-v1", preset, 1.0, 10**6, 1, 2)
    return dataclasses.replace(work, launched=time.time())


def check(found):
    assert found["reached"]
    ((steps, seconds, mean),) = found["curve"]
    assert steps == found["steps"] > 0
    assert seconds == pytest.approx(found["seconds"], abs=1e-3)
    assert 1 <= mean <= 500
    phases = {"import", "construction", "first_iteration", "training"}
    assert {*found["phases"]} == phases
    assert sum(found["phases"].values()) == pytest.approx(found["seconds"])
    assert found["same"]["environment"]["id"] == "CartPole-v1"


def test_our_learner_trains_evaluates_and_ends(preset):
    work = learning(preset)
    watch = Watch(work, Clock(work.launched))
    watch.phase("import")
    learn_ours.train(work, watch)
    watch.close()
    check(watch.result())


def test_the_peers_learner_trains_evaluates_and_ends():
    peers.require()
    found = process.run(PEER, dataclasses.asdict(learning()), 250, peers.PEERS)
    assert not isinstance(found, process.Failure), str(found)
    check(found)


@pytest.mark.parametrize("train", [pytest.param(True, marks=pytest.mark.slow), False])
def test_scaling_is_measured_for_a_single_environment(train):
    found = scale(Scaled(1, train=train, rollout_length=8, seconds=0.01))
    assert found["env_steps_per_second"] > 0
    assert found["iterations"] >= 1
    assert found["workers"] == 1
    assert found["learner_rss_mib"] > found["workers_rss_mib"] > 0


def test_a_long_run_has_several_points_and_one_trace(preset):
    found = endure(Enduring(preset, steps=8000, every=2000))
    points = found["points"]
    assert len(points) >= 3
    assert points[-1]["steps"] >= 8000
    assert {point["traces"] for point in points} == {1}
    assert all(point["seconds_per_step"] > 0 for point in points)
