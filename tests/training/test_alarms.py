"""Alarms: how long a limit must be exceeded, and the rows about episodes."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfagents_batch.metrics import Limit
from tfagents_batch.training.alarms import Alarms

STEPS = 100_000
ROW = Limit("far", "x", "x is {x:.3g}", above=0.2, lines=3, at_once=1.0)
GOOD, BAD, WORST = 0.1, 0.5, 5.0
NOISE = np.random.default_rng(0).normal(size=100)


def raised(lines, rows=(), **known):
    """Return ``(number, name, text)`` of the alarms of lines spread over the run."""
    alarms = Alarms(rows, **{"steps": STEPS, "num_envs": 8} | known)
    every = STEPS // len(lines)
    return [
        (number, alarm.name, alarm.text)
        for number, line in enumerate(lines)
        for alarm in alarms.check(line, every * (number + 1))
    ]


def names(lines, rows=(), **known):
    return [name for _, name, _ in raised(lines, rows, **known)]


def returns(values):
    """Return lines of training with these mean returns; None: no episode ended."""
    lines = [{"env/masked": 0.01, "episode/return_mean": value} for value in values]
    return [{k: v for k, v in line.items() if v is not None} for line in lines]


def test_an_alarm_is_raised_once_and_again_only_after_five_healthy_lines():
    values = [GOOD] * 2 + [BAD] * 9 + [GOOD] * 4 + [BAD] * 9 + [GOOD] * 5 + [BAD] * 9
    found = raised([{"x": x} for x in values], [ROW])
    assert found == [(4, "far", "x is 0.5"), (31, "far", "x is 0.5")]


def test_a_healthy_line_restarts_the_count():
    values = ([BAD] * 2 + [GOOD]) * 30
    assert names([{"x": x} for x in values], [ROW]) == []


@pytest.mark.parametrize("value", [WORST, math.inf, math.nan])
def test_a_value_far_beyond_or_nan_needs_one_line(value):
    assert names([{"x": x} for x in (GOOD, value, GOOD)], [ROW]) == ["far"]


def test_a_lower_limit_can_require_a_part_of_the_run():
    row = Limit("low", "x", "", below=0.0, lines=2, part=0.3)
    assert raised([{"x": -1.0}] * 100, [row]) == [(30, "low", "")]
    assert names([{"x": 0.0}] * 100, [row]) == []


def test_lines_outside_when_are_healthy_and_lines_without_the_metric_are_ignored():
    row = ROW._replace(when=lambda line: line.get("y", 0) > 0)
    assert names([{"x": BAD}] * 5, [row]) == []
    assert raised([{"x": BAD, "y": 1}, {}] * 5, [row]) == [(4, "far", "x is 0.5")]


def test_numpy_numbers_are_checked_and_vectors_are_ignored():
    line = {"x": np.float32(0.5), "histogram/action": np.ones(3)}
    assert names([line] * 5, [ROW, ROW._replace(metric="histogram/action")]) == ["far"]


@pytest.mark.parametrize(("limit", "after"), [(500, 2 * 501 * 8), (None, 10_000 * 8)])
def test_a_missing_episode_end_is_reported_after_the_time_limit(limit, after):
    alarms = Alarms([], STEPS, num_envs=8, max_episode_steps=limit)
    (without,), (ended,) = returns([None]), returns([20.0])
    for step in range(1000, after + 1001, 1000):
        assert alarms.check(without, step) == []
    (alarm,) = alarms.check(without, after + 2000)
    assert alarm.name == "no_episodes"
    assert f"{(after + 1000) // 8:,} steps of each environment" in alarm.text
    assert alarms.check(ended, after + 3000) == []


def test_lines_of_evaluations_do_not_count_as_training_without_episodes():
    assert names([{"eval/return_mean": 1.0}] * 100, max_episode_steps=10) == []


def test_returns_that_rise_are_healthy():
    assert names(returns(20 + 2 * np.arange(100) + NOISE)) == []
    at_once = [20, 35, 60, 180, 450] + [500] * 95
    assert names(returns(at_once)) == []


@pytest.mark.parametrize("value", [0.0, -200.0])
def test_returns_that_are_all_equal_are_reported(value):
    assert names(returns([value] * 100)) == ["no_reward"]
    assert names(returns([value] * 5 + [value + 1] + [value] * 94)) != ["no_reward"]


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_flat_returns_are_reported_after_half_a_run(scale):
    values = np.random.default_rng(0).normal(20, scale, size=1000)
    ((number, name, text),) = raised(returns(values))
    assert name == "return_flat"
    assert 500 <= number <= 600
    noise = float(re.search(r"differ by ([\d.]+)\.", text)[1])
    assert noise == pytest.approx(scale, rel=0.1)


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_flat_returns_of_a_pretrained_agent_are_healthy(scale):
    lines = returns(500 + scale * NOISE)
    assert len(raised(lines)) == 1
    assert raised(lines, inherited=True) == []


@pytest.mark.parametrize("inherited", [False, True])
def test_returns_that_are_lost_again_are_reported(inherited):
    values = [*np.linspace(20, 400, 50), *np.linspace(400, 30, 5), *[25.0] * 45]
    values += NOISE
    ((number, name, text),) = raised(returns(values), inherited=inherited)
    assert name == "return_fell"
    assert number < 70
    assert f"{values[:3].mean():.5g} at the start" in text


def test_returns_that_are_not_finite_are_ignored():
    values = 20 + 2 * np.arange(100) + NOISE
    values[::7] = math.nan
    values[3] = math.inf
    assert names(returns(values)) == []


METRICS = ["x", "env/masked", "episode/return_mean"]
NUMBER = st.one_of(st.floats(), st.floats(-2, 2), st.just(0.0))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(METRICS), NUMBER), max_size=40))
def test_no_line_of_metrics_causes_an_error(lines):
    alarms = Alarms([ROW], STEPS, num_envs=2)
    for number, line in enumerate(lines):
        for alarm in alarms.check(line, 1000 * number):
            assert alarm.text
