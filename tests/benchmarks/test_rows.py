"""Rows, contenders and their packages as data."""

import dataclasses
import json
import pathlib
import re

import pytest

import benchmarks.contenders
from benchmarks import make_environments
from benchmarks.contenders import CONTENDERS
from benchmarks.measure import rows
from benchmarks.work.works import Stepping
from tfagents_batch.errors import UserError

FOLDER = pathlib.Path(benchmarks.contenders.__file__).parent


def test_contenders_have_files_and_rows():
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert files == {contender.module for contender in CONTENDERS.values()}
    assert {*CONTENDERS} == {*rows.contenders(rows.ROWS)}


def test_goals_are_for_rivals_and_works_are_json():
    for row in rows.ROWS.values():
        assert row.subject not in row.rivals
        rivals = [CONTENDERS[name] for name in row.rivals or (row.subject,)]
        assert {*row.goals} <= {x for each in rivals for x in (each.kind, each.peer)}
        text = json.dumps(dataclasses.asdict(row.work))
        assert type(row.work)(**json.loads(text)) == row.work


def test_a_goal_is_found_by_kind_or_by_peer():
    row = rows.ROWS["cartpole-32"]
    assert row.goal(CONTENDERS["sb3_subproc"]) == 8
    assert row.goal(CONTENDERS["bare"]) == 0.6
    assert row.goal(CONTENDERS["gymnasium_sync"]) is None


def test_rows_are_selected_by_patterns_each_once_and_in_their_order():
    assert [*rows.select([], rows.ROWS)] == [*rows.ROWS]
    names = ["ppo-pong", "ppo-cartpole-p?", "ppo-cartpole-p1"]
    selected = [*rows.select(names, rows.ROWS)]
    assert selected == [*(f"ppo-cartpole-p{i}" for i in (1, 2, 3)), "ppo-pong"]
    with pytest.raises(UserError, match="did you mean 'ppo-pong'"):
        rows.select(["ppo-pnog"], rows.ROWS)


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_actions_are_valid_and_determined_by_the_seed(name):
    work = Stepping(name, 3, block=5)
    actions = work.actions()
    env = work.constructor()()
    assert actions.shape == (5, 3, *env.action_space.shape)
    assert all(env.action_space.contains(x) for row in actions for x in row)
    assert (actions == work.actions()).all()
    assert (actions != dataclasses.replace(work, seed=2).actions()).any()


def test_the_bench_extra_has_the_packages_that_the_script_installs():
    text = (
        (FOLDER.parents[1] / "setup.py")
        .read_text()
        .partition('"bench": [')[2]
        .partition("\n    ]")[0]
    )
    names = {*re.findall(r'^ +"([^">]+)', text, re.MULTILINE)}
    assert names == {*make_environments.PEERS, "torch"}
