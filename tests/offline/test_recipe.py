"""The first recipe of docs/offline.md, on a small file: from a table to decisions."""

import contextlib
import importlib
import json
import pathlib
import re
import shlex

import pytest

from examples.shop import customers
from tests.serving import served

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs/offline.md").read_text()
PART = PAGE.partition("\n## From a table to a policy\n")[2].partition("\n## ")[0]
COMMANDS = re.findall(r"^((?:tfagents-batch|RUN=|curl|kill) ?.*)$", PART, re.MULTILINE)
SMALL = {
    "train": ("--steps=20", "--algorithm.network.hidden=8"),
    "decide": ("--fit.steps=20", "--fit.hidden=8", "--resamples=100"),
}


def words(line):
    """Return the words of a command, without what a shell does with it."""
    return shlex.split(re.sub(r"^RUN=\$\((.*)\)$", r"\1", line).partition(" & ")[0])


def ask_for_others(app):
    """Ask for decisions about new customers."""
    service = customers.Server(lambda *asked: app.ask(*asked).body)
    customers.play(service.choose, service.report, 60, seed=2)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Run the commands of the page in a folder; return it and what was answered."""
    folder = tmp_path_factory.mktemp("recipe")
    answers, statuses, run, app = [], {}, None, None
    with contextlib.chdir(folder), contextlib.ExitStack() as stack:
        customers.log(folder, 200, seed=1)
        for line in COMMANDS:
            name, *flags = words(line)
            if name == "kill":
                ask_for_others(app)
                stack.close()
            elif name == "curl":
                path = "/v1/" + flags[0].rpartition("/")[2]
                body = json.loads(flags[2])
                if "request_id" in body:
                    body["request_id"] = answers[0].body["request_id"]
                answers.append(app.ask(path, body))
            elif flags[0] == "serve":
                app = served.InProcess("export", stack, log="decisions")
            else:
                command, *flags = flags
                script = importlib.import_module(f"tfagents_batch.scripts.{command}")
                flags = [x.replace("$RUN", str(run)) for x in flags]
                flags = [x for x in flags if not x.startswith("--steps=")]
                statuses.setdefault(command, []).append(
                    script.main([*flags, *SMALL.get(command, ())])
                )
                (run,) = pathlib.Path("logs").glob("*") if command == "train" else [run]
    return folder, answers, statuses


def test_at_most_twelve_commands_lead_to_a_second_decision(ran):
    _, _, statuses = ran
    assert len(COMMANDS) <= 12
    # So few rows tell nothing of a policy.
    assert statuses.pop("decide") == [3, 3]
    assert {x for found in statuses.values() for x in found} == {0}


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_first_decision_of_the_page_is_to_deploy(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    customers.log(tmp_path, 18_500, seed=1)
    for line in COMMANDS:
        _, command, *flags = words(line)
        script = importlib.import_module(f"tfagents_batch.scripts.{command}")
        (run,) = pathlib.Path("logs").glob("*") if command == "decide" else [None]
        flags = [x.replace("$RUN", str(run)) for x in flags]
        assert script.main(flags) == 0
        if command == "decide":
            break
    assert capsys.readouterr().out.splitlines()[-1].startswith("deploy: An episode")
    tabular = "--values=tabular", "--output=tabular"
    assert script.main([*flags, *tabular]) == 0


def test_the_second_decision_says_that_it_is_on_the_policys_own_log(ran):
    found = json.loads((ran[0] / "decision-2/gate.json").read_text())
    assert "This log is the policy's own: nothing is to be decided." in found["reason"]


def test_a_decision_is_asked_for_by_names_and_logged_by_numbers(ran):
    folder, (decision, feedback), _ = ran
    assert decision.status == 200 and decision.body["action_name"] in customers.LETTERS
    assert feedback.status == 200 and feedback.body["known"]
    (path,) = (folder / "decisions").glob("*.jsonl")
    row = json.loads(path.read_text().partition("\n")[0])
    features = json.loads((folder / "features.json").read_text())["features"]
    names = {k: x["name"] for k, x in features.items()}
    found = {names[k]: x for k, x in row["state_features"].items()}
    assert found == {"country": 0, "age": 31, "letters": 0}
    (country,) = (x for x in features.values() if x["name"] == "country")
    assert country["categories"] == ["DE", "FR", "US"]
