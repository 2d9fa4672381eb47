"""Tests of existing environment instances, of ``eval_env``, and of resuming after a
file with environments has moved."""

import functools
import json
import pathlib
import shutil
import textwrap

import gymnasium
import pytest

import tfagents_batch as tfb
from tests.support import untrained
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import UserError
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.log.logger import read_events

SMALL = {
    "steps": 200,
    "rollout.length": 50,
    "log_every": 1,
    "compile": "off",
    "compile_cache": False,
}
pytestmark = pytest.mark.usefixtures("linear")
SLOW = pytest.mark.slow
ENV_FILE = """
    import gymnasium

    def make(length=5):
        from tfagents_batch.envs.testing import CountingEnv
        return CountingEnv(length=length)
"""


class Closing(CountingEnv):
    closed = False

    def close(self):
        self.closed = True


def make_instance(kind):
    if kind == "closing":
        return Closing()
    if kind == "environment":
        return gymnasium.make("CartPole-v1")
    if kind == "env":
        return tfb.make_env("CartPole-v1", 3, 0)
    return gymnasium.make_vec("CartPole-v1", 3)


def counting(length):
    return lambda: CountingEnv(length=length)


@pytest.mark.parametrize("kind", ["closing", "batch", pytest.param("env", marks=SLOW)])
def test_an_existing_instance_trains_and_is_closed_but_not_evaluated(kind, tmp_path):
    env = make_instance(kind)
    with pytest.raises(UserError, match=r"exists already, so evaluations.*eval_env="):
        tfb.train("linear", env=env, logdir=tmp_path, **SMALL)
    with pytest.raises(UserError, match=r"exists already, so evaluations.*eval_env="):
        tfb.train("linear", env=env, eval_env=env, logdir=tmp_path, **SMALL)
    with pytest.raises(UserError, match="num_envs cannot be chosen"):
        tfb.train("linear", env=env, num_envs=8, logdir=tmp_path, **SMALL)
    assert list(tmp_path.iterdir()) == []
    assert not getattr(env, "closed", False)
    options = SMALL | {"eval_every": 100, "eval_episodes": 4}
    other, mine = make_instance(kind), make_instance(kind)
    run = tfb.train("linear", env=env, eval_env=other, logdir=tmp_path, **options)
    assert run.metrics["eval/episodes"] == (4 if kind == "closing" else 6)
    played = tfb.evaluate(run.logdir, 2, env=mine)
    assert played.episodes == (2 if kind == "closing" else 3)
    if kind == "closing":
        agent = tfb.load(run.logdir, env=mine)
        assert env.closed and not mine.closed
        observation, _ = mine.reset()
        assert mine.action_space.contains(agent.predict(observation)[0])
        with pytest.raises(UserError, match="use that instance"):
            agent.make_env()
    env.close()


def test_evaluations_use_the_given_eval_env(tmp_path):
    options = SMALL | {"num_envs": 2, "num_workers": 0, "eval_every": 100}
    options |= {"eval_episodes": 2, "logdir": tmp_path}
    run = tfb.train("linear", env=counting(5), eval_env=counting(9), **options)
    # The return of n steps is 1 + 2 + ... + n.
    assert run.metrics["episode/return_mean"] == 15
    assert run.metrics["eval/return_mean"] == 45
    with pytest.raises(UserError, match=r"was evaluated on .*counting.*eval_env="):
        tfb.train(resume=run.logdir, env=counting(5), steps=400)
    again = tfb.train(
        resume=run.logdir, env=counting(5), eval_env=counting(7), steps=400
    )
    assert again.metrics["eval/return_mean"] == 28
    with pytest.raises(UserError, match=r"was evaluated on .*eval_env="):
        tfb.train(resume=run.logdir, env=counting(5), steps=600)
    with pytest.raises(UserError, match="eval_env has action_space="):
        tfb.train("linear", env="CartPole-v1", eval_env="Pendulum-v1", **options)
    with pytest.raises(UserError, match="eval_env has observation_space="):
        tfb.train("linear", env=counting(5), eval_env="CartPole-v1", **options)


@pytest.mark.parametrize(
    "kind",
    ["environment", "tf", *(pytest.param(x, marks=SLOW) for x in ("batch", "env"))],
)
def test_settings_of_the_run_do_not_apply_to_existing_instances(kind, tmp_path):
    """Workers, wrappers, options and arguments apply to the training environment."""
    options = SMALL | {"num_envs": 2, "num_workers": 1, "logdir": tmp_path}
    options |= {"eval_every": 100, "eval_episodes": 3, "on_fault": "restart"}
    options |= {"env_options": {"step_seconds": 300.0, "max_restarts": 3}}
    options |= {"env_kwargs": {"sutton_barto_reward": True}}
    if kind != "tf":
        options |= {"wrappers": [{"name": "LimitDuration", "max_episode_steps": 5}]}
    make = functools.partial(make_instance, kind)
    env, other = ("tf/CartPole-v1" if kind == "tf" else make() for _ in range(2))
    run = tfb.train("linear", env="CartPole-v1", eval_env=env, **options)
    assert run.metrics["eval/return_mean"] > 5  # not -1 at the end, nor 5 steps
    again = {} if kind == "tf" else {"wrappers": []}
    assert tfb.evaluate(run.logdir, 3, env=other, **again).mean_return > 5
    for each in (env, other):
        getattr(each, "close", lambda: None)()


