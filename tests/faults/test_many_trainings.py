"""One process trains a thousand times and keeps nothing of it."""

import gc
import os
import pathlib
import shutil
import threading

import psutil
import pytest

import tfagents_batch as tfb
from tests.support.brief import QUICK

COUNT, SETTLED = 1000, 100  # trainings, and those after which nothing may grow


def held():
    """Return what this process holds, by kind."""
    gc.collect()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "maps": len(pathlib.Path("/proc/self/maps").read_text().splitlines()),
        "threads": threading.active_count(),
        "processes": len(psutil.Process().children(recursive=True)),
        "shared memory": len(os.listdir("/dev/shm")),
    }


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
@pytest.mark.usefixtures("linear")
def test_a_thousand_trainings_keep_no_descriptor_map_thread_or_process(tmp_path):
    options = QUICK | {
        "env": "CartPole-v1",
        "num_envs": 2,
        "num_workers": 2,
        "rollout.length": 8,
        "steps": 32,
    }
    for index in range(COUNT):
        tfb.train("linear", logdir=tmp_path / "run", seed=index, **options)
        shutil.rmtree(tmp_path / "run")
        if index == SETTLED:
            settled = held()
    ended = held()
    # The heap may be mapped in other pieces.
    assert ended.pop("maps") < settled.pop("maps") + 50
    assert ended == settled
