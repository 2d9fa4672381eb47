"""Contenders that learn up to a threshold."""

import pytest

from benchmarks.contenders import learn_ours, learn_sb3
from benchmarks.inside import learned, session
from benchmarks.measure import rows
from benchmarks.work.works import Learning
from tests.support import peers
from tfagents_batch.configs import PRESETS


def work(preset="cartpole"):
    return Learning("CartPole-v1", preset, 1.0, 1, 2)


def check(result):
    assert result["count"]["steady"] > 0
    seconds = result["phases"]["steady"]
    assert result["value"] == pytest.approx(3600 / seconds)
    assert seconds > result["phases"]["construction"]
    assert result["same"]["environment"]["id"] == "CartPole-v1"


def test_our_learner_trains_evaluates_and_ends(preset):
    check(session.run(lambda: None, learn_ours.start, work(preset)))


def test_a_run_that_ends_below_the_threshold_has_no_figure():
    ended = learned.Learned(work(), lambda: None, {})
    with pytest.raises(RuntimeError, match="ended below the threshold"):
        ended.measure(0.0, 1)


def test_the_peers_learner_trains_evaluates_and_ends():
    check(peers.run("learn_sb3", work()))


def test_rows_have_presets_of_both_sides():
    for row in rows.LEARNING.values():
        preset = PRESETS[row.work.preset]()
        assert preset.env.removeprefix("tf/") == row.work.env
        assert row.work.env in learn_sb3.PRESETS
