"""Presets reach their thresholds; minutes each."""

import pytest

import tfagents_batch as tfb


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("preset", "threshold"), [("cartpole", 475), ("pendulum", -200)]
)
def test_a_preset_solves_its_task_for_four_of_five_seeds(preset, threshold, tmp_path):
    returns = []
    for seed in range(1, 6):
        run = tfb.train(config=preset, seed=seed, logdir=tmp_path)
        returns.append(tfb.evaluate(run.logdir, episodes=100).mean_return)
    assert sum(value >= threshold for value in returns) >= 4, returns
