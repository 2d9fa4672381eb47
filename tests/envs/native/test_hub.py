import os
import re
import threading
import time

import gymnasium
import pytest
import tensorflow as tf

from tfagents_batch import spaces
from tfagents_batch.envs.shared import actions, layout, protocol
from tfagents_batch.envs.worker.serving import Doorbell
from tfagents_batch.types import EnvSpec

pytestmark = pytest.mark.xla
PATIENCE_SECONDS = 20


def memory():
    """Return action space, layout of one environment, descriptor and mapping."""
    space = gymnasium.spaces.Discrete(2)
    leaves = spaces.leaves(space)
    plan = layout.make_layout(leaves, leaves, layout.STATISTICS, 1, 1)
    descriptor = os.memfd_create("test")
    return space, plan, descriptor, layout.allocate(plan, descriptor)


def test_a_late_reply_does_not_lose_the_next_wake_up(library):
    from tfagents_batch.envs.graph import host_calls
    from tfagents_batch.envs.native.hub import Hub
    from tfagents_batch.envs.native.op import Calls

    space, plan, descriptor, mapped = memory()
    writer = actions.ActionWriter(space, layout.views(plan, mapped).action)
    seconds = (PATIENCE_SECONDS, PATIENCE_SECONDS)
    hub = Hub(library, plan, descriptor, writer, [0, 1], seconds, 0, 0)
    os.close(descriptor)
    bell = Doorbell(mapped, plan, 0, 0)
    spec = EnvSpec(1, space, space, layout.STATISTICS, None)
    calls = Calls(hub.handle, host_calls.outputs(spec))
    zero = tf.constant([0])

    def commands():
        token = calls.init(tf.constant(1))[0]
        calls.step([token, zero])

    thread = threading.Thread(target=commands)
    thread.start()
    _, sequence = bell.wait()
    bell.answer(sequence, protocol.OK)
    _, sequence = bell.wait()
    sleeps = _count_sleeps(thread)
    bell._wake()  # as after a reply that the hub has already seen
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _count_sleeps(thread) == sleeps and time.monotonic() < deadline:
        pass  # the hub wakes up too early and sleeps again
    bell.answer(sequence, protocol.OK)
    thread.join(PATIENCE_SECONDS / 2)
    late = thread.is_alive()
    hub.notify("stop")
    thread.join(PATIENCE_SECONDS)
    hub.close()
    assert not late


def _count_sleeps(thread):
    """Wait until a thread sleeps; return how many times it went to sleep."""
    while True:
        with open(f"/proc/self/task/{thread.native_id}/status") as file:
            status = file.read()
        if "sleeping" in status:
            return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.M)[1])
