"""Failed environments are replaced, and the rest of the batch is not affected."""

import os
import signal
import threading
import time

import numpy as np
import psutil
import pytest

from tests.support.backends import on_backends, one_backend
from tests.support.fault_env import FaultEnv, fault_envs
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.envs.worker.construction import env_seed
from tfagents_batch.errors import EnvError, WorkerCrashed

PATIENCE_SECONDS = 30
ENDLESS = {"max_restarts": 1000, "restart_period_seconds": 0}


def act(pool):
    return pool.steps(action=1)


def lost(batch):
    return np.flatnonzero(batch.first & batch.truncated).tolist()


def until_replaced(pool):
    """Step until rows that failed are valid again.

    Returns:
      the failed rows of each earlier step, and the first batch without any.
    """
    seen = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        batch = act(pool)
        if not lost(batch) and any(seen):
            return seen, batch
        seen.append(lost(batch))
    raise AssertionError("nothing was replaced")


def act_and_check(pool):
    """Step until an error is raised."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        act(pool)
        pool.check()


def start_pool(make_pool, mode, num_workers=2, steps=0, fault=None, **options):
    """Return a pool of four environments that was reset and stepped."""
    envs = fault_envs(mode, 4, length=1000, **fault or {})
    pool = make_pool(envs, num_workers, on_fault="restart", **options)
    pool.reset(3)
    for _ in range(steps):
        assert lost(act(pool)) == []
    return pool


@on_backends(
    "fault",
    # In this process a KeyboardInterrupt is the user's Ctrl-C.
    portable=[("exc", 0), ("sysexit", 0), ("nan", 0), ("keyboard", 2), ("nan", 2)],
    native=[("exc", 2), ("shape", 2)],
)
def test_an_environment_that_raises_loses_its_own_row(make_pool, fault):
    pool = start_pool(make_pool, *fault, steps=3)
    failed = act(pool)
    assert lost(failed) == [3]
    assert failed.observation[0][3].tolist() == [3, 0, 3]  # the last valid one
    assert failed.reward[3] == 0
    next_batch = act(pool)
    assert lost(next_batch) == []
    assert next_batch.first.tolist() == [False, False, False, True]
    assert next_batch.observation[0][:, 2].tolist() == [5, 5, 5, 0]
    assert act(pool).observation[0][:, 2].tolist() == [6, 6, 6, 1]
    pool.check()


def replaced(pool):
    """Check that the rows of the second worker are lost until it is replaced.

    Returns:
      the number of lost steps of its rows.
    """
    seen, batch = until_replaced(pool)
    assert {tuple(rows) for rows in seen} <= {(), (2, 3)}
    assert batch.first.tolist() == [False, False, True, True]
    assert batch.observation[0][2:, 2].tolist() == [0, 0]
    return sum(map(len, seen))


@on_backends("mode", portable=["close_descriptors"], native=["garbage_reply"])
def test_a_worker_that_crashes_loses_its_rows_until_it_is_replaced(make_pool, mode):
    pool = start_pool(make_pool, mode, steps=3)
    replaced(pool)
    pool.check()


def test_events_describe_each_failure_and_restart_of_a_killed_worker(make_pool):
    pool = start_pool(make_pool, "kill", steps=3, fault={"episode": None}, **ENDLESS)
    lost_steps = replaced(pool)
    failed, restarted = pool.events()
    for event in (failed, restarted):
        assert (event["env"], event["envs"], event["worker"]) == (3, [2, 3], 1)
        assert event["restarts"] == 1
    assert (failed["event"], restarted["event"]) == ("env_failed", "env_restarted")
    assert failed["error"] == "WorkerCrashed"
    place = "was killed by SIGKILL, in step() at step 3 of episode 0, action 1"
    assert place in failed["cause"] and f"seed {env_seed(3, 3)})" in failed["cause"]
    metrics = pool.metrics()
    assert metrics["env/restarts"] == 1
    assert metrics["env/lost_steps"] == restarted["lost_steps"] == lost_steps
    assert pool.events() == []
    replaced(pool)  # the replacement has another seed and fails too
    assert f"seed {env_seed(3, 3, 1)})" in pool.events()[0]["cause"]


@on_backends("mode", portable=["hang_gil"], native=["stop"])
def test_a_worker_that_hangs_is_replaced(make_pool, mode):
    pool = start_pool(make_pool, mode, steps=3, step_seconds=0.3)
    before = set(pool.pids)
    seen, _ = until_replaced(pool)
    assert all(rows == [2, 3] for rows in seen)
    failed, _ = pool.events()
    assert failed["error"] == "WorkerTimeout"
    (ended,) = before - set(pool.pids)
    assert not psutil.pid_exists(ended)
    pool.check()


@on_backends("mode", portable=["exc"], native=["kill"])
def test_an_environment_that_fails_in_reset_is_replaced(make_pool, mode):
    envs = fault_envs(mode, 4, phase="reset", length=1000)
    pool = make_pool(envs, 2, on_fault="restart", reset_seconds=5, step_seconds=5)
    batch = pool.reset(3)
    assert 3 in lost(batch)
    with pytest.raises(EnvError, match="failed again"):  # its replacement fails too
        act_and_check(pool)


def test_the_other_rows_are_unchanged_by_a_failure(make_pool, tmp_path):
    def run(mode, num_workers):
        mark = {"mark": str(tmp_path / "mark")}
        pool = start_pool(make_pool, mode, num_workers, fault=mark)
        batches = [act(pool) for _ in range(40)]
        pool.check()
        return [
            np.concatenate([np.ravel(x[:2]) for x in (*b.observation, *b[1:5])])
            for b in batches
        ]

    np.testing.assert_array_equal(run("kill", 2), run(None, 0))


@one_backend
def test_a_replacement_has_another_seed_than_its_predecessor(make_pool):
    class Seeded(CountingEnv):
        def reset(self, *, seed=None, options=None):
            self.known = seed or 0
            return super().reset(seed=seed)

        def step(self, action):
            if self._step == 2 and self.known == env_seed(3, 1):
                raise ValueError("this seed does not work")
            _, *rest = super().step(action)
            return np.array([self.known % 1000, self._step], np.float32), *rest

    pool = make_pool([lambda: Seeded(length=1000)] * 2, 1, on_fault="restart")
    pool.reset(3)
    batch = pool.steps(6, action=1)
    pool.check()
    assert batch.observation[0][1, 0] == env_seed(3, 1, 1) % 1000


@one_backend
def test_reset_starts_all_environments_again(make_pool):
    pool = start_pool(make_pool, "exc", steps=3)
    assert lost(act(pool)) == [3]
    batch = pool.reset(4)
    assert lost(batch) == []
    assert batch.observation[0][:, 1:].tolist() == [[0, 0]] * 4


def test_the_batch_waits_for_a_replacement_if_no_worker_is_left(make_pool):
    pool = start_pool(make_pool, "kill", num_workers=1, steps=3)
    assert lost(act(pool)) == [0, 1, 2, 3]
    assert lost(act(pool)) == []
    pool.check()


@on_backends(
    "limit",
    portable=[(ENDLESS | {"max_restarts": 3}, "after 3 restarts, the limit")],
    native=[({}, "env 3 failed again")],
)
def test_an_environment_that_always_fails_ends_the_run(make_pool, limit):
    budget, text = limit
    pool = start_pool(make_pool, "exc", fault={"episode": None, "step": 0}, **budget)
    with pytest.raises(EnvError, match=text) as caught:
        act_and_check(pool)
    assert str(caught.value).count("raised ValueError in step() at step 0") >= 2


def test_a_constructor_that_always_crashes_ends_the_run(make_pool, tmp_path):
    mark = tmp_path / "created"

    def dies_the_second_time():
        if mark.exists():
            os._exit(7)
        mark.touch()
        return FaultEnv("kill")

    pool = make_pool([dies_the_second_time], 1, on_fault="restart")
    pool.reset(3)
    with pytest.raises(WorkerCrashed, match="exited with code 7"):
        act_and_check(pool)


@one_backend
def test_a_replacement_with_other_spaces_is_refused(make_pool, tmp_path):
    mark = tmp_path / "created"

    def grows():
        env = FaultEnv("exc")
        if mark.exists():
            env.action_space = type(env.action_space)(7)
        mark.touch()
        return env

    pool = make_pool([grows], 1, on_fault="restart")
    pool.reset(3)
    with pytest.raises(EnvError, match=r"has other spaces: action_space"):
        act_and_check(pool)


def test_invalid_actions_are_raised_despite_restarts(make_pool):
    pool = start_pool(make_pool, None)
    batch = pool.step([np.full(4, 7, np.int32)])
    assert lost(batch) == [0, 1, 2, 3]
    with pytest.raises(EnvError, match="invalid action"):
        pool.check()


@on_backends("mode", portable=["hang_gil"], native=["kill"])
def test_closing_while_a_worker_is_replaced_leaks_nothing(make_pool, mode):
    pool = start_pool(make_pool, mode, steps=3, step_seconds=0.2)
    act(pool)
    pool.close()  # the leak fixture checks for leaks


def test_stop_ends_the_wait_for_the_only_worker(make_pool):
    created = []

    def make():
        if created or os.environ.get("TFAB_TEST_SLOW"):
            time.sleep(3600)
        created.append(1)
        os.environ["TFAB_TEST_SLOW"] = "1"
        return FaultEnv("kill", step=0)

    pool = make_pool([make], 1, on_fault="restart")
    pool.reset(3)
    act(pool)
    thread = threading.Timer(0.5, pool.stop)
    thread.start()
    act(pool)
    thread.join(PATIENCE_SECONDS)
    assert not pool.ok


def test_a_worker_that_crashes_while_idle_is_replaced_and_reported(make_pool, tmp_path):
    fault = {"mark": str(tmp_path / "mark")}
    pool = start_pool(make_pool, "kill", fault=fault, **ENDLESS)
    for idle in (True, False):
        if idle:
            os.kill(pool.pids[1], signal.SIGKILL)
        replaced(pool)
        failed, _ = pool.events()
        assert ("while idle" in failed["cause"]) == idle
        assert failed["env"] == (None if idle else 3)
        act(pool)
    pool.check()


def test_giving_up_ends_the_wait_for_other_workers(make_pool):
    envs = [lambda: FaultEnv("hang", step=0), lambda: FaultEnv("exc", step=0)]
    pool = make_pool(envs, 2, on_fault="restart", max_restarts=0)
    pool.reset(3)
    started = time.monotonic()
    act(pool)
    with pytest.raises(EnvError, match="env 1 failed again"):
        pool.check()
    assert time.monotonic() - started < 20  # the deadline is a minute
