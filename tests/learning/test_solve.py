"""Presets reach their thresholds; minutes each."""

import pytest

import tfagents_batch as tfb


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("preset", "threshold"), [("cartpole", 475), ("pendulum", -200)]
)
def test_a_preset_solves_its_task(preset, threshold, seed, tmp_path):
    run = tfb.train(config=preset, seed=seed, logdir=tmp_path)
    assert tfb.evaluate(run.logdir, episodes=100).mean_return >= threshold
