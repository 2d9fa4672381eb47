"""GPUs that TensorFlow is shown; on machines without one, by what it is told."""

import pytest
import tensorflow as tf

from tfagents_batch.training.runtime import devices


@pytest.fixture
def told(monkeypatch):
    """What TensorFlow, with two GPUs, is told."""
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


def test_one_gpu_is_claimed_and_its_memory_grows(told):
    devices.claim("gpu")
    assert told == {"visible": (["a"], "GPU"), "growing": [("a", True)]}


def test_training_on_the_cpu_claims_none(told):
    devices.claim("cpu")
    assert told == {"visible": ([], "GPU"), "growing": []}


def test_what_has_run_before_is_left_alone(told, monkeypatch):
    def too_late(*_):
        raise RuntimeError("cannot be modified after being initialized")

    monkeypatch.setattr(tf.config, "set_visible_devices", too_late)
    devices.claim("cpu")


def test_what_others_have_chosen_is_left_alone(told, monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["b"])
    devices.claim("gpu")
    assert told == {"visible": None, "growing": []}


def test_gpus_that_others_have_divided_are_left_alone(told, monkeypatch):
    def divided(*_):
        raise ValueError("Cannot set memory growth on device with virtual devices")

    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", divided)
    devices.claim("gpu")
    assert told["visible"] is None
