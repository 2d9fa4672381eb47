"""Options of pools: checked when they are made, and named in one place."""

import pytest

from tfagents_batch.envs.shared.options import ENV_OPTIONS, PoolOptions
from tfagents_batch.errors import UserError


def test_options_of_a_run_are_those_that_are_not_settings_of_it():
    assert set(ENV_OPTIONS) == {
        *("finite_check", "strict_bounds", "worker_variables", "pin_workers"),
        *("construct_seconds", "reset_seconds", "step_seconds", "backend"),
        *("max_restarts", "restart_period_seconds", "max_worker_mb"),
    }


@pytest.mark.parametrize(
    "option",
    [
        {"on_fault": "ignore"},
        {"finite_check": "maybe"},
        {"max_restarts": -1},
        {"restart_period_seconds": None},
        {"step_seconds": "60"},
        {"max_worker_mb": 0},
        {"info_keys": {"x": "float64"}},
        {"info_keys": {"episode_return": "float32"}},
        {"worker_variables": {"a=b": "c"}},
    ],
)
def test_a_wrong_value_is_refused_by_its_name(option):
    (name,) = option
    with pytest.raises(UserError, match=name):
        PoolOptions(**option)


def test_the_limit_of_memory_reaches_workers_in_bytes():
    assert PoolOptions().for_workers()["max_bytes"] is None
    assert PoolOptions(max_worker_mb=1.5).for_workers()["max_bytes"] == 3 * 2**19
