"""The table of a network's weights."""

import itertools
import json
import pathlib
from types import SimpleNamespace

import keras

import tfagents_batch as tfb
from tfagents_batch.training.diagnostics import weights


def test_weights_are_counted_layer_by_layer():
    network = keras.Sequential(
        [
            keras.layers.Dense(5, name="first"),
            keras.layers.BatchNormalization(name="norm"),
            keras.layers.Dense(2, use_bias=False, name="second"),
        ],
        name="net",
    )
    network.build([None, 3])
    layers = weights.by_layer(SimpleNamespace(network=network))
    assert [each.name for each in layers] == ["net/first", "net/norm", "net/second"]
    assert [each.count for each in layers] == [20, 10, 10]
    assert layers[0].shapes == {"kernel": [3, 5], "bias": [5]}
    assert weights.facts(layers)["total"] == network.count_params() - 10  # moments
    lines = weights.table(layers).splitlines()
    assert lines[1].split() == ["net/first", "3x5,", "5", "20"]
    assert lines[-1].split() == ["all", "layers", "40"]
    assert len({len(line) for line in lines}) == 1


def test_an_algorithm_without_a_network_has_no_layers():
    assert weights.by_layer(object()) == []
    assert weights.facts([]) == {"total": 0, "layers": []}


def test_a_run_records_its_weights_by_layer(tmp_path, capfd):
    hidden = (16, 4)
    run = tfb.train(
        env="CartPole-v1",
        steps=50,
        num_envs=2,
        num_workers=0,
        rollout={"length": 25},
        eval_every=0,
        compile="off",
        settings={
            **{"epochs": 1, "minibatch_size": None, "histograms": False},
            "network": {"hidden": hidden},
        },
        logdir=tmp_path,
    )
    recorded = json.loads(pathlib.Path(run.logdir, "run.json").read_text())["weights"]
    sizes = [4, *hidden]
    tower = sum(a * b + b for a, b in itertools.pairwise(sizes))
    expected = 2 * tower + hidden[-1] * 3 + 3  # two logits and a value
    assert recorded["total"] == sum(x["count"] for x in recorded["layers"]) == expected
    assert f"{expected:,}" in capfd.readouterr().err
