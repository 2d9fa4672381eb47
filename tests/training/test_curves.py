import json

import numpy as np
import pytest

from tfagents_batch.errors import UserError
from tfagents_batch.training import curves, runs
from tfagents_batch.training.curves import Curve


def make_run(logdir, seed, values, name="cartpole"):
    config = {"config": {"algorithm": "ppo", "env": "CartPole-v1", "seed": seed}}
    folder = runs.create(logdir, name, seed, json.dumps(config))
    lines = [
        json.dumps({"step": 100 * (i + 1), "episode/return_mean": value})
        for i, value in enumerate(values)
    ]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_runs_of_several_seeds_are_one_group(tmp_path):
    for seed in (1, 2, 2):
        make_run(tmp_path, seed, [1, 2])
    make_run(tmp_path, 1, [1, 2], name="other")
    groups = curves.group([tmp_path])
    assert {name: len(found) for name, found in groups.items()} == {
        "cartpole on CartPole-v1": 3,
        "other on CartPole-v1": 1,
    }


def test_a_metric_that_a_run_does_not_have_is_named_with_those_it_has(tmp_path):
    folder = make_run(tmp_path, 1, [1, 2])
    assert curves.read(folder, "episode/return_mean").step.tolist() == [100, 200]
    with pytest.raises(UserError, match=r"'loss/x'; it has episode/return_mean"):
        curves.read(folder, "loss/x")


def test_a_band_is_the_mean_within_its_interval():
    step = np.array([0, 100, 200])
    lines = [Curve(step, np.array([0.0, 10.0, k])) for k in (10, 20, 30, 40)]
    band = curves.band(lines)
    assert band.step[0] == 0
    assert band.step[-1] == 200
    assert band.mean[-1] == pytest.approx(25)
    assert 10 <= band.low[-1] < 25 < band.high[-1] <= 40
    np.testing.assert_allclose(band.low[:50], band.high[:50])  # where all agree


def test_a_band_ends_with_the_shortest_curve():
    long = Curve(np.array([0, 100]), np.array([1.0, 1.0]))
    short = Curve(np.array([0, 60]), np.array([1.0, 1.0]))
    assert curves.band([long, short]).step[-1] == 60
