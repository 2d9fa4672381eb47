"""A user's algorithm: trained by class and by name, evaluated by another process."""

import json
import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf

import tfagents_batch as tfb
from examples import own_algorithm as example
from tests.support import linear as linear_
from tests.support import linear_q
from tests.training import outside_algorithms as outside
from tfagents_batch import algorithms
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import evaluate
from tfagents_batch.training import own_algorithm
from tfagents_batch.training.log.logger import read_metrics

FILE = pathlib.Path(outside.__file__)
BRIEF = {"network": {"hidden": [8]}, "histograms": False}
PPO = {"num_envs": 2, "rollout": {"length": 16}, "num_workers": 0, "eval_every": 0}
LAYOUT = ["######", "#S   #", "#X  G#", "######"]


def script(name, *flags):
    """Run a command in another process."""
    command = [sys.executable, "-m", "tfagents_batch", name, *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def test_a_loss_of_ones_own_learns_logs_its_metric_and_resumes(tmp_path, capsys):
    settings = BRIEF | {"minibatch_size": 16, "epochs": 2, "weight": 0.25}
    options = {"env": "CartPole-v1", "logdir": tmp_path, **PPO}
    run = tfb.train(example.Calm, steps=64, settings=settings, **options)
    assert read_metrics(run.logdir)[-1]["loss/logits"] > 0
    with pytest.raises(UserError, match="'ppo', but the run was trained by"):
        tfb.train(resume=run.logdir, steps=96, algorithm="ppo")
    run = tfb.train(resume=run.logdir, steps=96, algorithm=example.Calm)
    assert run.step >= 96
    assert tfb.load(run.logdir, algorithm=example.Calm).action_space.n == 2
    flags = (
        f"--algorithm={example.__file__}:Calm",
        f"--logdir={run.logdir}",
        "--episodes=2",
    )
    capsys.readouterr()
    assert evaluate.main(flags) == 0
    assert json.loads(capsys.readouterr().out)["episodes"] == 2


def test_a_metric_that_is_not_declared_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(example.Calm, "METRICS", example.ppo.PPO.METRICS)
    options = {"env": "CartPole-v1", "logdir": tmp_path, "settings": BRIEF, **PPO}
    with pytest.raises(UserError, match="loss/logits, which are not in"):
        tfb.train(example.Calm, steps=32, **options)


def changed(returned):
    """Return a class whose loss returns something made of PPO's loss and metrics."""

    class Changed(example.Calm):
        def _loss(self, *arguments):
            return returned(*super()._loss(*arguments))

    return Changed


LOSSES = {
    "rows": (lambda loss, x: (loss * tf.ones([3]), x), r"of shape \[3\]; expected"),
    "metrics": (lambda loss, x: x, "_loss returned a dict; expected the scalar"),
    "not_all": (lambda loss, x: (loss, {}), "loss/kl_penalty, .* which are in Changed"),
    "no_dict": (lambda loss, x: (loss, loss), r"metrics are a \w*Tensor; expected a"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_that_returns_something_else_is_one_line(name, tmp_path):
    returned, message = LOSSES[name]
    options = {"env": "CartPole-v1", "logdir": tmp_path, "settings": BRIEF, **PPO}
    with pytest.raises(UserError, match=message) as raised:
        tfb.train(changed(returned), steps=32, **options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("missing", ["learner", "policy", "make_policy", "compilable"])
def test_a_part_that_an_algorithm_lacks_is_named(missing, tmp_path, linear):
    class Partial(tf.Module):
        Config = linear_.Config
        update = linear_.Linear.update

        def __init__(self, *arguments):
            super().__init__()
            whole = linear_.Linear(*arguments)
            names = "config", "policy", "make_policy", "compilable"
            vars(self).update({x: getattr(whole, x) for x in names if x != missing})
            if missing != "learner":
                self.learner = whole

    options = {"env": "CartPole-v1", "logdir": tmp_path, **PPO}
    with pytest.raises(UserError, match=f"Partial has no {missing}"):
        tfb.train(Partial, steps=32, **options)


def test_the_algorithm_of_the_page_that_inherits_nothing_learns(tmp_path):
    page = FILE.parents[2] / "docs" / "own_algorithm.md"
    code = page.read_text().split("A file `gradient.py`")[1].split("```python\n")[1]
    (tmp_path / "gradient.py").write_text(code.split("```")[0])
    own = f"{tmp_path}/gradient.py:Gradient"
    options = {"settings": BRIEF | {"learning_rate": 3e-3}, "logdir": tmp_path, **PPO}
    run = tfb.train(own, "CartPole-v1", steps=8000, **options | {"num_envs": 8})
    assert run.evaluate(episodes=5).mean_return > 60  # random actions: 22


def test_another_process_trains_and_evaluates_an_algorithm_of_a_file(tmp_path):
    own = f"--algorithm={FILE}:Undirected"
    small = "--algorithm.warmup_steps=20", "--algorithm.batch_size=8", "--num_envs=2"
    done = script(
        *("train", own, "--env=CartPole-v1", "--steps=100", f"--logdir={tmp_path}"),
        *(*small, "--num_workers=0", "--eval_every=0", "--quiet"),
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    folder = f"--logdir={done.stdout.strip()}"
    play = "evaluate", folder, "--episodes=2"
    with pytest.raises(UserError, match="own code and is only imported when you pass"):
        evaluate.main(play[1:])
    done = script(*play, own)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["episodes"] == 2


WRONG = {
    "unknown algorithm 'ddpq'; did you mean 'ddpg'\\?; your own is module": "ddpq",
    "algorithm './no.py:X': there is no file": "./no.py:X",
    "has no 'Undirect'; did you mean 'Undirected'": f"{FILE}:Undirect",
    "function is a builtin_function_or_method; expected a class": f"{FILE}:function",
    "NoSettings has no attribute Config; expected the dataclass": f"{FILE}:NoSettings",
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_no_algorithm_is_one_line(message):
    with pytest.raises(UserError, match=message):
        own_algorithm.name_of(WRONG[message])


def test_a_small_algorithm_trains_from_a_replay_without_a_change_of_the_package(
    tmp_path, monkeypatch
):
    entry = linear_q.LinearQ, linear_q.Config
    monkeypatch.setitem(algorithms.REGISTRY, "linear_q", entry)
    run = tfb.train(
        "linear_q",
        env="tf/GridWorld-v0",
        env_kwargs={"one_hot": True, "layout": LAYOUT},
        steps=6000,
        num_envs=4,
        replay={"capacity": 1000},
        settings={"learning_rate": 2.0},
        logdir=tmp_path,
        eval_every=0,
    )
    assert run.finished and 0 < run.metrics["grad/updates"] <= 4
    assert tfb.evaluate(run.logdir, episodes=20).mean_return == 1
