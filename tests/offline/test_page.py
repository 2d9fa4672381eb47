"""Tests that docs/offline.md matches the code."""

import importlib
import json
import pathlib
import re
import shlex

import pytest

from tests.offline import made
from tests.support import brief, logged
from tfagents_batch.offline import rules, schema, validator

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs/offline.md").read_text()


def test_the_code_of_the_part_on_rows_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    part = PAGE.partition("\n## Rows\n")[2].partition("\n## ")[0]
    for code in re.findall(r"```python\n(.*?)```", part, re.DOTALL):
        brief.run(code, tmp_path)
    out = capsys.readouterr().out
    assert "('send', 1)" in out and "2 rows: 0 errors" in out


def test_the_code_of_the_part_on_the_timeline_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    made.write(tmp_path / "logs/rows.jsonl", made.episode(3))
    part = PAGE.partition("\n## Timeline\n")[2].partition("\n## ")[0]
    for code in re.findall(r"```python\n(.*?)```", part, re.DOTALL):
        brief.run(code, tmp_path)
    assert re.search(r"^samples +3$", capsys.readouterr().out, re.MULTILINE)


def test_the_code_on_behavior_cloning_runs(tmp_path, monkeypatch):
    brief.shorten(monkeypatch, tmp_path, linear_ppo=False)
    rows = [x for i in range(8) for x in made.episode(3, mdp_id=f"u{i}")]
    logged.build(rows, tmp_path / "table", "discrete")
    page = (ROOT / "docs/algorithms/bc.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert brief.run(code, tmp_path)["run"].finished


def test_the_code_on_features_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows").mkdir()
    rows = [x for i in range(12) for x in made.episode(3, mdp_id=f"u{i}")]
    made.write(tmp_path / "rows/rows.jsonl", rows)
    page = (ROOT / "docs/features.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    brief.run(code, tmp_path)
    assert json.loads((tmp_path / "features.json").read_text())["features"]


@pytest.mark.parametrize(
    "less",
    [
        {"--rows=60000": "--rows=2000", "rows/dqn": "rows/dqn --steps=200"},
        pytest.param({}, marks=pytest.mark.slow),  # as the page has them
    ],
)
def test_the_commands_lead_from_rows_to_a_policy(tmp_path, less, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    part = PAGE.partition("\n## From rows to a policy\n")[2].partition("\n## ")[0]
    commands = re.findall("^tfagents-batch (.*)$", part, re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        for text, shorter in less.items():
            command = command.replace(text, shorter)
        words = shlex.split(command)
        runs = [*tmp_path.glob("logs/*")]
        argv = [x.replace("logs/<run>", str(*runs)) if "<" in x else x for x in words]
        script = importlib.import_module(f"tfagents_batch.scripts.{argv[0]}")
        capsys.readouterr()
        assert script.main(argv[1:]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["mean_return"] >= (5 if less else 190)


def test_every_column_of_a_sample_is_explained(tmp_path):
    part = PAGE.partition("\n### Samples\n")[2].partition("\n### ")[0]
    names = {*re.findall(r"`(\w+)`", part)}
    rows = [x | {"action_log_density": -1.0} for x in made.episode(3)]
    for given, mode in ((rows, "discrete"), ([made.continuous()], "continuous")):
        _, (sample, *_) = logged.build(given, tmp_path / mode, mode)
        assert sample.keys() <= names


def test_every_column_is_explained():
    rows = re.findall(r"^\| (`.*?`) \|", PAGE, re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert {*schema.types("discrete")} <= names


def test_every_rule_is_explained():
    single = [
        each.name
        for mode in ("discrete", "parametric", "continuous")
        for each in rules.rules(mode, ("send",), 0.0, True, {"click": 1.0})
    ]
    source = pathlib.Path(validator.__file__).read_text()
    others = re.findall(r'(?:Finding\(|add\(|rule = |Rule\()"(\w+)"', source)
    assert {"empty", "shared_feature", "feature_key", "not_json"} & {*others}
    for name in {*single, *others, *rules.WARNINGS}:
        assert f"`{name}`" in PAGE, name
