from __future__ import annotations

import pytest

from tfagents_batch.envs import failures
from tfagents_batch.envs.failures import Failure
from tfagents_batch.envs.outcome import Fault
from tfagents_batch.envs.restart_budget import RestartBudget
from tfagents_batch.envs.stepper import env_seed


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def fault(env=2, text="broke"):
    failure = Failure(failures.CRASH, env=env, phase="step", text=text)
    return Fault(failure, 1)


@pytest.fixture
def clock():
    return Clock()


def test_the_first_restart_is_granted_at_once(clock):
    budget = RestartBudget(4, clock=clock)
    assert budget.grant(fault(), [2, 3]) is None
    assert budget.restarts(range(4)) == [0, 0, 1, 1]
    assert budget.count == 1


def test_a_restart_within_the_period_is_refused_with_its_causes(clock):
    budget = RestartBudget(4, period=60, clock=clock)
    assert budget.grant(fault(text="first"), [2]) is None
    clock.now += 59
    error = budget.grant(fault(text="second"), [2])
    assert "env 2 failed again 59.0 s after it was replaced" in str(error)
    assert "first" in str(error)
    assert "second" in str(error)
    assert error.env == 2


def test_a_restart_after_the_period_is_granted(clock):
    budget = RestartBudget(4, period=60, clock=clock)
    budget.grant(fault(), [2])
    clock.now += 60
    assert budget.grant(fault(), [2]) is None


def test_only_the_environment_at_fault_is_charged(clock):
    budget = RestartBudget(4, clock=clock)
    assert budget.grant(fault(env=2), [2, 3]) is None
    assert budget.grant(fault(env=3), [2, 3]) is None


def test_all_rows_are_charged_where_the_culprit_is_unknown(clock):
    budget = RestartBudget(4, clock=clock)
    assert budget.grant(fault(env=None), [2, 3]) is None
    assert budget.grant(fault(env=3), [3]) is not None


def test_the_last_restart_is_the_limit(clock):
    budget = RestartBudget(1, limit=3, period=0, clock=clock)
    for _ in range(3):
        assert budget.grant(fault(env=0), [0]) is None
    error = budget.grant(fault(env=0), [0])
    assert "after 3 restarts, the most that are granted" in str(error)


def test_the_last_five_causes_are_told(clock):
    budget = RestartBudget(1, limit=7, period=0, clock=clock)
    for i in range(7):
        budget.grant(fault(env=0, text=f"cause-{i}"), [0])
    text = str(budget.grant(fault(env=0, text="cause-7"), [0]))
    assert [f"cause-{i}" in text for i in range(8)] == [False] * 3 + [True] * 5


def test_failures_in_place_are_recorded_or_given_up(clock):
    budget = RestartBudget(1, period=60, clock=clock)
    given_up = []
    budget.give_up = given_up.append
    budget.failed(fault(env=0))
    failed, restarted = budget.events()
    for event in (failed, restarted):
        assert (event["env"], event["envs"], event["worker"]) == (0, [0], 1)
        assert event["restarts"] == 1
    assert (failed["event"], failed["error"]) == ("env_failed", "WorkerCrashed")
    assert "broke" in failed["cause"]
    assert restarted["event"] == "env_restarted"
    assert budget.events() == []
    budget.failed(fault(env=0))
    assert len(given_up) == 1
    assert budget.events() == []


def test_replacements_have_seeds_of_their_own():
    seeds = {
        env_seed(3, index, restarts) for index in range(4) for restarts in range(4)
    }
    assert len(seeds) == 16
    assert env_seed(3, 1, 0) == env_seed(3, 1)
