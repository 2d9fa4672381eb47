import os

import pytest

from tests.support.backends import one_backend
from tfagents_batch.envs.shared import cpus
from tfagents_batch.envs.testing import CountingEnv


@pytest.mark.parametrize(
    ("num_workers", "cores", "pin", "polling", "pinned"),
    [
        (2, [0, 1, 2, 3], None, (True, True), None),
        (2, [4, 7], None, (False, True), (4, 7)),  # the learner shares their cores
        (8, [0, 1], None, (False, False), None),  # workers share cores
        (2, [4, 7], False, (False, True), None),
        (3, [4, 7], True, (False, False), (4, 7, 4)),
    ],
)
def test_a_side_polls_if_it_has_a_core_of_its_own(
    num_workers, cores, pin, polling, pinned
):
    chosen = cpus.choose(num_workers, cores, pin)
    assert (chosen.hub > 0, chosen.worker > 0) == polling
    assert chosen.cores == pinned


@one_backend
def test_workers_stay_on_their_cores(make_pool):
    cores = cpus.available()
    pool = make_pool([CountingEnv] * 2, 2, pin_workers=True)
    pool.reset(1)
    pool.steps()
    found = [os.sched_getaffinity(pid) for pid in pool.pids]
    assert found == [{cores[i % len(cores)]} for i in range(2)]
    assert os.sched_getaffinity(0) == set(cores)


@one_backend
def test_more_workers_than_cores_give_a_warning_with_both_numbers(make_pool, caplog):
    count = len(cpus.available()) + 1
    make_pool([CountingEnv] * count, count)
    assert f"{count} worker processes share {count - 1} cores" in caplog.text
