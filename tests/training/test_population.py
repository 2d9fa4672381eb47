"""Several seeds in one program: each is what it would be alone."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tfagents_batch.errors import UserError
from tfagents_batch.training import checkpoint
from tfagents_batch.training.logger import read_metrics

SMALL = {
    "steps": 400,
    "num_envs": 4,
    "rollout_length": 25,
    "eval_every": 0,
    "log_every": 1,
    "compile_cache": False,
}
SETTINGS = {
    "clip": {"epochs": 2, "minibatch_size": 32, "learning_rate": "linear(1e-3, 0)"},
    "kl": {"objective": "kl", "epochs": 3, "minibatch_size": 100},
    "stops": {"epochs": 4, "minibatch_size": 32, "kl_stop": 1e-4},
    "no_moments": {
        "normalize_observation": False,
        "normalize_return": False,
        "epochs": 1,
        "minibatch_size": 64,
    },
}


def values(run):
    """Everything in the newest checkpoint, by position."""
    folder = pathlib.Path(run.logdir)
    (path,) = folder.glob(f"checkpoints/step-{checkpoint.newest(folder):012d}")
    reader = tf.train.load_checkpoint(str(path / "variables"))
    names = sorted(reader.get_variable_to_shape_map())
    return {name: reader.get_tensor(name) for name in names if "VARIABLE_VALUE" in name}


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        ("tf/CartPole-v1", "clip"),
        ("tf/Pendulum-v1", "kl"),
        ("tf/CartPole-v1", "stops"),
        ("tf/Pendulum-v1", "no_moments"),
    ],
)
def test_every_seed_is_what_it_is_alone(env, settings, tmp_path):
    settings = SETTINGS[settings]
    options = {**SMALL, "settings": settings, "env": env}
    together = tfb.train_seeds(seeds=[3, 4, 8], logdir=tmp_path / "all", **options)
    for seed, run in zip((3, 4, 8), together, strict=True):
        alone = tfb.train(seed=seed, logdir=tmp_path / "one", **options)
        assert run.step == alone.step
        found, expected = values(run), values(alone)
        for name, value in found.items():
            np.testing.assert_allclose(
                value, expected[name], rtol=1e-3, atol=1e-4, err_msg=name
            )
        for name in ("loss/value", "policy/entropy", "grad/updates", "grad/norm"):
            np.testing.assert_allclose(
                run.metrics[name], alone.metrics[name], rtol=1e-3, atol=1e-4
            )


def test_seeds_differ_from_each_other(tmp_path):
    runs = tfb.train_seeds(seeds=3, env="tf/CartPole-v1", logdir=tmp_path, **SMALL)
    assert [pathlib.Path(run.logdir).name[-3:] for run in runs] == ["-s0", "-s1", "-s2"]
    losses = {run.metrics["loss/value"] for run in runs}
    assert len(losses) == 3


def test_every_seed_has_a_run_that_is_evaluated_and_resumed(tmp_path):
    options = {**SMALL, "eval_every": 200, "eval_episodes": 4}
    runs = tfb.train_seeds(seeds=2, env="tf/CartPole-v1", logdir=tmp_path, **options)
    for run in runs:
        assert run.finished and run.step >= 400
        lines = read_metrics(run.logdir)
        assert [line for line in lines if "eval/return_mean" in line]
        assert [line for line in lines if "episode/return_mean" in line]
        assert tfb.evaluate(run.logdir, episodes=4).mean_return > 5
        more = tfb.train(resume=run.logdir, steps=600)
        assert more.step >= 600


def test_evaluations_are_those_of_a_single_run(tmp_path):
    options = {**SMALL, "eval_every": 10_000, "eval_episodes": 4}
    options["env"] = "tf/CartPole-v1"
    (one, _) = tfb.train_seeds(seeds=2, logdir=tmp_path / "all", **options)
    alone = tfb.train(logdir=tmp_path / "one", **options)
    for name in ("eval/return_mean", "eval/length_mean"):
        assert one.metrics[name] == alone.metrics[name]


def test_lines_are_those_of_a_single_run_whatever_a_call_does(tmp_path):
    """Later calls have many iterations, and the seeds finish at different ones."""
    options = {**SMALL, "steps": 3000, "env": "tf/CartPole-v1"}
    options["settings"] = {"epochs": 1, "minibatch_size": 100}
    together = tfb.train_seeds(seeds=2, logdir=tmp_path / "all", **options)
    for seed, run in enumerate(together):
        alone = tfb.train(seed=seed, logdir=tmp_path / "one", **options)
        found, expected = read_metrics(run.logdir), read_metrics(alone.logdir)
        # Rounding decides about an action sooner or later; the beginning is the same.
        assert [line["step"] for line in found[:8]] == [
            line["step"] for line in expected[:8]
        ]
        for name in ("loss/value", "policy/entropy", "grad/norm"):
            np.testing.assert_allclose(
                [line[name] for line in found[:8]],
                [line[name] for line in expected[:8]],
                rtol=1e-3,
            )
        assert run.step == found[-1]["step"] >= 3000 > found[-2]["step"]


def test_the_best_checkpoint_of_every_seed_is_kept(tmp_path):
    options = {**SMALL, "steps": 600, "eval_every": 100, "eval_episodes": 4}
    runs = tfb.train_seeds(seeds=2, env="tf/CartPole-v1", logdir=tmp_path, **options)
    for run in runs:
        lines = [x for x in read_metrics(run.logdir) if "eval/return_mean" in x]
        best = max(lines, key=lambda line: line["eval/return_mean"])
        kept = [
            step
            for step in checkpoint.list_steps(run.logdir)
            if checkpoint.metadata(run.logdir, step)["best"]
        ]
        assert kept[-1:] == [best["step"]]
        assert len({line["step"] for line in lines}) == len(lines)


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
    ],
)
def test_what_cannot_be_trained_at_once_is_refused(options, message, tmp_path):
    with pytest.raises(UserError, match=message):
        tfb.train_seeds(logdir=tmp_path, **{"env": "tf/CartPole-v1", **options})
    assert list(tmp_path.iterdir()) == []
