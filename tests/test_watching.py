"""Tests that docs/watching.md explains every metric, event and alarm of a run."""

import pathlib
import re

import pytest

import tfagents_batch as tfb
from tests.nn.cases import make_spec
from tfagents_batch.algorithms import dqn, ppo, ppo_alarms
from tfagents_batch.interfaces import Limit
from tfagents_batch.training.diagnostics import alarms
from tfagents_batch.training.log.logger import read_events, read_metrics

PAGE = (pathlib.Path(__file__).parents[1] / "docs" / "watching.md").read_text()
QUICK = {
    "num_envs": 2,
    "rollout.length": 64,
    "steps": 200,  # two iterations
    "log_every": 1,
    "eval_every": 100,
    "eval_episodes": 2,
    "compile": "off",
    "compile_cache": False,
}


def documented():
    """Return the names in the first column of the tables on the page."""
    rows = re.findall(r"^\| (`.+?`) \|", PAGE, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def missing(folder):
    lines = read_metrics(folder)
    assert len(lines) >= 3
    return {name for line in lines for name in line} - {"step"} - documented()


@pytest.mark.parametrize(
    ("env", "objective", "options"),
    [
        ("CartPole-v1", "clip", {"num_workers": 1}),
        (
            "Pendulum-v1",
            "both",
            {"num_workers": 0, "overlap": True, "eval_actions": "both"},
        ),
    ],
)
def test_every_metric_of_a_run_is_documented(tmp_path, env, objective, options):
    settings = {"epochs": 1, "objective": objective}
    run = tfb.train(env=env, logdir=tmp_path, settings=settings, **QUICK, **options)
    assert missing(run.logdir) == set()
    kinds = {event["event"] for event in read_events(run.logdir)}
    assert kinds <= documented()


def test_every_alarm_is_documented():
    shared = [row for row in vars(alarms).values() if isinstance(row, Limit)]
    spec = make_spec()
    rows = (
        *ppo_alarms.rows(ppo.Config()),
        *dqn.DQN(dqn.Config(), spec).alarms,
        *shared,
    )
    section = PAGE.partition("## Alarms")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE)
    assert sorted(row.name for row in rows) == sorted(named)


def test_every_name_is_explained_once():
    rows = re.findall(r"^\| (`.+?`) \|", PAGE, re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert sorted(names) == sorted(set(names))
