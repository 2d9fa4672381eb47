"""Tables and pictures of results; the docs must show those of our files."""

import pathlib

import pytest

from benchmarks import plots, table
from benchmarks.measure import curves_plot, results
from tfagents_batch.errors import UserError

PAGE = pathlib.Path(__file__).parents[2] / "docs/benchmarks.md"


def test_the_tables_of_the_docs_equal_those_of_the_results(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    assert table.main(table.Command(page=str(page))) == 0
    assert page.read_text() == PAGE.read_text(), (
        "write them again: python -m benchmarks.table --page=docs/benchmarks.md"
    )


def test_pictures_show_results_or_an_error_names_their_absence(tmp_path):
    pytest.importorskip("matplotlib")
    bars, curves, none = (tmp_path / name for name in ("a.png", "b.png", "none.jsonl"))
    assert plots.main(plots.Command(out=str(bars))) == 0
    lines = results.read(results.FOLDER / "learning.jsonl")
    curves_plot.draw(lines[:2], str(curves))
    for path in (bars, curves):
        assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match="has no results to draw"):
        plots.main(plots.Command(results=str(none)))
    with pytest.raises(UserError, match=r"run benchmarks\.learning first"):
        curves_plot.draw([], str(curves))
