"""A small algorithm needs no change of the package to train from a replay."""

import tfagents_batch as tfb
from tests.support import linear_q
from tfagents_batch import algorithms

LAYOUT = ["######", "#S   #", "#X  G#", "######"]


def test_linear_q_learning_trains_through_tfb_train(tmp_path, monkeypatch):
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
