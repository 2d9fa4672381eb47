"""The command decides about a run by logged rows."""

import contextlib
import json
import pathlib
import re
import shutil
import types
from unittest import mock

import numpy as np
import pytest

import tfagents_batch as tfb
from tests.evaluation import grid
from tests.learning import gridworld
from tests.offline import made
from tests.support import brief
from tfagents_batch.errors import UserError
from tfagents_batch.evaluation import page as pages
from tfagents_batch.evaluation import policies, rules
from tfagents_batch.logged import seen
from tfagents_batch.offline import table_reader
from tfagents_batch.offline.reader import open_rows
from tfagents_batch.offline.timeline import TimelineConfig, build
from tfagents_batch.scripts import command_line, decide
from tfagents_batch.sources.queue_settings import QueueSettings
from tfagents_batch.sources.replay_settings import ReplaySettings
from tfagents_batch.sources.rollout_settings import RolloutSettings
from tfagents_batch.training import training_run
from tfagents_batch.training.run_folder import runs

ROOT = pathlib.Path(__file__).parents[2]
FAST = ["--folds=2", "--values=tabular", "--resamples=200"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a table of uniform moves, and a run that learned from it."""
    folder = tmp_path_factory.mktemp("decide")
    shares = {"train_share": 0.5, "eval_share": 0.5}
    found = grid.table(folder / "table", gridworld.uniform(), 12_000, 0, **shares)
    run = tfb.train_offline(
        "dqn",
        found.folder,
        steps=600,
        logdir=folder / "logs",
        eval_every=0,
        settings={"gamma": gridworld.GAMMA, "learning_rate": 3e-3},
    )
    return found, run.logdir


def test_a_trained_policy_is_deployed(trained, tmp_path, capsys):
    table, run = trained
    output = tmp_path / "decision"
    flags = [f"--logdir={run}", f"--data={table.folder}", f"--output={output}", *FAST]
    assert decide.main(flags) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[-1].startswith("deploy: An episode")
    assert said.count("An episode of the policy") == 1
    found = json.loads((output / "gate.json").read_text())
    assert found["verdict"] == "deploy"
    assert found["evaluation"]["diagnostics"]["reach"] < 0.05
    page = (output / "index.html").read_text()
    assert page.count("<svg ") == 5 and "http" not in page and "<script" not in page


@pytest.mark.parametrize("where", ["evaluation", "page"])
def test_a_decision_that_fails_leaves_no_earlier_one(tmp_path, monkeypatch, where):
    """Neither an old verdict nor an old page stands for a decision that failed."""

    def fail(*arguments, **settings):
        raise KeyError(where)

    monkeypatch.setattr(table_reader, "partition", fake)
    monkeypatch.setattr(command_line, "check_run", fake)
    monkeypatch.setattr(policies, "opened", fake)
    monkeypatch.setattr(rules, "decide", fake)
    if where == "page":
        monkeypatch.setattr(pages, where, fail)
    else:
        opened = contextlib.nullcontext(fail)
        monkeypatch.setattr(policies, "opened", lambda *arguments: opened)
    for name in ("gate.json", "index.html"):
        (tmp_path / name).write_text("earlier")
    arguments = ["decide", "--logdir=a", "--data=b", f"--output={tmp_path}"]
    monkeypatch.setattr("sys.argv", arguments)
    assert command_line.run(decide.main) == 70
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("--logdir=nowhere", "nowhere"),
        ("--checkpoint=7", "7"),
        ("--data=nowhere", "nowhere has no timeline"),
        ("--rules=nowhere", "^nowhere cannot be read: No such file"),
        ("--folds=-1", "folds"),
    ],
)
def test_a_misspelled_flag_leaves_an_earlier_decision(
    trained, tmp_path, wrong, message
):
    table, run = trained
    for name in ("gate.json", "index.html"):
        (tmp_path / name).write_text("earlier")
    flags = [f"--logdir={run}", f"--data={table.folder}", f"--output={tmp_path}"]
    flags = [x for x in flags if not x.startswith(wrong.partition("=")[0])]
    with pytest.raises(UserError, match=message):
        decide.main([*flags, wrong])
    assert {x.read_text() for x in tmp_path.iterdir()} == {"earlier"}


def fake(*arguments, **settings):
    """Return what stands for a table, an evaluation and a verdict."""
    found = mock.MagicMock()
    found.to_dict.return_value = {}
    return found


@pytest.mark.parametrize(
    "names", [["index.html"], ["gate.json", "notes.txt"], ["index.html", "a/b"]]
)
def test_files_that_no_decision_wrote_are_not_replaced(tmp_path, names):
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    with pytest.raises(UserError, match="which no decision wrote"):
        decide.main(["--logdir=a", "--data=b", f"--output={tmp_path}"])
    assert {(tmp_path / name).read_text() for name in names} == {"mine"}


@pytest.mark.parametrize(
    ("limits", "status", "reason"),
    [
        ({"most_actions": {"3": 0.1}}, 1, "takes 3 in"),
        ({"uplift": 8.2}, 3, " would tell"),
    ],
)
def test_rules_change_the_verdict(trained, tmp_path, capsys, limits, status, reason):
    table, run = trained
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps(limits))
    flags = [f"--logdir={run}", f"--data={table.folder}", f"--rules={rules}", *FAST]
    assert decide.main([*flags, f"--output={tmp_path}/decision"]) == status
    assert reason in capsys.readouterr().out.splitlines()[-1]


def test_the_policy_is_the_one_that_is_exported(trained, tmp_path):
    table, run = trained
    served = {}

    def probabilities(exploration):
        found = tfb.evaluate_offline(
            run,
            table.folder,
            exploration=exploration,
            settings={"folds": 2, "values": "tabular", "resamples": 100},
        )
        return np.array(list(found.diagnostics.served.values()))

    served = {x: probabilities(x) for x in (0.0, 0.5, 1.0)}
    np.testing.assert_allclose(served[0.5], (served[0.0] + served[1.0]) / 2, atol=1e-6)
    columns = table_reader.episodes(table, _unseen(table, run), np.nan)
    columns["state"] = np.nan_to_num(columns["state"])
    uniform = columns["mask"] / columns["mask"].sum(1, keepdims=True)
    np.testing.assert_allclose(served[1.0], uniform.mean(0), atol=1e-6)
    agent = tfb.load(run)
    state = {"state": columns["state"], "action_mask": columns["mask"].astype(np.int8)}
    chosen, _ = agent.predict(state)
    shares = np.bincount(chosen, minlength=4) / len(chosen)
    np.testing.assert_allclose(served[0.0], shares, atol=1e-6)


def _unseen(table, run):
    """Return the condition of the rows that training has not seen."""
    (record,) = runs.facts(run)["training_rows"]
    return seen.unseen(table, [seen.from_dict(record, "run.json")])


def _judged(run, table, **settings):
    """Return the decision about a run, and the evaluation, by means of cells."""
    given = {"values": "tabular", "resamples": 100} | settings
    found = tfb.evaluate_offline(run, table.folder, settings=given)
    return rules.decide(found, rules.DeployRules()), found


def _rule(decision, name):
    (found,) = (x for x in decision.findings if x.rule == name)
    return found


def test_a_run_is_judged_by_episodes_that_its_training_has_not_seen(trained):
    table, run = trained
    decision, found = _judged(run, table)
    judged = table_reader.episodes(table, _unseen(table, run))
    assert found.diagnostics.episodes == len(np.unique(judged["episode"]))
    every = table_reader.of_split(table, table_reader.EVALUATE, 10**6)
    assert len(judged["reward"]) < 0.6 * len(every["reward"])
    assert (found.judged_by, found.values_from) == ("unseen", "folds")
    assert decision.verdict == "deploy"
    assert "are used, which its training has not seen" in decision.reason


def test_values_of_rows_that_made_the_policy_do_not_decide(trained):
    table, run = trained
    decision, found = _judged(run, table, folds=0)
    assert found.values_from == "rows for training"
    assert decision.verdict == "cannot tell"
    assert "they share its luck. Leave --folds out" in decision.reason


def _copy(run, tmp_path, **facts):
    """Return a copy of a run with other facts; None leaves one out."""
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    known = json.loads((folder / "run.json").read_text()) | facts
    known = {name: x for name, x in known.items() if x is not None}
    (folder / "run.json").write_text(json.dumps(known))
    return folder


@pytest.mark.parametrize("record", [None, [None]])
def test_a_run_that_does_not_say_what_it_saw_cannot_be_told(trained, tmp_path, record):
    table, run = trained
    decision, _ = _judged(_copy(run, tmp_path, training_rows=record), table)
    assert decision.verdict == "cannot tell"
    assert "its training may have seen them" in decision.reason


def test_another_timeline_of_the_log_does_not_hide_what_training_saw(trained, tmp_path):
    table, run = trained
    shares = {"train_share": 0.0, "eval_share": 1.0}
    other = grid.table(tmp_path / "other", gridworld.uniform(), 12_000, 0, **shares)
    decision, found = _judged(run, other)
    assert found.judged_by == "unseen"
    assert found.diagnostics.episodes == _judged(run, table)[1].diagnostics.episodes
    salted = grid.table(
        tmp_path / "salted", gridworld.uniform(), 3000, 0, salt="x", **shares
    )
    decision, found = _judged(run, salted)
    assert (found.judged_by, decision.verdict) == ("unknown", "cannot tell")


def test_a_run_that_goes_on_with_an_agent_of_rows_has_seen_its_rows(trained, tmp_path):
    table, run = trained
    later = tfb.train_offline(
        "dqn",
        table.folder,
        steps=1,
        logdir=tmp_path,
        init_from=run,
        settings={"gamma": gridworld.GAMMA, "learning_rate": 3e-3},
    ).logdir
    first = runs.facts(run)["training_rows"]
    assert runs.facts(later)["training_rows"] == [*first, *first]


def test_runs_of_environments_see_no_rows():
    for own in RolloutSettings, ReplaySettings, QueueSettings:
        assert training_run._training_rows(own()) == []


@pytest.mark.parametrize("kind", ["rows", "windows", "rollouts"])
def test_a_users_own_source_may_have_seen_any_row_if_it_does_not_say(kind):
    source = types.SimpleNamespace(kind=kind)
    assert training_run._training_rows(source) == [None]
    source.training_rows = lambda: {"fingerprint": "x"}
    assert training_run._training_rows(source) == [{"fingerprint": "x"}]


def test_a_run_that_saw_no_rows_is_judged_by_all_for_evaluation(trained, tmp_path):
    table, run = trained
    _, found = _judged(_copy(run, tmp_path, training_rows=[]), table)
    every = table_reader.of_split(table, table_reader.EVALUATE, 10**6)
    assert found.judged_by == "no rows"
    assert found.diagnostics.episodes == len(np.unique(every["episode"]))


def test_an_export_says_which_rows_training_has_seen(trained, tmp_path):
    _, run = trained
    tfb.export(run, outdir=tmp_path / "export")
    content = json.loads((tmp_path / "export" / "export.json").read_text())
    assert content["training_rows"] == runs.facts(run)["training_rows"]


def test_a_function_is_judged_as_a_run_is(trained):
    def uniform(states, possible):
        assert states.shape == (len(possible), 21)
        return possible / possible.sum(1, keepdims=True)

    table, _ = trained
    settings = {"folds": 2, "values": "tabular", "resamples": 100}
    found = tfb.evaluate_offline(uniform, table.folder, settings=settings)
    assert found.policy == "uniform"
    assert found.estimates["pdis"]["reward"].ratio.value == pytest.approx(1, abs=1e-5)
    with pytest.raises(UserError, match="no probabilities"):
        tfb.evaluate_offline(lambda s, m: m * 1.0, table.folder, settings=settings)


def test_a_function_gets_nan_where_a_feature_is_missing(trained):
    """Rows of the grid have one feature, that of their cell; terminal ones none."""
    table, _ = trained

    def uniform(states, possible):
        assert (np.isfinite(states).sum(1) == 1).all()
        assert (np.nansum(states, 1) == 1).all()
        return possible / possible.sum(1, keepdims=True)

    _, found = _judged(uniform, table)
    assert found.estimates["pdis"]["reward"].ratio.value == pytest.approx(1, abs=1e-5)


def test_a_function_that_returns_nan_is_one_line(trained):
    table, _ = trained

    def careless(states, possible):
        return possible * states[:, :1]

    with pytest.raises(UserError, match=r"careless .* where features are missing"):
        _judged(careless, table)


def test_the_code_of_the_page_runs(trained, monkeypatch, capsys):
    monkeypatch.chdir(trained[0].folder.parents[1])
    page = (ROOT / "docs/evaluation.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert brief.run(code, pathlib.Path())["result"].policy == "uniform"
    assert "Interval(" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--data=table"], "--logdir is not given"),
        (["--logdir=logs"], "--data is not given"),
        (["--logdir=logs", "--data=nowhere"], "nowhere has no timeline"),
        (
            ["--logdir=logs", "--data=table", "--rules=none.json"],
            "none.json cannot be read",
        ),
        (["--logdir=logs", "--data=table", "--fold=3"], "fold"),
    ],
)
def test_a_wrong_flag_is_one_line(flags, message):
    with pytest.raises(UserError, match=message) as error:
        decide.main(flags)
    assert "\n" not in str(error.value)


def test_other_actions_than_the_logs_are_one_line(trained, tmp_path):
    _, run = trained
    rows = [x for i in range(40) for x in made.episode(mdp_id=f"u{i}")]
    with open_rows(rows) as opened:
        build(opened, opened.find_schema(), TimelineConfig(), tmp_path / "table")
    with pytest.raises(UserError, match="can take 0, 1, 2, 3, which no row of"):
        tfb.evaluate_offline(run, tmp_path / "table")
