"""Presets reach their thresholds; each test takes minutes."""

import numpy as np
import pytest

import tfagents_batch as tfb


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("preset", "seeds", "threshold"),
    [
        ("batch_ppo/pendulum", 3, -200),
        ("cartpole-hidden", 3, 400),
        ("cartpole-privileged", 3, 475),
        ("halfcheetah", 3, 2000),
        ("hopper", 3, 1500),
        ("walker", 3, 1500),
        ("tf/breakout-minatar", 1, 10),  # after two million steps
        ("tf/tmaze", 1, 3.5),  # the best mean return without memory is 1.5
    ],
)
def test_the_median_of_seeds_is_above_the_threshold(preset, seeds, threshold, tmp_path):
    returns = []
    for seed in range(1, seeds + 1):
        run = tfb.train(config=preset, seed=seed, eval_every=0, logdir=tmp_path)
        returns.append(tfb.evaluate(run.logdir, episodes=100).mean_return)
    assert np.median(returns) >= threshold, returns


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("preset", "threshold", "other"),
    [
        ("tf/cartpole", 475, "CartPole-v1"),
        ("tf/pendulum", -200, "Pendulum-v1"),
        ("tf/acrobot", -100, "Acrobot-v1"),
    ],
)
def test_agents_trained_in_the_graph_solve_the_task_in_processes(
    preset, threshold, other, tmp_path
):
    run = tfb.train(config=preset, seed=1, eval_every=0, logdir=tmp_path)
    assert tfb.evaluate(run.logdir, episodes=100).mean_return >= threshold
    assert tfb.evaluate(run.logdir, 100, env=other).mean_return >= threshold


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("preset", "threshold"),
    [
        ("cartpole", 475),
        ("pendulum", -200),
        ("a2c/cartpole", 475),
        ("a2c/pendulum", -250),
        ("ga3c/cartpole", 475),
        ("reinforce/cartpole", 475),
    ],
)
def test_a_preset_solves_its_task_for_four_of_five_seeds(preset, threshold, tmp_path):
    returns = []
    for seed in range(1, 6):
        run = tfb.train(config=preset, seed=seed, logdir=tmp_path)
        returns.append(tfb.evaluate(run.logdir, episodes=100).mean_return)
    assert sum(value >= threshold for value in returns) >= 4, returns


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_vtrace_learns_from_a_lag_of_fifty_updates_as_without_one(tmp_path):
    def mean(lag: int, correction: str) -> float:
        returns = []
        for seed in (1, 2, 3):
            run = tfb.train(
                config="a2c/cartpole",
                steps=300_000,
                seed=seed,
                rollout={"lag": lag},
                settings={"correction": correction},
                eval_every=0,
                logdir=tmp_path,
            )
            returns.append(tfb.evaluate(run.logdir, episodes=100).mean_return)
        return np.mean(returns)

    corrected = mean(50, "vtrace")
    assert corrected >= 0.9 * mean(0, "vtrace")
    assert corrected >= mean(50, "none")
