"""Visible GPUs, tested by the calls to TensorFlow: no GPU is needed."""

import pytest
import tensorflow as tf

from tfagents_batch import placement


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
    placement.claim("gpu")
    assert calls == {"visible": (["a"], "GPU"), "growing": [("a", True)]}


def test_training_on_the_cpu_claims_none(calls):
    placement.claim("cpu")
    assert calls == {"visible": ([], "GPU"), "growing": []}


def test_devices_are_unchanged_if_tensorflow_has_run_before(calls, monkeypatch):
    def too_late(*_):
        raise RuntimeError("cannot be modified after being initialized")

    monkeypatch.setattr(tf.config, "set_visible_devices", too_late)
    placement.claim("cpu")


def test_devices_that_others_have_chosen_are_unchanged(calls, monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["b"])
    placement.claim("gpu")
    assert calls == {"visible": None, "growing": []}


def test_gpus_that_others_have_divided_are_unchanged(calls, monkeypatch):
    def divided(*_):
        raise ValueError("Cannot set memory growth on device with virtual devices")

    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", divided)
    placement.claim("gpu")
    assert calls["visible"] is None
