"""Several seeds in one program: each is what it would be alone."""

from __future__ import annotations

import os
import pathlib
import signal

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tfagents_batch import seeds
from tfagents_batch.envs.tf.batch import TensorBatch
from tfagents_batch.errors import TrainingError, UserError
from tfagents_batch.nn import networks
from tfagents_batch.training import checkpoint
from tfagents_batch.training.console import Console
from tfagents_batch.training.logger import read_metrics

SMALL = {
    "steps": 400,
    "num_envs": 4,
    "rollout_length": 25,
    "eval_every": 0,
    "log_every": 1,
    "compile_cache": False,
}
# For what does not ask what is learned: less to compile.
BRIEF = {"epochs": 1, "minibatch_size": 100, "histograms": False}
BRIEF |= {"network.hidden": (16,)}
SETTINGS = {
    "clip": {"epochs": 2, "minibatch_size": 32, "learning_rate": "linear(1e-3, 0)"},
    "kl": {
        "objective": "kl",
        "epochs": 4,
        "minibatch_size": 32,
        "kl_stop": 1e-3,
        "normalize_observation": False,
        "normalize_return": False,
    },
    "gru": {
        "epochs": 2,
        "minibatch_size": 50,
        "sequence_length": 5,
        "network": networks.Config(core="gru", hidden=(16,)),
    },
}


def values(run):
    """Everything in the newest checkpoint, by position."""
    folder = pathlib.Path(run.logdir)
    (path,) = folder.glob(f"checkpoints/step-{checkpoint.newest(folder):012d}")
    reader = tf.train.load_checkpoint(str(path / "variables"))
    names = sorted(reader.get_variable_to_shape_map())
    return {name: reader.get_tensor(name) for name in names if "VARIABLE_VALUE" in name}


def compare(found, expected):
    for name in ("loss/value", "policy/entropy", "grad/norm", "grad/updates"):
        np.testing.assert_allclose(
            [line[name] for line in found],
            [line[name] for line in expected],
            rtol=1e-3,
            atol=1e-4,
            err_msg=name,
        )


def trained(run):
    return [line for line in read_metrics(run.logdir) if "loss/total" in line]


@pytest.mark.parametrize(
    ("env", "settings", "actions"),
    [
        ("tf/CartPole-v1", "clip", "mode"),
        ("tf/Pendulum-v1", "kl", "both"),
        pytest.param(
            *("tf/TMaze-v0", "gru", "mode"),
            marks=[pytest.mark.slow, pytest.mark.timeout(1200)],
        ),
    ],
)
def test_every_seed_is_what_it_is_alone(env, settings, actions, tmp_path):
    options = {**SMALL, "settings": SETTINGS[settings], "env": env}
    options |= {"eval_every": 10_000, "eval_episodes": 4, "eval_actions": actions}
    together = tfb.train_seeds(seeds=[3, 8], logdir=tmp_path / "all", **options)
    for seed, run in zip((3, 8), together, strict=True):
        alone = tfb.train(seed=seed, logdir=tmp_path / "one", **options)
        assert pathlib.Path(run.logdir).name.endswith(f"-s{seed}")
        assert run.step == alone.step
        found, expected = values(run), values(alone)
        for name, value in found.items():
            np.testing.assert_allclose(
                value, expected[name], rtol=1e-3, atol=1e-4, err_msg=name
            )
        compare(trained(run), trained(alone))
        for name in ("eval/return_mean", "eval/length_mean", "eval_sample/return_mean"):
            if name in alone.metrics:
                np.testing.assert_allclose(run.metrics[name], alone.metrics[name], 1e-3)
        assert set(run.metrics) == set(alone.metrics)
    assert together[0].metrics["loss/value"] != together[1].metrics["loss/value"]


def test_lines_are_those_of_a_single_run_whatever_a_call_does(tmp_path):
    """Later calls have many iterations, and the seeds finish at different ones."""
    options = {**SMALL, "steps": 3000, "env": "tf/CartPole-v1"}
    options["settings"] = BRIEF
    together = tfb.train_seeds(seeds=2, logdir=tmp_path / "all", **options)
    alone = tfb.train(seed=1, logdir=tmp_path / "one", **options)
    found, expected = trained(together[1]), trained(alone)
    # Rounding decides about an action sooner or later; the beginning is the same.
    compare(found[:8], expected[:8])
    assert [line["step"] for line in found[:8]] == [
        line["step"] for line in expected[:8]
    ]
    for run in together:
        assert run.step == trained(run)[-1]["step"] >= 3000 > trained(run)[-2]["step"]
        assert {line["system/traces"] for line in trained(run)} == {1}


