"""The tuner on synthetic surfaces with noise."""

import numpy as np
import pytest

from tfagents_batch.sources.predicting import AutoTuner

VALUES = {
    "agents": [1, 2, 4, 8, 16, 24, 32, 48, 64],
    "predictors": [1, 2, 3, 4],
    "trainers": [1, 2, 3, 4],
}


def surface(agents, predictors, trainers):
    """Rows a second: rises with agents, and falls with threads on few cores."""
    fed = 1 - np.exp(-agents / 16)
    busy = 1 / (1 + 0.15 * max(0, predictors + trainers - 4) + 0.004 * agents)
    return 1000 * fed * busy * (1 - 0.2 / (predictors * trainers))


BEST = max(
    surface(a, p, t)
    for a in VALUES["agents"]
    for p in VALUES["predictors"]
    for t in VALUES["trainers"]
)


@pytest.mark.parametrize("start", [(1, 1, 1), (64, 4, 4), (32, 2, 2)])
def test_three_hours_with_noise_are_near_the_optimum_and_settle(start):
    means, kept = [], []
    for seed in range(24):
        random = np.random.default_rng(seed)
        tuner = AutoTuner(VALUES, dict(zip(VALUES, start, strict=True)), seed)
        scores, settled = [], None
        for window in range(540):  # of 20 s
            score = surface(**tuner.numbers)
            scores.append(score / BEST)
            tuner.observe(score * random.normal(1, 0.03))
            if tuner.settled and settled is None:
                settled = window + 1
        assert settled is not None and settled < 240
        kept.append(np.mean(scores[settled:]))
        assert min(scores[settled:]) >= 0.85
        means.append(np.mean(scores))
    assert np.mean(kept) >= 0.94
    assert np.mean(means) >= {1: 0.92, 64: 0.95, 32: 0.97}[start[0]]


def test_one_number_changes_at_a_time_and_stays_in_its_bounds():
    tuner = AutoTuner(VALUES, {"agents": 1, "predictors": 4, "trainers": 2}, seed=3)
    random, now = np.random.default_rng(0), tuner.numbers
    for _ in range(200):
        before, now = now, tuner.numbers
        assert sum(now[name] != before[name] for name in VALUES) <= 1
        assert all(now[name] in VALUES[name] for name in VALUES)
        tuner.observe(random.normal(1, 0.1))


def test_a_flat_surface_with_noise_changes_little_and_settles():
    values = VALUES | {"predict_batch": [1, 2, 4, 8], "rollouts_per_update": [1, 2, 4]}
    start = {name: each[1] for name, each in values.items()}
    changed, windows = 0, []
    for seed in range(12):
        tuner, random = AutoTuner(values, start, seed), np.random.default_rng(seed)
        windows.append(0)
        while not tuner.settled:
            tuner.observe(random.normal(1, 0.03))
            windows[-1] += 1
        changed += tuner.changed
    assert changed <= 1.5 * len(windows) and np.median(windows) < 200


def test_a_lasting_loss_starts_the_search_again_and_a_short_one_does_not():
    tuner = AutoTuner({"x": [1, 2, 3]}, {"x": 2}, seed=0)
    peak = {1: 0.5, 2: 1.0, 3: 0.5}
    while not tuner.settled:
        tuner.observe(peak[tuner.numbers["x"]])
    for score in (0.5, 1.0, 0.5, 0.5, 1.0):
        tuner.observe(score)
        assert tuner.settled
    for _ in range(3):
        tuner.observe(0.6)
    assert not tuner.settled
    moved = {1: 0.2, 2: 0.6, 3: 0.9}
    for _ in range(50):
        tuner.observe(moved[tuner.numbers["x"]])
    assert tuner.settled and tuner.numbers == {"x": 3}
