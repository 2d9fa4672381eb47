"""Tests that the code of docs/export.md runs."""

import pathlib
import re
import runpy

import tfagents_batch as tfb
from tests.support import untrained

PAGE = (pathlib.Path(__file__).parents[2] / "docs/export.md").read_text()


def test_the_code_of_the_page_runs(tmp_path, monkeypatch, capsys):
    options = {"num_envs": 1, "num_workers": 0}
    run = untrained.folder("ppo", "CartPole-v1", tmp_path, **options)
    memory = {"network": {"core": "gru", "hidden": [8]}}
    recurrent = untrained.folder("ppo", "CartPole-v1", tmp_path, memory, **options)
    monkeypatch.chdir(tmp_path)
    tfb.export(run, "onnx", "export")
    tfb.export(recurrent, "onnx", "recurrent")
    for format in ("saved_model", "litert"):
        tfb.export(run, format, f"export-{format}")
    parts = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(parts) == 4
    for i, text in enumerate(parts):
        script = tmp_path / f"part_{i}.py"
        script.write_text(text)
        runpy.run_path(str(script))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("[1. 1.]") and len(lines) == 4
    assert len({line.partition("]")[0] for line in lines[:3]}) == 1  # the same actions
