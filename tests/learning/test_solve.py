"""Presets reach their thresholds; minutes each."""

import pytest

import tfagents_batch as tfb


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_sign_of_the_t_maze_is_remembered(tmp_path):
    run = tfb.train(config="tf/tmaze", seed=1, eval_every=0, logdir=tmp_path)
    # Without memory the best mean is 1.5.
    assert tfb.evaluate(run.logdir, episodes=100).mean_return >= 3.5


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