def test_environments_of_the_same_name_get_the_arguments_of_the_run(tmp_path):
    arguments = {"sutton_barto_reward": True}
    options = {"num_envs": 2, "num_workers": 0, "env_kwargs": arguments}
    evaluated = RunConfig(env="CartPole-v1", **options).recipe()
    assert evaluated.other("CartPole-v1", own=False).env_kwargs == arguments
    run = untrained.folder("linear", "CartPole-v1", tmp_path, **options)
    assert tfb.evaluate(run, 2, env="CartPole-v1").mean_return == -1  # at the end
    result = tfb.evaluate(run, 2, env_kwargs={"sutton_barto_reward": False})
    assert result.mean_return > 5


def test_every_environment_of_a_list_is_evaluated(tmp_path):
    envs = [counting(length) for length in (1, 2, 3, 4)]
    options = SMALL | {"num_workers": 0, "eval_every": 100, "logdir": tmp_path}
    run = tfb.train("linear", env=envs, eval_episodes=5, **options)
    assert run.metrics["eval/episodes"] == 8
    assert run.metrics["eval/return_mean"] == (1 + 3 + 6 + 10) / 4
    saved = json.loads((pathlib.Path(run.logdir) / "config.json").read_text())
    assert saved["config"]["num_envs"] == 4
    shorter = tfb.evaluate(run.logdir, 3, env=envs[:3])
    assert sorted(shorter.returns) == [1, 3, 6]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, linear):
    """Return a run whose environment's file has moved, and the new file."""
    folder = tmp_path_factory.mktemp("moved")
    old, new = folder / "old", folder / "new"
    old.mkdir()
    (old / "mine.py").write_text(textwrap.dedent(ENV_FILE))
    options = SMALL | {"num_envs": 2, "num_workers": 0, "eval_every": 0}
    run = tfb.train(
        "linear",
        env=f"{old / 'mine.py'}:make",
        env_kwargs={"length": 6},
        logdir=folder / "logs",
        **options,
    )
    old.rename(new)
    return run, f"{new / 'mine.py'}:make"


@pytest.fixture
def moved_run(trained, tmp_path):
    """Return a copy of that run's folder, and the new file."""
    run, env = trained
    return shutil.copytree(run.logdir, tmp_path / "run"), env


def test_a_file_with_environments_may_be_moved(moved_run, tmp_path, capsys):
    logdir, env = moved_run
    assert tfb.evaluate(logdir, 2, env=env).mean_return == 21  # env_kwargs count
    (logdir / "metrics.jsonl").unlink()  # a run can continue without its metrics
    again = tfb.train(resume=logdir, env=env, steps=400)
    assert again.finished and again.metrics["episode/return_mean"] == 21
    changed = json.loads((logdir / "config.json").read_text())
    assert (changed["config"]["steps"], changed["config"]["env"]) == (400, env)
    assert "alarms start again" in capsys.readouterr().err
    assert [event["event"] for event in read_events(logdir)][-1] == "finished"
    copy = tmp_path / "mine.py"
    copy.write_text("make = None")
    for other in (f"{copy}:make", env.replace("mine.py:make", "mine.py:other")):
        with pytest.raises(UserError, match="start a new run for another environment"):
            tfb.train(resume=logdir, env=other, steps=600)


def test_options_of_a_failed_resume_are_not_saved(moved_run, monkeypatch):
    logdir, env = moved_run
    before = (logdir / "config.json").read_text()

    def fail(*_, **options):
        raise UserError("it cannot start")

    with monkeypatch.context() as patch:
        patch.setattr("tfagents_batch.programs.program.build", fail)
        with pytest.raises(UserError, match="it cannot start"):
            tfb.train(resume=logdir, env=env, steps=400, compile="full")
    assert (logdir / "config.json").read_text() == before


def test_env_options_are_applied_and_checked(tmp_path):
    options = {"num_envs": 2, "eval_every": 0, "logdir": tmp_path}
    for env_options, message in (
        ({"step_second": 3}, "'step_second'; did you mean 'step_seconds'"),
        ({"step_seconds": "long"}, "step_seconds is 'long'; expected a number"),
        ({"finite_check": "no"}, "finite_check is 'no'; expected"),
        ({"worker_variables": 3}, "worker_variables is a int; expected an object"),
        ({"worker_variables": {"A=": "1"}}, "the name 'A='; expected the name of"),
        ({"worker_variables": {"A": 1}}, r"\['A'\] is a int.*expected text"),
        ({"worker_variables": {"A": "\0"}}, r"\['A'\] is a str.*zero byte"),
        ({"worker_variables": {"A": "\ud800"}}, r"\['A'\] is a str.*expected text"),
    ):
        with pytest.raises(UserError, match=message):
            tfb.train("linear", env="CartPole-v1", env_options=env_options, **options)
    with pytest.raises(UserError, match="leave out step_seconds"):
        tfb.train(
            "linear", env="tf/CartPole-v1", env_options={"step_seconds": 9.0}, **options
        )
    assert list(tmp_path.iterdir()) == []
    options |= {"num_workers": 1, "env": "CartPole-v1"}
    options |= {"env_options": {"step_seconds": None, "backend": "portable"}}
    run = untrained.folder("linear", **options)
    assert tfb.evaluate(run, 2).episodes == 2
    agent = tfb.load(run)
    assert agent.predict(agent.observation_space.sample())[0] in (0, 1)
