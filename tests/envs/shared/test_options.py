"""Options of pools are checked when they are made."""

import pytest

from tfagents_batch.envs.shared.options import EnvOptions
from tfagents_batch.errors import UserError


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
        EnvOptions(**option)
