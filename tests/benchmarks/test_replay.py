import dataclasses

import pytest

from benchmarks import replay, table
from benchmarks.inside import replayed
from benchmarks.measure import results


@pytest.mark.parametrize(
    "name", [pytest.param("frames-graph", marks=pytest.mark.slow), "priority-compiled"]
)
def test_a_small_replay_is_filled_and_measured(name):
    work = dataclasses.replace(
        replay.ROWS[name].work,
        capacity=96,
        num_envs=4,
        batch_size=8,
        side=12,
        seconds=0.0,
        repeats=3,
    )
    found = replayed.measure(work)
    assert 96 - 4 * 4 <= found["transitions"] <= 96
    assert {*replay.ROWS[name].figures} <= {*found}


def test_a_sample_with_too_few_transitions_is_refused(monkeypatch):
    program = replayed._program

    def without_samples(replay, work, parts):
        return program(replay, work, [x for x in parts if x != "sample"])

    monkeypatch.setattr(replayed, "_program", without_samples)
    work = replayed.Replaying(False, False, 96, 4, 8, side=12, seconds=0.0, repeats=1)
    with pytest.raises(RuntimeError, match=r"samples have \{0\.0\} rows, not 8"):
        replayed.measure(work)


def test_every_figure_of_a_replay_becomes_a_line_with_its_goal(tmp_path):
    row = replay.ROWS["frames-graph"]
    numbers = dict.fromkeys((*row.figures, "source_us"), 1.0)
    ran = [numbers | {"both_us": x, "versions": {}} for x in (90.0, 100.0, 130.0)]
    found = replay.lines("frames-graph", row, ran)
    assert [line["goal"] for line in found] == [150, None, None, 8]
    assert (found[0]["value"], found[0]["values"]) == (100, [90, 100, 130])
    path = tmp_path / replay.FILE
    results.append(path, results.context(), found)
    shown = table.costs(results.read(path))
    assert (
        "| write 8 and sample 32 of 1,000,000 stacks of frames, a graph with compiled "
        "parts | 100 µs | 90 to 130 | at most 150 |" in shown
    )
