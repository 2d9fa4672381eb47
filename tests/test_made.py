"""Environments that exist already, those that evaluations are played on, and resuming
with code and files that have moved."""

import json
import pathlib
import shutil
import textwrap

import gymnasium
import pytest

import tfagents_batch as tfb
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import UserError
from tfagents_batch.training import checkpoint
from tfagents_batch.training.logger import read_events

SMALL = {
    "steps": 200,
    "rollout_length": 50,
    "log_every": 1,
    "compile": "off",
    "compile_cache": False,
    "settings": {"epochs": 1, "minibatch_size": 50},
}
ENV_FILE = """
    import gymnasium

    def make(length=5):
        from tfagents_batch.envs.testing import CountingEnv
        return CountingEnv(length=length)
"""


def made(kind):
    if kind == "environment":
        return gymnasium.make("CartPole-v1")
    return gymnasium.make_vec("CartPole-v1", 3)


def counting(length):
    return lambda: CountingEnv(length=length)


@pytest.mark.parametrize("kind", ["environment", "batch"])
def test_what_is_made_already_trains_and_is_not_evaluated_on(kind, tmp_path):
    env = made(kind)
    with pytest.raises(UserError, match=r"made already, which evaluations.*eval_env="):
        tfb.train(env=env, logdir=tmp_path, **SMALL)
    with pytest.raises(UserError, match=r"made already, which evaluations.*eval_env="):
        tfb.train(env=env, eval_env=env, logdir=tmp_path, **SMALL)
    assert list(tmp_path.iterdir()) == []
    options = SMALL | {"eval_every": 100, "eval_episodes": 4}
    run = tfb.train(env=env, eval_env=made(kind), logdir=tmp_path, **options)
    assert run.metrics["eval/episodes"] == (4 if kind == "environment" else 6)
    played = tfb.evaluate(run.logdir, 2, env=made(kind))
    assert played.episodes == (2 if kind == "environment" else 3)
    env.close()


@pytest.mark.parametrize("kind", ["environment", "batch"])
def test_how_many_there_are_of_what_is_made_cannot_be_chosen(kind, tmp_path):
    with pytest.raises(UserError, match="num_envs cannot be chosen"):
        tfb.train(env=made(kind), num_envs=8, logdir=tmp_path, **SMALL)


def test_evaluations_are_played_where_somebody_says(tmp_path):
    options = SMALL | {"num_envs": 2, "num_workers": 0, "eval_every": 100}
    options |= {"eval_episodes": 2, "logdir": tmp_path}
    run = tfb.train(env=counting(5), eval_env=counting(9), **options)
    # Of n steps the returns are 1 + 2 + ... + n.
    assert run.metrics["episode/return_mean"] == 15
    assert run.metrics["eval/return_mean"] == 45
    with pytest.raises(UserError, match=r"was evaluated on .*counting.*eval_env="):
        tfb.train(resume=run.logdir, env=counting(5), steps=400)
    again = tfb.train(
        resume=run.logdir, env=counting(5), eval_env=counting(7), steps=400
    )
    assert again.metrics["eval/return_mean"] == 28
    with pytest.raises(UserError, match="eval_env has action_space="):
        tfb.train(env="CartPole-v1", eval_env="Pendulum-v1", **options)
    with pytest.raises(UserError, match="eval_env has observation_space="):
        tfb.train(env=counting(5), eval_env="CartPole-v1", **options)


def test_every_one_of_different_environments_is_evaluated(tmp_path):
    envs = [counting(length) for length in (1, 2, 3, 4)]
    options = SMALL | {"num_workers": 0, "eval_every": 100, "logdir": tmp_path}
    run = tfb.train(env=envs, eval_episodes=5, **options)
    assert run.metrics["eval/episodes"] == 8
    assert run.metrics["eval/return_mean"] == (1 + 3 + 6 + 10) / 4
    played = tfb.evaluate(run.logdir, 4, env=envs)
    assert sorted(played.returns) == [1, 3, 6, 10]
    shorter = tfb.evaluate(run.logdir, 3, env=envs[:3])
    assert sorted(shorter.returns) == [1, 3, 6]


@pytest.fixture
def moved_run(tmp_path):
    """A run on a function of a file that then was moved; the new file."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    (old / "mine.py").write_text(textwrap.dedent(ENV_FILE))
    options = SMALL | {"num_envs": 2, "num_workers": 0, "eval_every": 0}
    run = tfb.train(
        env=f"{old / 'mine.py'}:make",
        env_kwargs={"length": 6},
        logdir=tmp_path / "logs",
        **options,
    )
    old.rename(new)
    return run, f"{new / 'mine.py'}:make"


def test_a_file_of_environments_may_be_moved(moved_run):
    run, env = moved_run
    assert tfb.evaluate(run.logdir, 2, env=env).mean_return == 21  # env_kwargs count
    again = tfb.train(resume=run.logdir, env=env, steps=400)
    assert again.finished and again.metrics["episode/return_mean"] == 21
    other = env.replace("mine.py:make", "mine.py:other")
    with pytest.raises(UserError, match="start a new run for another environment"):
        tfb.train(resume=run.logdir, env=other, steps=600)


def test_a_run_goes_on_without_its_lines(moved_run, capsys):
    run, env = moved_run
    (pathlib.Path(run.logdir) / "metrics.jsonl").unlink()
    again = tfb.train(resume=run.logdir, env=env, steps=400)
    assert again.finished
    assert "alarms begin anew" in capsys.readouterr().err
    assert [event["event"] for event in read_events(run.logdir)][-1] == "finished"


def test_options_of_a_resume_that_fails_are_not_kept(moved_run, monkeypatch):
    run, env = moved_run
    before = (pathlib.Path(run.logdir) / "config.json").read_text()

    def fail(*_):
        raise UserError("it cannot start")

    with monkeypatch.context() as patch:
        patch.setattr("tfagents_batch.training.program.build", fail)
        with pytest.raises(UserError, match="it cannot start"):
            tfb.train(resume=run.logdir, env=env, steps=400, compile="full")
    assert (pathlib.Path(run.logdir) / "config.json").read_text() == before
    tfb.train(resume=run.logdir, env=env, steps=400)
    changed = json.loads((pathlib.Path(run.logdir) / "config.json").read_text())
    assert changed["config"]["steps"] == 400
    assert changed["config"]["env"] == env


def test_options_of_environments_reach_them_and_are_checked(tmp_path):
    options = SMALL | {"num_envs": 2, "eval_every": 0, "logdir": tmp_path}
    for env_options, message in (
        ({"step_second": 3}, "'step_second'; did you mean 'step_seconds'"),
        ({"step_seconds": "long"}, "step_seconds is 'long'; expected a number"),
        ({"finite_check": "no"}, "finite_check is 'no'; expected"),
    ):
        with pytest.raises(UserError, match=message):
            tfb.train(env="CartPole-v1", env_options=env_options, **options)
    with pytest.raises(UserError, match="leave out step_seconds"):
        tfb.train(env="tf/CartPole-v1", env_options={"step_seconds": 9.0}, **options)
    assert list(tmp_path.iterdir()) == []
    run = tfb.train(
        env="CartPole-v1", env_options={"step_seconds": None}, num_workers=0, **options
    )
    assert tfb.evaluate(run.logdir, 2).episodes == 2
    assert tfb.evaluate(run.logdir, 2, env="tf/CartPole-v1").episodes == 2
    assert checkpoint.newest(run.logdir) == run.step
    shutil.rmtree(run.logdir)
