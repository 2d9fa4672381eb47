"""Logging decisions by the script: what it refuses, and agents of logged rows."""

import json

import pytest

import tfagents_batch as tfb
from tests.offline import timelines
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import collect

ENV = "tf/CartPole-v1"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "no environment is given; pass --env"),
        ((f"--env={ENV}", "--rows=-5"), "--rows is -5; expected at least 1"),
        ((f"--env={ENV}", "--seed=-1"), "--seed is -1; expected at least 0"),
        ((f"--env={ENV}", "--epsilon=1.5"), "--epsilon is 1.5; .* at most 1"),
        ((f"--env={ENV}", "--epsilon=0.5"), "--epsilon is 0.5, which means nothing"),
        ((f"--env={ENV}", "--checkpoint=best"), "--checkpoint is best, which means"),
    ],
)
def test_flags_without_meaning_are_refused(flags, message, tmp_path):
    with pytest.raises(UserError, match=message):
        collect.main([*flags, f"--output={tmp_path}/rows"])
    assert not list(tmp_path.iterdir())


def test_an_agent_of_logged_rows_needs_an_environment_and_takes_its_actions(tmp_path):
    def log(name, *flags):
        flags = *flags, f"--output={tmp_path / name}", "--rows=40", "--num_envs=2"
        assert collect.main(flags) == 0
        files = (tmp_path / name).glob("rows-s*.jsonl")
        return [json.loads(x) for file in files for x in file.read_text().splitlines()]

    rows = log("rows", f"--env={ENV}", "--seed=3")
    data = timelines.build(tmp_path / "table", rows)
    small = {"network": {"hidden": [8]}, "batch_size": 8}
    run = tfb.train_offline("dqn", data, settings=small, steps=5, logdir=tmp_path)
    with pytest.raises(UserError, match=r"learned from logged rows.*pass env"):
        collect.main([f"--logdir={run.logdir}"])
    kwargs = '--env_kwargs={"max_episode_steps": 3}'
    found = log("greedy", f"--logdir={run.logdir}", f"--env={ENV}", kwargs)
    assert max(row["sequence_number"] for row in found) < 3
    assert {row["action_probability"] for row in found} == {1.0}


def test_rows_of_one_seed_are_logged_once_into_a_folder(tmp_path):
    flags = [f"--env={ENV}", f"--output={tmp_path}", "--rows=4", "--num_envs=1"]
    assert collect.main([*flags, "--seed=1"]) == 0
    assert collect.main([*flags, "--seed=11"]) == 0
    with pytest.raises(UserError, match=r"has rows of seed 1 already.*another --seed"):
        collect.main([*flags, "--seed=1"])
