"""Runs of support/two_devices.py: updates on a second device, weights of the CPU."""

import json
import subprocess
import sys

import pytest

from tests.support.two_devices import OTHERS, RUNS, SECOND, UPDATES
from tfagents_batch.devices.placement import CPU

QUICK = "ppo-split", "dqn-split", "ga3c-whole"  # in one process
SLOW = [name for name in (*RUNS, *OTHERS) if name not in QUICK]
CASES = [
    pytest.param(QUICK, id="quick"),
    *(pytest.param((name,), id=name, marks=pytest.mark.slow) for name in SLOW),
]
WHOLE = "whole", "full", "overlap-whole", "host"  # runs of one program


@pytest.mark.parametrize("names", CASES)
def test_updates_on_a_second_device_give_the_weights_of_the_cpu(names):
    command = [sys.executable, "-m", "tests.support.two_devices", *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(x) for x in done.stdout.splitlines() if x.startswith("{")]
    assert [line["run"] for line in lines] == list(names)
    for line in lines:
        check(line["run"], line)


def check(name, found):
    kind, _, way = name.partition("-")
    collects = SECOND if way in WHOLE else CPU
    if kind == "ga3c":  # the order of its rollouts depends on timing
        assert found["finite"] and found["learner"] == [SECOND[1:]]
        assert found["predictors"] == [collects[1:]]
        return
    assert found["difference"] < 1e-5
    if name in OTHERS:
        return
    assert found["collect"] == collects
    assert (found["update"], found["learner"]) == (SECOND, [SECOND[1:]])
    assert found["updates"] >= UPDATES and found["traces"] == 1
    assert "int32" not in found["dtypes"]  # TensorFlow keeps those on the CPU
