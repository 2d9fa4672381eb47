import pytest

from tfagents_batch.envs.processes.restart_budget import RestartBudget
from tfagents_batch.envs.shared import failures
from tfagents_batch.envs.shared.failures import Failure


def fault(env=2, text="broke"):
    return Failure(failures.CRASH, env=env, worker=1, phase="step", text=text)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def refusal(budget, fault, rows):
    """Return the error of a refused restart; None if it is granted."""
    refusals = []
    budget.give_up = refusals.append
    assert budget.grant(fault, rows) == (not refusals)
    return refusals[0] if refusals else None


def test_a_restart_within_the_period_is_refused_with_its_causes(clock):
    budget = RestartBudget(4, period=60, clock=clock)
    assert refusal(budget, fault(text="first"), [2]) is None
    clock.now += 59
    error = refusal(budget, fault(text="second"), [2])
    assert "env 2 failed again 59.0 s after it was replaced" in str(error)
    assert "first" in str(error)
    assert "second" in str(error)
    assert error.env == 2


def test_a_restart_after_the_period_is_granted(clock):
    budget = RestartBudget(4, period=60, clock=clock)
    refusal(budget, fault(), [2])
    clock.now += 60
    assert refusal(budget, fault(), [2]) is None


def test_only_the_environment_at_fault_is_charged(clock):
    budget = RestartBudget(4, clock=clock)
    assert refusal(budget, fault(env=2), [2, 3]) is None
    assert refusal(budget, fault(env=3), [2, 3]) is None


def test_all_rows_are_charged_if_the_failed_environment_is_unknown(clock):
    budget = RestartBudget(4, clock=clock)
    assert refusal(budget, fault(env=None), [2, 3]) is None
    assert refusal(budget, fault(env=3), [3]) is not None


def test_the_number_of_restarts_is_limited(clock):
    budget = RestartBudget(1, limit=3, period=0, clock=clock)
    for _ in range(3):
        assert refusal(budget, fault(env=0), [0]) is None
    error = refusal(budget, fault(env=0), [0])
    assert "after 3 restarts, the limit" in str(error)


def test_a_refusal_lists_the_last_five_causes(clock):
    budget = RestartBudget(1, limit=7, period=0, clock=clock)
    for i in range(7):
        refusal(budget, fault(env=0, text=f"cause-{i}"), [0])
    text = str(refusal(budget, fault(env=0, text="cause-7"), [0]))
    assert [f"cause-{i}" in text for i in range(8)] == [False] * 3 + [True] * 5