def test_a_seed_goes_on_as_if_it_had_never_stopped(tmp_path):
    options = {**SMALL, "eval_every": 100, "eval_episodes": 4, "settings": BRIEF}
    options["env"] = "tf/CartPole-v1"
    runs = tfb.train_seeds(seeds=2, logdir=tmp_path / "all", **options)
    for run in runs:
        assert run.finished and run.step >= 400
        lines = [x for x in read_metrics(run.logdir) if "eval/return_mean" in x]
        best = max(lines, key=lambda line: line["eval/return_mean"])
        kept = [
            step
            for step in checkpoint.list_steps(run.logdir)
            if checkpoint.metadata(run.logdir, step)["best"]
        ]
        assert kept[-1:] == [best["step"]]
        assert len({line["step"] for line in lines}) == len(lines)
    assert tfb.evaluate(runs[0].logdir, episodes=4).mean_return > 5

    options["steps"] = 700
    more = tfb.train(resume=runs[1].logdir, steps=700)
    alone = tfb.train(seed=1, logdir=tmp_path / "one", **options)
    assert more.step == alone.step
    compare(trained(more), trained(alone))
    assert [line["step"] for line in trained(more)] == [
        line["step"] for line in trained(alone)
    ]


class Fades:
    """Its reward is no number in episodes that begin high; they never end."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, key):
        place = seeds.uniform([1], key, -1.0, 1.0)
        return place, place

    def step(self, state, action, key):
        reward = tf.where(state[0] > 0, float("nan"), 1.0)
        return state, state, reward, False


def test_a_seed_without_a_finite_gradient_ends_all_and_the_others_are_saved(tmp_path):
    def begins(seed):
        return float(TensorBatch(Fades(), 1).init(seed)[1].observation[0, 0])

    good = next(seed for seed in range(100) if begins(seed) < 0)
    bad = next(seed for seed in range(100) if begins(seed) > 0)
    options = {**SMALL, "num_envs": 1, "settings": {**BRIEF, "normalize_return": False}}
    with pytest.raises(TrainingError, match=f"seed {bad}: no gradient was finite"):
        tfb.train_seeds(env=Fades, seeds=[good, bad], logdir=tmp_path, **options)
    saved = {
        path.name.rpartition("-s")[2]: checkpoint.newest(path)
        for path in tmp_path.iterdir()
    }
    assert saved[str(good)] >= 3 * 25 and saved[str(bad)] is None


def test_a_signal_saves_every_seed(tmp_path, monkeypatch):
    def update(self, step, metrics):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Console, "update", update)
    options = {**SMALL, "env": "tf/CartPole-v1", "settings": BRIEF}
    runs = tfb.train_seeds(seeds=2, logdir=tmp_path, **options)
    for run in runs:
        assert not run.finished and 0 < run.step < 400
        assert checkpoint.newest(run.logdir) == run.step


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"env": "CartPole-v1"}, "written in TensorFlow, such as tf/CartPole-v1"),
        ({"env": "tf/CartPole-v1", "overlap": True}, "overlap=True is not for several"),
        ({"precision": "mixed_bfloat16"}, "precision=mixed_bfloat16 is not for"),
        ({"num_workers": 2}, "num_workers=2 is not for several seeds"),
        ({"compile": "off"}, "compile=off is not for several seeds"),
        ({"seeds": 0}, "seeds is 0; expected at least 1"),
        ({"env": "tf/CartPole-v1", "seeds": []}, "seeds are .*; expected different"),
        ({"env": "tf/CartPole-v1", "seeds": [1, 1]}, "expected different"),
        ({"env": "tf/CartPole-v1", "seeds": [-1]}, "expected 0 to"),
        ({"network": lambda spaces: None}, "network is not for several seeds"),
    ],
)
def test_what_cannot_be_trained_at_once_is_refused(options, message, tmp_path):
    with pytest.raises(UserError, match=message):
        tfb.train_seeds(logdir=tmp_path, **{"env": "tf/CartPole-v1", **options})
    assert list(tmp_path.iterdir()) == []
