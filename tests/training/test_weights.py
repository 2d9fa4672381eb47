"""The table of a network's weights."""

import itertools
import json
import pathlib
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from gymnasium import spaces as gs

import tfagents_batch as tfb
from tests.support.brief import QUICK
from tfagents_batch.training import weights


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


def layers(count):
    return [weights.Layer("net/dense", {"kernel": [count]}, count)]


SCREEN = gs.Box(0, 255, (240, 320, 3), np.uint8)
RESIZED = '{"name": "ResizeObservation", "shape": [84, 84]}'


@pytest.mark.parametrize(
    ("space", "count", "words"),
    [
        (
            SCREEN,
            30_671_360,
            ("has 30,671,360 weights", '["GrayscaleObservation"', RESIZED),
        ),
        (
            gs.Dict(x=SCREEN),
            20_000_000,
            ("observation['x']", '"SelectKey", "key": "x"'),
        ),
        (
            gs.Box(0, 1, (200_000,)),
            20_000_000,
            ("shape [200000]; make", "SelectEntries"),
        ),
    ],
)
def test_a_network_that_a_raw_observation_makes_large_is_one_warning(
    space, count, words
):
    text = weights.warning(layers(count), space)
    assert all(word in text for word in words) and "\n" not in text
    assert "network=" in text
    assert not weights.warning(layers(weights.MANY), space)


def test_a_large_network_of_usual_observations_is_the_users_choice():
    frames = gs.Box(0, 255, (84, 84, 4), np.uint8)
    assert weights.warning(layers(20_000_000), frames) == ""


def test_the_warning_is_printed_even_by_a_quiet_run(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(weights, "MANY", 10)
    monkeypatch.setattr(weights, "LARGE", 3)
    options = QUICK | {"steps": 16, "rollout.length": 8, "progress": False}
    settings = {"network": {"hidden": (4,)}, "histograms": False, "epochs": 1}
    tfb.train(env="CartPole-v1", settings=settings, logdir=tmp_path, **options)
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("warning: the network has")
