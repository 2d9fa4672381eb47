"""Devices, tested without a GPU: choices, and calls to TensorFlow."""

import pytest
import tensorflow as tf

from tfagents_batch.devices import placement
from tfagents_batch.devices.placement import CPU, GPU, HOST, Placement, Work


@pytest.fixture
def calls(monkeypatch):
    """Return the calls to a TensorFlow with two GPUs."""
    calls = {"visible": None, "growing": []}
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["a", "b"])
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["a", "b"])
    monkeypatch.setattr(
        tf.config,
        "set_visible_devices",
        lambda shown, kind: calls.update(visible=(shown, kind)),
    )
    monkeypatch.setattr(
        tf.config.experimental,
        "set_memory_growth",
        lambda one, on: calls["growing"].append((one, on)),
    )
    return calls


def test_one_gpu_is_claimed_and_its_memory_grows(calls):
    placement.claim(Placement(CPU, GPU))
    assert calls == {"visible": (["a"], "GPU"), "growing": [("a", True)]}


def test_training_on_the_cpu_claims_none(calls):
    placement.claim(HOST)
    assert calls == {"visible": ([], "GPU"), "growing": []}


def test_devices_that_others_have_chosen_are_unchanged(calls, monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["b"])
    placement.claim(Placement(GPU, GPU))
    assert calls == {"visible": None, "growing": []}


@pytest.mark.parametrize(
    ("found", "place", "name", "error"),
    [
        (HOST, tf.config, "set_visible_devices", RuntimeError("TensorFlow has run")),
        (
            Placement(CPU, GPU),
            tf.config.experimental,
            "set_memory_growth",
            ValueError("is divided"),
        ),
    ],
)
def test_devices_that_cannot_be_changed_any_more_are_unchanged(
    calls, monkeypatch, found, place, name, error
):
    def too_late(*_):
        raise error

    monkeypatch.setattr(place, name, too_late)
    placement.claim(found)
    assert calls["visible"] is None


SMALL = Work(
    in_graph=False,
    compilable=True,
    threads=False,
    num_envs=8,
    images=False,
    width=64,
    minibatch=64,
)
IN_GRAPH = SMALL._replace(in_graph=True)
IMAGES = SMALL._replace(images=True)
THREADS = SMALL._replace(threads=True)
CHOICES = {
    ("cpu", "auto", IMAGES): (CPU, CPU),
    ("gpu", "auto", SMALL): (CPU, GPU),
    ("gpu", "full", SMALL): (GPU, GPU),
    ("gpu", "full", SMALL._replace(compilable=False)): (CPU, GPU),
    ("gpu", "auto", IN_GRAPH): (GPU, GPU),
    ("gpu", "update", IN_GRAPH): (CPU, GPU),
    ("gpu", "auto", THREADS): (GPU, GPU),
    ("gpu", "update", THREADS): (CPU, GPU),
    ("gpu", "auto", THREADS._replace(compilable=False)): (CPU, GPU),
    ("auto", "auto", SMALL): (CPU, CPU),
    ("auto", "auto", IMAGES): (CPU, GPU),
    ("auto", "auto", SMALL._replace(width=512)): (CPU, CPU),
    ("auto", "auto", SMALL._replace(width=512, minibatch=2048)): (CPU, GPU),
    ("auto", "auto", IN_GRAPH._replace(num_envs=255)): (CPU, CPU),
    ("auto", "auto", IN_GRAPH._replace(num_envs=256)): (GPU, GPU),
}


@pytest.mark.parametrize("options", CHOICES)
def test_devices_follow_the_setting_the_environments_and_the_size_of_the_work(options):
    found = placement.choose(*options, gpu=True)
    assert (found.collect, found.update) == CHOICES[options]
    assert found.reason
    *_, work = options
    assert placement.choose("auto", "auto", work, gpu=False)[:2] == (CPU, CPU)


@pytest.mark.parametrize("gpu", [False, True])
def test_variables_lie_on_the_host_unless_another_device_is_in_force(monkeypatch, gpu):
    monkeypatch.setattr(placement, "has_gpu", lambda: gpu)
    assert placement.on_host() is not gpu
    for device, expected in ((CPU, True), ("/CPU:1", False), (GPU, False)):
        with tf.device(device):
            assert placement.on_host() is expected
            traced = tf.function(
                lambda: tf.constant(placement.on_host()), autograph=False
            )
            assert bool(traced()) is expected
