import math

import numpy as np
import pytest

from tfagents_batch.training.progress import Progress
from tfagents_batch.training.symptom import Line


def fed(values, steps=1000):
    progress = Progress(steps)
    for number, value in enumerate(values):
        step = steps * (number + 1) // len(values)
        progress.add(Line(step, {"episode/return_mean": value}))
    return progress


def test_a_start_is_the_mean_of_three_lines():
    assert fed([1.0, 2.0]).start is None
    assert fed([1.0, 2.0, 6.0, 100.0]).start == 3


def test_a_window_has_at_least_ten_lines():
    assert fed([1.0] * 9).recent is None
    progress = fed([0.0] * 20 + [10.0] * 10)
    assert progress.recent == 10
    assert progress.best == 10
    assert progress.gain == 10


def test_a_window_spans_a_twentieth_of_the_run():
    values = np.zeros(1000)
    values[-25:] = 1.0
    assert fed(values, steps=100_000).recent == pytest.approx(0.5, abs=0.02)


def test_noise_is_the_standard_deviation_of_lines():
    values = np.random.default_rng(0).normal(scale=3.0, size=4000)
    assert fed(values).noise == pytest.approx(3.0, rel=0.05)


def test_a_trend_is_little_noise():
    assert fed(np.linspace(0, 100, 200)).noise < 0.5


def test_learned_is_what_rose_beyond_its_noise_and_stayed():
    noise = np.random.default_rng(0).normal(size=100)
    assert fed(np.linspace(0, 50, 100) + noise).learned
    assert not fed(noise).learned
    lost = np.concatenate([np.linspace(0, 50, 80), np.zeros(20)])
    assert not fed(lost + noise).learned
    assert fed(lost + noise).kept < 0.1


def test_what_is_no_number_is_passed_over():
    progress = fed([1.0, math.nan, math.inf, 1.0, 1.0])
    assert progress.count == 3
    assert progress.start == 1
    assert Progress(10).gain == 0
    assert Progress(10).kept == 1
