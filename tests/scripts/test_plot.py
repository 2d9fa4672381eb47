import pytest

from tests.training.test_curves import make_run
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import plot


def test_it_writes_a_picture_and_says_where(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    for seed in (1, 2):
        make_run(tmp_path / "logs", seed, [1, 2, 3])
    out = tmp_path / "curves.png"
    logdir = f"--logdir={tmp_path / 'logs'}"
    assert plot.main([logdir, f"--out={out}", "--threshold=2"]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.strip() == str(out)


def test_a_threshold_too_many_is_refused(tmp_path):
    make_run(tmp_path, 1, [1, 2])
    with pytest.raises(UserError, match="2 thresholds for 1 panels"):
        plot.main([f"--logdir={tmp_path}", "--threshold=1,2"])


def test_a_folder_without_runs_is_named(tmp_path):
    with pytest.raises(UserError, match=str(tmp_path)):
        plot.main([f"--logdir={tmp_path}"])
