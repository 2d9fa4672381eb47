import pytest

from tests.training.log.test_curves import make_run
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import plot
from tfagents_batch.training.log import curves


def panel_labels(logdir, metrics=(), compare=False):
    """Return ``{(title, text at the y-axis): labels}`` of the panels."""
    found = plot.panels(curves.group([logdir]), metrics, compare)
    return {(p.title, p.quantity): [label for label, _ in p.lines] for p in found}


@pytest.fixture
def logs(tmp_path):
    folder = tmp_path / "logs"
    for seed in (1, 2):
        make_run(folder, seed, [1, 2, 3], evals=[2, 3])
    make_run(folder, 1, [1, 2, 3], name="other")
    return folder


def test_plot_writes_a_picture_and_prints_its_path(logs, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    for number, options in enumerate([[], ["--compare"]]):
        out = tmp_path / f"{number}.png"
        assert plot.main([f"--logdir={logs}", f"--out={out}", *options]) == 0
        assert out.read_bytes().startswith(b"\x89PNG")
        assert capsys.readouterr().out.strip() == str(out)


def test_returns_of_training_and_of_evaluations_are_lines_of_a_panel(logs):
    assert panel_labels(logs) == {
        ("cartpole on CartPole-v1", "return"): [
            "training: mean of 2 seeds, 95 % interval",
            "evaluation: mean of 2 seeds, 95 % interval",
        ],
        ("other on CartPole-v1", "return"): ["training: 1 seed"],
    }


def test_evaluations_of_only_some_runs_are_plotted(tmp_path):
    make_run(tmp_path, 1, [1, 2, 3], evals=[2, 3])
    make_run(tmp_path, 2, [1, 2, 3])
    make_run(tmp_path, 2, [1, 2, 3])  # the same seed again
    (labels,) = panel_labels(tmp_path).values()
    assert labels == ["training: mean of 3 runs, 95 % interval", "evaluation: 1 seed"]


def test_compared_groups_are_lines_of_a_panel_for_each_metric(logs):
    assert panel_labels(logs, compare=True) == {
        ("CartPole-v1, training", "return"): [
            "cartpole: mean of 2 seeds, 95 % interval",
            "other: 1 seed",
        ],
        ("CartPole-v1, evaluation", "return"): [
            "cartpole: mean of 2 seeds, 95 % interval"
        ],
    }


def draw(monkeypatch, logs, out, *flags):
    """Return the figure that is drawn."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    drawn = []
    monkeypatch.setattr(pyplot, "close", drawn.append)
    assert plot.main([f"--logdir={logs}", f"--out={out}", *flags]) == 0
    return drawn[0]


def test_the_text_of_a_figure_can_be_read_on_a_page(logs, tmp_path, monkeypatch):
    """A page shows a wide picture smaller, with its text."""
    for number in (3, 4, 5):
        make_run(logs, 1, [1, 2, 3], name=f"other-{number}")
        figure = draw(monkeypatch, logs, tmp_path / "x.png")
        assert figure.get_size_inches()[0] <= 9
        for axis in (each for each in figure.axes if each.get_visible()):
            parts = axis.title, axis.yaxis.label, *axis.get_legend().get_texts()
            assert min(part.get_fontsize() for part in parts) >= 9


def test_a_curve_of_one_point_is_seen(tmp_path, monkeypatch):
    make_run(tmp_path, 1, [1, 2, 3], evals=[2])
    figure = draw(monkeypatch, tmp_path, tmp_path / "x.png")
    markers = [line.get_marker() for line in figure.axes[0].get_lines()]
    assert markers == ["", "o"]


def test_thresholds_are_in_the_legend(logs, tmp_path, monkeypatch):
    figure = draw(monkeypatch, logs, tmp_path / "x.png", "--threshold=2,-3.5")
    axes = figure.axes
    last = [axis.get_legend().get_texts()[-1].get_text() for axis in axes]
    assert last == ["threshold 2", "threshold -3.5"]
    assert {axis.get_ylabel() for axis in axes} == {"return"}


def test_only_requested_metrics_are_plotted(logs):
    found = panel_labels(logs, ["episode/return_mean"])
    assert all(len(labels) == 1 for labels in found.values())
    with pytest.raises(UserError, match="has no metric 'loss/none'; it has episode/"):
        panel_labels(logs, ["loss/none"])


def test_a_run_without_the_metric_is_left_out_with_a_message(logs, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    stopped = make_run(logs, 3, [])
    (stopped / "metrics.jsonl").unlink()
    out = f"--out={tmp_path / 'x.png'}"
    assert plot.main([f"--logdir={logs}", out]) == 0
    expected = f"{stopped} is left out: it has no episode/return_mean\n"
    assert capsys.readouterr().err == expected
    assert plot.main([f"--logdir={logs}", out, "--metric=eval/return_mean"]) == 0
    assert capsys.readouterr().err.count("is left out: it has no eval/return_mean") == 2
    (labels,) = panel_labels(logs, ["eval/return_mean"]).values()
    assert labels == ["evaluation: mean of 2 seeds, 95 % interval"]


def test_thresholds_are_one_or_as_many_as_panels(logs):
    with pytest.raises(UserError, match="3 thresholds for 2 panels"):
        plot.main([f"--logdir={logs}", "--threshold=1,2,3"])


def test_a_folder_without_runs_is_named(tmp_path):
    with pytest.raises(UserError, match=str(tmp_path)):
        plot.main([f"--logdir={tmp_path}"])
