"""Contenders that learn up to a threshold."""

import dataclasses
import time

import pytest

from benchmarks.contenders import learn_ours, learn_sb3
from benchmarks.inside.watch import Watch
from benchmarks.measure import rows, tables
from benchmarks.work.works import Learning
from tests.support import peers
from tfagents_batch.configs import PRESETS


def short(preset="cartpole"):
    work = Learning("CartPole-v1", preset, 1.0, 10**6, 1, 2, 600.0)
    return dataclasses.replace(work, launched=time.time())


def check(result):
    assert result["reached"]
    ((steps, seconds, mean),) = result["curve"]
    assert steps == result["steps"] > 0
    assert seconds == pytest.approx(result["seconds"], abs=1e-3)
    assert 1 <= mean <= 500
    assert {*result["phases"]} == {*tables.PHASES}
    assert sum(result["phases"].values()) == pytest.approx(result["seconds"])
    assert result["same"]["environment"]["id"] == "CartPole-v1"


def test_our_learner_trains_evaluates_and_ends(preset):
    watch = Watch(short(preset))
    watch.phase("import")
    learn_ours.train(short(preset), watch)
    watch.close()
    check(watch.result())


def test_the_peers_learner_trains_evaluates_and_ends():
    check(peers.run("learn_sb3", short()))


def test_rows_have_presets_of_both_sides_that_are_not_longer():
    for row in rows.LEARNING.values():
        preset = PRESETS[row.work.preset]()
        assert preset.env.removeprefix("tf/") == row.work.env
        assert preset.steps <= row.work.steps
        assert not row.rivals or row.work.env in learn_sb3.PRESETS
