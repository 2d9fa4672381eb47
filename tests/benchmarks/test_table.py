"""Tables and pictures of results; the docs must show those of our files."""

import pathlib

import pytest

from benchmarks import plots, table
from benchmarks.measure import results
from tfagents_batch.errors import UserError

PAGE = pathlib.Path(__file__).parents[2] / "docs/benchmarks.md"


def test_the_tables_of_the_docs_equal_those_of_the_results(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    assert table.main(table.Command(page=str(page))) == 0
    assert page.read_text() == PAGE.read_text(), (
        "write them again: python -m benchmarks.table --page=docs/benchmarks.md"
    )


def test_the_picture_shows_results_or_an_error_names_their_absence(tmp_path):
    pytest.importorskip("matplotlib")
    flags = plots.Command(folder=str(tmp_path), out=str(tmp_path))
    with pytest.raises(UserError, match="has no results to draw"):
        plots.main(flags)
    lines = results.read(results.FOLDER / "training.jsonl")
    results.append(tmp_path / "training.jsonl", {}, lines[:2])
    assert plots.main(flags) == 0
    assert (tmp_path / "benchmarks.png").read_bytes().startswith(b"\x89PNG")


def test_the_chart_of_speeds_has_a_bar_for_each_other_library(tmp_path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    drawn = []
    monkeypatch.setattr(pyplot, "close", drawn.append)
    rows = results.newest(results.read(results.FOLDER / "training.jsonl"))
    names = ["ppo-cartpole-p1", "ppo-cartpole-p1-peers", "ga3c-pong-stride1"]
    shown = [line for name in names for line in rows[name]]
    plots.speeds(shown, str(tmp_path / "x.png"))
    (axis,) = drawn[0].axes
    lines = shown[:-1]  # not our own baseline
    widths = [bar.get_width() for bar in axis.patches]
    assert widths == [line["ratio"]["median"] for line in lines]
    assert [x.get_text() for x in axis.get_yticklabels()] == ["PPO, CartPole-v1, P1"]
    legend = [x.get_text() for x in axis.get_legend().get_texts()]
    assert legend == ["equal speed", "Stable-Baselines3", "SBX", "TF-Agents"]
