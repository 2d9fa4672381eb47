"""Trends of long runs."""

import numpy as np
import pytest

from benchmarks import endurance

STEPS = [50_000 * i for i in range(1, 21)]


def trend(values, name="learner_rss_mib"):
    points = [{"steps": s, name: v} for s, v in zip(STEPS, values, strict=False)]
    return endurance.trend(points, name)


def noisy(slope):
    return [100 + slope * s / 1e6 + (-1) ** (s // 50_000) for s in STEPS]


def test_a_slope_is_per_million_steps_and_time_is_in_microseconds():
    found = trend([100 + s / 1e4 for s in STEPS])
    assert found.slope == pytest.approx(100)
    assert (found.verdict, found.first, found.last) == ("grows", 105, 200)
    assert trend([2e-5] * 20, "seconds_per_step").first == pytest.approx(20)
    assert trend([100.0]).slope == 0  # a single point has no slope


@pytest.mark.parametrize(
    ("slope", "verdict"),
    [(0, "level"), (30, "grows"), (-30, "falls"), (0.5, "level"), (-0.5, "level")],
)
def test_growth_is_distinguished_from_noise(slope, verdict):
    assert trend(noisy(slope)).verdict == verdict


def test_a_leak_in_strong_noise_is_not_called_level():
    noise = np.random.default_rng(0).normal(0, 10, len(STEPS))
    found = trend([100 + 5 * s / 1e6 + x for s, x in zip(STEPS, noise, strict=True)])
    assert found.low <= 0 <= found.high
    assert found.verdict == "unclear"
