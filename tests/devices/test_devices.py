"""Devices of a run on machines that are not here."""

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch import config as configs
from tfagents_batch.devices import gpu_remarks, nvidia, placement
from tfagents_batch.devices.nvidia import Gpu, Process
from tfagents_batch.errors import UserError
from tfagents_batch.sources import replay_layout
from tfagents_batch.training.config import RunConfig
from tfagents_batch.types import EnvSpec

GIB = 1 << 30
EMPTY = Gpu("H100", (9, 0), 80 * GIB, 78 * GIB)
FULL = EMPTY._replace(free=GIB // 2, processes=(Process(7, "python", 79 * GIB),))
IMAGES = gymnasium.spaces.Box(0, 255, (84, 84, 1), np.uint8)
VECTOR = gymnasium.spaces.Box(-1, 1, (3,), np.float32)


class FakeEnv:
    compilable, hub = True, 5


@pytest.fixture
def machine(monkeypatch):
    """Return a function that sets the GPUs of the machine."""

    def put(*gpus):
        monkeypatch.setattr(placement, "has_gpu", lambda: bool(gpus))
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
        monkeypatch.setattr(nvidia, "gpus", lambda: gpus)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return put


def choose(observation, **options):
    spec = EnvSpec(8, observation, gymnasium.spaces.Discrete(2), {})
    return placement.of_run(RunConfig(**options), spec, [FakeEnv()])


def test_images_are_trained_on_a_gpu_if_there_is_one_with_memory(machine):
    machine(EMPTY)
    assert choose(VECTOR).name == "cpu"
    found = choose(IMAGES)
    assert found[:2] == (placement.CPU, placement.GPU)
    assert found.free_bytes == 78 * GIB
    assert "convolve" in found.reason
    machine(FULL)
    found = choose(IMAGES)
    assert (found.name, found.reason) == (
        "cpu",
        "of the GPU's memory 512.0 MiB is free",
    )
    machine()
    assert choose(IMAGES).reason == "TensorFlow sees no GPU"


def test_networks_of_a_user_have_no_known_width(machine):
    machine(EMPTY)
    spec = EnvSpec(8, VECTOR, gymnasium.spaces.Discrete(2), {})
    settings = {"network": {"hidden": [1024]}, "minibatch_size": 2048}
    config = RunConfig()
    settings = configs.replace(config.settings, settings)
    config = configs.replace(config, {"settings": settings})
    assert placement.of_run(config, spec, [FakeEnv()]).name == "gpu"
    assert placement.of_run(config, spec, [FakeEnv()], own_network=True).name == "cpu"


def test_a_gpu_that_is_asked_for_must_be_there_and_have_memory(machine, monkeypatch):
    monkeypatch.setattr(gpu_remarks, "problem", lambda: "no NVIDIA driver")
    machine()
    placement.check("auto")
    with pytest.raises(
        UserError, match="gpu, but no NVIDIA driver; or use --device=cpu"
    ):
        placement.check("gpu")
    monkeypatch.setattr(gpu_remarks, "problem", lambda: "")
    with pytest.raises(UserError, match="TensorFlow on the CPU before; start a new"):
        placement.check("gpu")
    machine(FULL)
    with pytest.raises(UserError, match=r"512.0 MiB of 80.*process 7 \(python\).*end"):
        placement.check("gpu")
    machine(EMPTY)
    placement.check("gpu")


def test_the_gpu_is_the_first_visible_one(machine, monkeypatch):
    machine(EMPTY, FULL)
    assert placement.used_gpu() == EMPTY
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    assert placement.used_gpu() == FULL
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-8f6d")
    assert placement.used_gpu() is None


def test_gpus_of_several_kinds_are_told_apart_in_the_order_of_the_bus_only(
    machine, monkeypatch
):
    machine(EMPTY, FULL._replace(name="another"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert placement.used_gpu() is None  # CUDA's 1 may be the driver's 0
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert placement.used_gpu().name == "another"


def test_a_replay_must_fit_into_the_memory_of_the_gpu():
    place = placement.Placement(placement.CPU, placement.GPU, free_bytes=10 * GIB)
    replay_layout.check_memory(8 * GIB, place)
    with pytest.raises(UserError, match=r"needs 8.50 GiB, but 10.00 GiB are free on"):
        replay_layout.check_memory(8 * GIB + GIB // 2, place)
    replay_layout.check_memory(99 * GIB, place._replace(free_bytes=None))
