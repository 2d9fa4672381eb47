import time

import pytest
from gymnasium.utils.env_checker import check_env

from benchmarks.measure import rows
from benchmarks.work.slow import Slow


@pytest.mark.parametrize(
    "busy, clock", [(True, time.thread_time), (False, time.monotonic)]
)
def test_a_step_takes_the_given_time(busy, clock):
    env = Slow(20, busy)
    env.reset(seed=1)
    start = clock()
    env.step(0)
    assert clock() - start >= 0.02


def test_slow_is_a_valid_environment():
    check_env(Slow(0, False), skip_render_check=True)


@pytest.mark.parametrize("kind", ["busy", "sleeping"])
def test_each_of_thirty_environments_has_a_worker(kind):
    work = rows.ENVIRONMENTS[f"slow-30-{kind}"].work
    assert work.num_envs == work.num_workers == 30
    assert work.constructor()()._busy is (kind == "busy")
