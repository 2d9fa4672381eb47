"""Tests that docs/serving.md matches the code."""

import dataclasses
import json
import pathlib
import re
import runpy
import shlex

import requests

from tests.serving import exports, served
from tests.serving.test_app import lines
from tfagents_batch.scripts import join as script
from tfagents_batch.serving.join import JoinSummary

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs/serving.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CURL = re.findall(r"^curl (.*)$", PAGE, re.MULTILINE)


def run(folder, text):
    path = folder / "page.py"
    path.write_text(text)
    runpy.run_path(str(path))


def curl(command, url):
    """Send the request of a curl command."""
    words = shlex.split(command)
    admin = {"Authorization": f"Bearer {served.TOKEN}"} if "$admin" in words else {}
    (target,) = [x for x in words if x.startswith("http://")]
    data = words[words.index("-d") + 1].encode() if "-d" in words else None
    method = "POST" if data or "POST" in words else "GET"
    target = target.replace("http://127.0.0.1:8080", url)
    options = {"headers": admin, "timeout": served.DEADLINE}
    return requests.request(method, target, data=data, **options)


def test_the_predictor_and_the_client_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    export = exports.discrete(tmp_path / "exports/cartpole")
    assert len(PYTHON) == 2
    run(tmp_path, PYTHON[0])
    with served.process(export, "--log=decisions") as server:
        run(tmp_path, PYTHON[1].replace("http://127.0.0.1:8080", server.url))
    assert len(lines(tmp_path / "decisions")) == 3
    assert script.main(["--decisions=decisions", "--output=rows"]) == 0
    _, err = capsys.readouterr()
    assert "answered    3\n" in err
    assert {line.split()[0] for line in err.splitlines()} == {
        field.name for field in dataclasses.fields(JoinSummary)
    }


def test_the_requests_of_the_page_are_answered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exports.discrete(tmp_path / "exports/cartpole-2", seed=1)
    plain = exports.discrete(tmp_path / "exports/cartpole")
    named = exports.discrete(
        tmp_path / "named", masked=True, names=["send", "drop"], features=[0, 3, 5, 6]
    )
    by_names = [x for x in CURL if "possible_actions" in x]
    others = [x for x in CURL if x not in by_names]
    assert (len(by_names), len(others)) == (1, 9)
    for export, commands in ((plain, others), (named, by_names)):
        flags = f"--log={tmp_path / export.name}-log", "--admin_token=admin"
        with served.process(export, *flags) as server:
            for command in commands:
                answer = curl(command, server.url)
                assert answer.status_code == 200, (command, answer.text)


def test_the_answer_of_the_page_has_the_keys_of_an_answer(serve, simple):
    (text,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    body = serve(simple).ask("/v1/act", {"observation": [1, 2, 3, 4]}).body
    assert {*json.loads(text)} == {*body}


def test_every_measure_and_count_is_explained(serve, simple, tmp_path):
    part = PAGE.partition("## Measures")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?`) \|", part, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    text = serve(simple, log=str(tmp_path)).ask("/metrics").body
    found = re.findall(r"# TYPE tfagents_batch_(\w+) ", text)
    assert named == {*found}
    counts = re.findall(r"^\| `(\w+)` \| (?!None|False|0|last)", PAGE, re.MULTILINE)
    assert {field.name for field in dataclasses.fields(JoinSummary)} <= {*counts}


def test_containers_get_the_token_by_its_variable_and_own_their_volume():
    compose = (ROOT / "docker/compose.yml").read_text()
    assert "--token" not in compose and "TFAGENTS_BATCH_TOKEN" in compose
    base = (ROOT / "docker/Dockerfile").read_text().partition("FROM base")[0]
    assert "--owner=agent --group=agent /data" in base


def test_every_status_is_explained():
    part = PAGE.partition("## Errors")[2].partition("\n## ")[0]
    listed = {
        *re.findall(r"\b[45]\d\d\b", " ".join(re.findall(r"^\| (.*?) \|", part, re.M)))
    }
    source = "".join(
        path.read_text()
        for path in (ROOT / "tfagents_batch/serving/server").glob("*.py")
    )
    used = {*re.findall(r"Refused\(\s*(\d+)", source)} | {"408", "422", "429", "500"}
    used |= {"400", "431"}  # of Granian
    assert used == listed
