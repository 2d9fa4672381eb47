"""Runs learn with workers of Ray and Spark as without; each test takes minutes."""

import pytest

import tfagents_batch as tfb
from tests.install import extras

RAY, SPARK = tfb.RayPool(workers=2), tfb.SparkPool(workers=2)
WHOLE = {"rollout": {"episodes": 8}}


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Replace the check of all tests: Ray leaves descriptors open in this process."""


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("preset", "options", "seeds", "threshold"),
    [
        ("cartpole", {"pool": RAY, "steps": 150_000}, 5, 475),
        ("cartpole", {"pool": SPARK, "steps": 300_000} | WHOLE, 3, 475),
        ("sac/pendulum", {"pool": RAY, "replay": {"steps": 4}}, 2, -200),
    ],
)
def test_all_seeds_but_one_reach_the_threshold(
    preset, options, seeds, threshold, tmp_path
):
    extras.skip_without("ray" if options["pool"] is RAY else "spark")
    returns = []
    for seed in range(1, seeds + 1):
        run = tfb.train(
            config=preset, seed=seed, eval_every=0, logdir=tmp_path, **options
        )
        returns.append(tfb.evaluate(run.logdir, episodes=100).mean_return)
    assert sum(x >= threshold for x in returns) >= seeds - 1, returns


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_reinforce_over_spark_has_a_perfect_mean_within_60_iterations(tmp_path):
    extras.skip_without("spark")

    def best(seed: int) -> float:
        means = []

        def on_iteration(info):
            means.append(info.metrics.get("episode/return_mean") or 0.0)
            return len(means) < 60 and means[-1] < 498

        preset = "deck/distributed-reinforce-cartpole"
        options = {"on_iteration": on_iteration, "eval_every": 0, "logdir": tmp_path}
        tfb.train(config=preset, seed=seed, **options)
        return max(means)

    found = [best(seed) for seed in range(1, 6)]
    assert sum(x >= 498 for x in found) >= 4, found
