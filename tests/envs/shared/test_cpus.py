import os

from tests.support.backends import one_backend
from tfagents_batch.envs.shared import cpus
from tfagents_batch.envs.testing import CountingEnv


def test_all_sides_poll_if_each_has_its_own_core():
    chosen = cpus.choose(2, [0, 1, 2, 3])
    assert chosen.hub > 0
    assert chosen.worker > 0
    assert chosen.cores is None


def test_the_learner_sleeps_if_workers_use_all_cores():
    chosen = cpus.choose(2, [4, 7])
    assert chosen.hub == 0
    assert chosen.worker > 0
    assert chosen.cores == (4, 7)


def test_no_side_polls_if_workers_share_cores():
    assert cpus.choose(8, [0, 1]) == cpus.Waiting(0, 0, None)


def test_the_user_can_choose_pinning():
    assert cpus.choose(2, [4, 7], pin=False).cores is None
    assert cpus.choose(3, [4, 7], pin=True).cores == (4, 7, 4)


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
