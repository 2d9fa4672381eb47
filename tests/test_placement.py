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


def test_devices_that_others_have_chosen_are_unchanged(calls, monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["b"])
    placement.claim("gpu")
    assert calls == {"visible": None, "growing": []}


@pytest.mark.parametrize(
    ("device", "place", "name", "error"),
    [
        ("cpu", tf.config, "set_visible_devices", RuntimeError("TensorFlow has run")),
        ("gpu", tf.config.experimental, "set_memory_growth", ValueError("is divided")),
    ],
)
def test_devices_that_cannot_be_changed_any_more_are_unchanged(
    calls, monkeypatch, device, place, name, error
):
    def too_late(*_):
        raise error

    monkeypatch.setattr(place, name, too_late)
    placement.claim(device)
    assert calls["visible"] is None
