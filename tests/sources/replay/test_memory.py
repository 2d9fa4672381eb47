"""Bytes of a replay, and of what there is."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

from tests.sources.replay.test_replay import CASES, build
from tfagents_batch.devices import machine
from tfagents_batch.devices.placement import HOST, Placement
from tfagents_batch.errors import UserError
from tfagents_batch.sources import replay_layout
from tfagents_batch.sources.replay_settings import ReplaySettings
from tfagents_batch.training.config import RunConfig
from tfagents_batch.types import EnvSpec


@pytest.mark.parametrize("device", ["/CPU:0", "/CPU:1"])
@pytest.mark.parametrize("name", ["wide", "stack", "state"])
def test_required_bytes_are_those_of_the_variables(name, device):
    with tf.device(device):
        compare(CASES[name])


def compare(case):
    replay = build(case)
    space = gymnasium.spaces.Box(-1, 1, (2 if case.state else 80,), np.float32)
    if case.stack:
        image = gymnasium.spaces.Box(0, 255, (case.stack, 2, 1), np.uint8)
        uid = gymnasium.spaces.Box(-1, 1, (), np.float32)
        space = gymnasium.spaces.Dict({"image": image, "uid": uid})
    spec = EnvSpec(case.batch, space, gymnasium.spaces.Discrete(2), {})
    config = ReplaySettings(case.capacity, case.k, case.stack)
    stored = {k: v for k, v in replay.named_variables().items() if k[:5] in PARTS}
    size = sum(x.dtype.size * int(tf.size(x)) for k, x in stored.items())
    recorded = stored["taken/behavior/log_prob"]
    size -= recorded.dtype.size * int(tf.size(recorded))
    sizes = case.window, 160 if case.state else 0
    assert replay_layout.required_bytes(config, spec, *sizes) == size


PARTS = ("steps", "taken")


def test_an_atari_replay_of_a_million_frames_takes_seven_gigabytes():
    space = gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8)
    spec = EnvSpec(8, space, gymnasium.spaces.Discrete(6), {})
    size = replay_layout.required_bytes(
        ReplaySettings(stack=4, prioritized=True), spec, 2
    )
    assert 7.05e9 < size < 7.1e9
    assert machine.amount(size) == "6.59 GiB"


def test_more_than_four_fifths_of_the_memory_are_refused(monkeypatch):
    monkeypatch.setattr(machine, "available_bytes", lambda: None)
    replay_layout.check_memory(81)
    monkeypatch.setattr(machine, "available_bytes", lambda: 100)
    replay_layout.check_memory(80)
    with pytest.raises(UserError, match="smaller capacity"):
        replay_layout.check_memory(81)


def test_integers_are_counted_as_the_device_of_the_updates_holds_them(monkeypatch):
    spec = EnvSpec(
        2, gymnasium.spaces.MultiDiscrete([9] * 4), gymnasium.spaces.Discrete(2), {}
    )
    run, config = RunConfig(algorithm="dqn"), ReplaySettings(capacity=1000)
    window = run.settings.accepts()[config.kind].length
    host = replay_layout.required_bytes(config, spec, window)
    integers = 5 * replay_layout.ring(config, spec.num_envs, window).size
    with tf.device("/CPU:1"):
        assert replay_layout.required_bytes(config, spec, window) == host + 4 * integers
    free = int(host / replay_layout.PART) + 1
    monkeypatch.setattr(machine, "available_bytes", lambda: free)
    config.check_memory(spec, run, HOST)
    with pytest.raises(UserError, match="free on the GPU"):
        config.check_memory(spec, run, Placement("/CPU:0", "/CPU:1", free_bytes=free))


def test_available_memory_is_the_least_of_machine_and_groups(tmp_path):
    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    assert machine.available_bytes(str(tmp_path)) is None
    write("proc/meminfo", "MemTotal: 99 kB\nMemAvailable: 9 kB\n")
    assert machine.available_bytes(str(tmp_path)) == 9 * 1024
    write("proc/self/cgroup", "0::/a/b\n")
    write("sys/fs/cgroup/a/b/memory.max", "max\n")
    write("sys/fs/cgroup/a/b/memory.current", "5\n")
    assert machine.available_bytes(str(tmp_path)) == 9 * 1024
    write("sys/fs/cgroup/a/memory.max", "8000\n")
    write("sys/fs/cgroup/a/memory.current", "3000\n")
    write("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 2000\n")
    assert machine.available_bytes(str(tmp_path)) == 7000
    write("proc/self/cgroup", "5:cpu:/x\n4:memory:/x\n")
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", "500\n")
    write("sys/fs/cgroup/memory/memory.usage_in_bytes", "100\n")
    assert machine.available_bytes(str(tmp_path)) == 400


def test_an_amount_of_memory_has_a_readable_unit():
    assert machine.amount(3 * 2**29) == "1.50 GiB"
    assert machine.amount(2**29) == "512.0 MiB"
