"""Tables and pictures of results, and that the docs show those of our files."""

import json
import pathlib

import pytest

from benchmarks import curves_plot, plots, results, table, workers
from tfagents_batch.errors import UserError

PAGE = pathlib.Path(__file__).parents[2] / "docs/benchmarks.md"


def line(kind, setting, theirs, peer="Peer", goal=None):
    return {
        "peer": peer,
        "kind": kind,
        "setting": setting,
        "goal": goal,
        "rival_value": theirs,
    }


def test_the_tables_of_the_docs_are_those_of_the_results(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    assert table.main([f"--page={page}"]) == 0
    assert page.read_text() == PAGE.read_text(), (
        "write them anew: python -m benchmarks.table --page=docs/benchmarks.md"
    )


def test_a_peer_is_shown_by_its_best_setting_and_by_the_best_against_a_goal():
    slow, fast = line("Many", "slow", 5.0, goal=8), line("Many", "fast", 10.0, goal=8)
    one, limit = line("One", "", 50.0), line("bare", "", 200.0, "limit", 0.6)
    failed = line("One", "broken", 1.0) | {"failed": {}}
    shown = table.best([slow, fast, one, limit, failed])
    assert shown == [fast, one, limit, failed]


def test_only_the_newest_run_of_a_row_is_shown():
    rows, dates = ("a", "a", "b"), ("2026-01-01", "2026-02-01", "2026-01-01")
    lines = [{"row": r, "date": d} for r, d in zip(rows, dates, strict=True)]
    assert results.newest(lines) == {"a": [lines[1]], "b": [lines[2]]}


def test_a_damaged_results_file_is_named_and_one_that_is_not_there_is_empty(tmp_path):
    path = tmp_path / "x.jsonl"
    assert results.read(path) == []
    path.write_text(json.dumps({}) + "\nbroken\n")
    with pytest.raises(UserError, match="line 2 is not JSON"):
        results.read(path)


def test_costs_are_medians_with_their_goals():
    found = [{"ready_seconds": x} for x in (3.0, 1.0, 2.0)]
    (line,) = workers.lines(found, {})
    assert (line["row"], line["value"], line["goal"]) == ("ready_seconds", 2.0, 1.5)


def test_a_page_without_the_marks_of_a_table_is_refused():
    with pytest.raises(UserError, match="no <!-- table: x -->"):
        table.written("<!-- table: y --> <!-- end -->", {"x": "new"})


def test_pictures_are_drawn_of_results_or_their_absence_is_said(tmp_path):
    pytest.importorskip("matplotlib")
    bars, curves, none = (tmp_path / name for name in ("a.png", "b.png", "none.jsonl"))
    assert plots.main([f"--out={bars}"]) == 0
    lines = results.read(results.FOLDER / "learning.jsonl")
    curves_plot.draw(lines[:2], str(curves))
    for path in (bars, curves):
        assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match="has no results to draw"):
        plots.main([f"--results={none}"])
    with pytest.raises(UserError, match=r"run benchmarks\.learning first"):
        curves_plot.draw([], str(curves))
