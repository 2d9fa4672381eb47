"""Costs of our own code: growth of long runs, the replay, and the recorded lines."""

import dataclasses

import pytest

from benchmarks import costs
from benchmarks.inside import grown, replayed
from benchmarks.measure import results, tables


def test_a_run_is_measured_after_its_first_iteration(preset):
    work = grown.Growing({"config": preset, "steps": 1000}, every_seconds=0.001)
    figures = grown.measure(work)
    assert figures["env_steps_per_second"] > 0
    assert figures["learner_rss_mib"] > figures["workers_rss_mib"] > 0
    assert figures["memory_ratio"] == pytest.approx(1, abs=0.2)
    assert figures["step_seconds_ratio"] > 0


@pytest.mark.parametrize(
    "name", [pytest.param("frames-graph", marks=pytest.mark.slow), "priority-compiled"]
)
def test_a_small_replay_is_filled_and_measured(name):
    cost = costs.ROWS[name]
    small = {"capacity": 96, "num_envs": 4, "batch_size": 8, "side": 12, "seconds": 0.0}
    figures = replayed.measure(dataclasses.replace(cost.work, **small, repeats=3))
    assert 96 - 4 * 4 <= figures["transitions"] <= 96
    assert {*cost.figures} <= {*figures}


def test_every_figure_becomes_a_line_with_its_goal(tmp_path):
    cost = costs.ROWS["frames-graph"]
    numbers = dict.fromkeys(cost.figures, 1.0) | {"versions": {}}
    measured = [numbers | {"both_us": x} for x in (90.0, 100.0, 130.0)]
    lines = costs.lines("frames-graph", cost, measured)
    assert [line["goal"] for line in lines] == [150, None, None, 8]
    assert (lines[0]["value"], lines[0]["values"]) == (100, [90, 100, 130])
    path = tmp_path / "replay.jsonl"
    results.append(path, results.context(), lines)
    assert (
        "| write 8 and sample 32 of 1,000,000 stacks of frames, a graph with compiled "
        "parts | 100 µs | 90 to 130 | at most 150 |" in tables.costs(results.read(path))
    )


def test_every_row_of_costs_has_a_table():
    assert {cost.file for cost in costs.ROWS.values()} <= {*tables.WRITERS}
