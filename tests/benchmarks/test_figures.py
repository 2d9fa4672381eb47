"""Figures of our own: trends of long runs, the replay, numbers of environments."""

import dataclasses

import numpy as np
import pytest

from benchmarks import endurance, replay
from benchmarks.inside import enduring, replayed, scaled
from benchmarks.measure import results, tables

STEPS = [50_000 * i for i in range(1, 21)]


def trend(values, name="learner_rss_mib"):
    points = [{"steps": s, name: v} for s, v in zip(STEPS, values, strict=False)]
    return endurance.trend(points, name)


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
    noisy = [100 + slope * s / 1e6 + (-1) ** (s // 50_000) for s in STEPS]
    assert trend(noisy).verdict == verdict


def test_a_leak_in_strong_noise_is_not_called_level():
    noise = np.random.default_rng(0).normal(0, 10, len(STEPS))
    found = trend([100 + 5 * s / 1e6 + x for s, x in zip(STEPS, noise, strict=True)])
    assert found.low <= 0 <= found.high
    assert found.verdict == "unclear"


def test_a_long_run_has_several_points_and_one_trace(preset):
    found = enduring.measure(enduring.Enduring(preset, steps=8000, every=2000))
    points = found["points"]
    assert len(points) >= 3
    assert points[-1]["steps"] >= 8000
    assert {point["traces"] for point in points} == {1}
    assert all(point["seconds_per_step"] > 0 for point in points)


@pytest.mark.parametrize("train", [pytest.param(True, marks=pytest.mark.slow), False])
def test_scaling_is_measured_for_a_single_environment(train):
    found = scaled.measure(scaled.Scaled(1, train, rollout_length=8, seconds=0.01))
    assert found["env_steps_per_second"] > 0
    assert found["iterations"] >= 1
    assert found["workers"] == 1
    assert found["learner_rss_mib"] > found["workers_rss_mib"] > 0


SMALL = {"capacity": 96, "num_envs": 4, "batch_size": 8, "side": 12, "seconds": 0.0}


@pytest.mark.parametrize(
    "name", [pytest.param("frames-graph", marks=pytest.mark.slow), "priority-compiled"]
)
def test_a_small_replay_is_filled_and_measured(name):
    row = replay.ROWS[name]
    found = replayed.measure(dataclasses.replace(row.work, **SMALL, repeats=3))
    assert 96 - 4 * 4 <= found["transitions"] <= 96
    assert {*row.figures} <= {*found}


def test_a_sample_with_too_few_transitions_is_refused(monkeypatch):
    program = replayed._program

    def without_samples(replay, work, parts):
        return program(replay, work, [x for x in parts if x != "sample"])

    monkeypatch.setattr(replayed, "_program", without_samples)
    work = replayed.Replaying(False, False, **SMALL, repeats=1)
    with pytest.raises(RuntimeError, match=r"samples have \{0\.0\} rows, not 8"):
        replayed.measure(work)


def test_every_figure_of_a_replay_becomes_a_line_with_its_goal(tmp_path):
    row = replay.ROWS["frames-graph"]
    numbers = dict.fromkeys((*row.figures, "source_us"), 1.0)
    ran = [numbers | {"both_us": x, "versions": {}} for x in (90.0, 100.0, 130.0)]
    found = replay.lines("frames-graph", row, ran)
    assert [line["goal"] for line in found] == [150, None, None, 8]
    assert (found[0]["value"], found[0]["values"]) == (100, [90, 100, 130])
    path = tmp_path / "replay.jsonl"
    results.append(path, results.context(), found)
    assert (
        "| write 8 and sample 32 of 1,000,000 stacks of frames, a graph with compiled "
        "parts | 100 µs | 90 to 130 | at most 150 |" in tables.costs(results.read(path))
    )
