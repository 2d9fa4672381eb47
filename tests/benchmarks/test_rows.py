"""Rows and contenders as data."""

import dataclasses
import json
import pathlib
import time

import pytest

import benchmarks.contenders
from benchmarks import learning
from benchmarks.contenders import CONTENDERS
from benchmarks.measure import rows
from benchmarks.work.environments import Slow
from benchmarks.work.works import Stepping

FOLDER = pathlib.Path(benchmarks.contenders.__file__).parent
ALL = {**rows.ENVIRONMENTS, **rows.TRAINING}


def test_every_contender_has_a_file_and_every_file_a_contender():
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert files == {contender.module for contender in CONTENDERS.values()}


def test_every_contender_is_in_a_row():
    assert {*CONTENDERS} == {*rows.contenders(ALL), *learning.CONTENDERS}


@pytest.mark.parametrize("row", ALL.values(), ids=[*ALL])
def test_a_row_names_existing_contenders_and_its_work_is_json(row):
    assert {row.subject, *row.rivals} <= {*CONTENDERS}
    assert row.subject not in row.rivals
    rivals = [CONTENDERS[name] for name in row.rivals]
    assert {*row.goals} <= {x for each in rivals for x in (each.kind, each.peer)}
    text = json.dumps(dataclasses.asdict(row.work))
    assert type(row.work)(**json.loads(text)) == row.work


def test_a_goal_is_found_by_kind_or_by_peer():
    row = rows.ENVIRONMENTS["cartpole-32"]
    assert row.goal(CONTENDERS["sb3_spawn"]) == row.goal(CONTENDERS["sb3_forkserver"])
    assert row.goal(CONTENDERS["bare"]) == 0.6
    assert row.goal(CONTENDERS["gymnasium_sync"]) is None


@pytest.mark.parametrize("known", [rows.ENVIRONMENTS, rows.TRAINING], ids=len)
def test_rows_are_selected_by_name_and_alias_each_once(known):
    assert [*rows.select([], known)] == [*known]
    pairs = [x for x in rows.ALIASES.items() if {*x[1]} <= {*known}]
    alias, several = max(pairs, key=lambda x: len(x[1]))
    assert len(several) > 1
    assert [*rows.select([several[0], alias], known)] == [*several]


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_actions_are_valid_and_determined_by_the_seed(name):
    work = Stepping(name, 3, block=5)
    actions = work.actions()
    env = work.constructor()()
    assert actions.shape == (5, 3, *env.action_space.shape)
    assert all(env.action_space.contains(x) for row in actions for x in row)
    assert (actions == work.actions()).all()
    assert (actions != dataclasses.replace(work, seed=2).actions()).any()


def test_wrappers_must_be_equal_for_all_contenders():
    work = Stepping("CartPole-v1", 2, block=1)
    found = work.same(work.actions())["environment"]
    assert found["id"] == "CartPole-v1"
    assert found["wrappers"] == ["TimeLimit", "OrderEnforcing"]
    assert found["time_limit"] == 500


@pytest.mark.parametrize(
    "busy, clock", [(True, time.thread_time), (False, time.monotonic)]
)
def test_a_slow_step_takes_at_least_the_given_time(busy, clock):
    env = Slow(20, busy)
    env.reset(seed=1)
    start = clock()
    env.step(0)
    assert clock() - start >= 0.02
