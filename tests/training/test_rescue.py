"""Runs whose update goes on after a stop signal."""

import os
import pathlib
import select
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import tensorflow as tf

import tfagents_batch as tfb
from tests.support.lines import saved
from tfagents_batch.errors import SaveError
from tfagents_batch.training.log.logger import read_events
from tfagents_batch.training.run_folder import checkpoint
from tfagents_batch.training.saving import Rescue

ROOT = pathlib.Path(__file__).parents[2]


class Record:
    """Records what a rescue writes."""

    def __init__(self, step, saved, *values):
        self.step, self.saved, self.logger = step, saved, self
        self.values = {str(i): tf.Variable(x) for i, x in enumerate(values)}
        self.copies, self.events = [], []

    def state(self):
        return {"step": self.step}

    def variables(self):
        return self.values

    def save(self, step, variables, state):
        values = {name: x.numpy() for name, x in variables.items()}
        self.copies.append((step, state, values))

    def event(self, kind, step, **fields):
        self.events.append((kind, step))


def test_the_state_before_the_iteration_is_saved():
    record = Record(70, 50, 1.0, [2, 3])
    rescue = Rescue(record)
    rescue.refresh()
    for variable in record.values.values():
        variable.assign(tf.zeros_like(variable))
    rescue.save()
    ((step, state, values),) = record.copies
    assert (step, state) == (70, {"step": 70})
    np.testing.assert_equal(values, {"0": 1.0, "1": [2, 3]})
    assert record.events == [("stopped", 70)]


def test_a_newer_checkpoint_is_never_replaced_by_a_copy():
    record = Record(70, 50, 1.0)
    rescue = Rescue(record)
    rescue.refresh()
    record.saved = 90
    rescue.save()
    assert record.copies == []
    assert record.events == [("stopped", 90)]


def test_a_copy_that_cannot_be_saved_is_a_warning():
    record, messages = Record(70, 50, 1.0), []
    record.save = MagicMock(side_effect=SaveError("the disk is full"))
    record.console = SimpleNamespace(message=messages.append)
    rescue = Rescue(record)
    rescue.refresh()
    rescue.save()
    assert messages == ["warning: the disk is full"]
    assert record.events == [("checkpoint_failed", 70), ("stopped", 50)]


# The third update does not end.
PROGRAM = """
import sys
import tensorflow as tf
from tests.support import linear
from tfagents_batch import algorithms
from tfagents_batch.scripts import command_line, train
from tfagents_batch.training import signals

signals.TERM_GRACE_SECONDS = signals.RESCUE_SECONDS = 0.5
update = linear.Linear.update
queue = tf.queue.FIFOQueue(1, tf.float32, [])

def long_update(self, trajectory, seed, step):
    def wait():
        tf.print("long update", output_stream=sys.stdout)
        return queue.dequeue()
    tf.cond(step > 40, wait, lambda: 0.0)
    return update(self, trajectory, seed, step)

linear.Linear.update = long_update
algorithms.REGISTRY["linear"] = (linear.Linear, linear.Config)
sys.exit(command_line.run(train.main))
"""


def wait_for(process, text):
    """Read the output of a process until a text; at most three minutes."""
    found, deadline = b"", time.monotonic() + 180
    while text not in found:
        left = deadline - time.monotonic()
        assert left > 0 and select.select([process.stdout], [], [], left)[0], found
        data = os.read(process.stdout.fileno(), 65536)
        assert data, found
        found += data


def test_a_long_update_is_left_behind_and_the_run_can_be_resumed(linear, tmp_path):
    flags = ["--algorithm=linear", "--env=CartPole-v1", "--num_envs=2"]
    flags += ["--num_workers=1", "--rollout.length=10", "--eval_every=0"]
    flags += ["--steps=1e6", "--compile=off", "--logdir=logs"]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *flags],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    with process:
        try:
            wait_for(process, b"long update")
            process.send_signal(signal.SIGTERM)
            rest, _ = process.communicate(timeout=25)  # this machine may be busy
            assert process.returncode == 128 + signal.SIGTERM, rest
            assert b"while stopping" not in rest and b"Traceback" not in rest
        finally:
            process.kill()
    (folder,) = tmp_path.glob("logs/*")
    *_, step = saved(folder)
    last = read_events(folder)[-1]
    assert (last["event"], last["step"]) == ("stopped", step)
    assert 0 < step <= 60  # a copy may be a second old
    checkpoint.load(folder, {}, leave=("",))  # verifies all files
    run = tfb.train(resume=folder, steps=step + 20)
    assert run.finished and run.step >= step + 20
