import gymnasium
import pytest

from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.envs.worker import construction


@pytest.mark.parametrize(
    ("create", "limit"),
    [
        (lambda: gymnasium.make("CartPole-v1"), 500),
        (lambda: gymnasium.wrappers.TimeLimit(CountingEnv(), 7), 7),
        (CountingEnv, None),
    ],
    ids=["registered", "wrapped", "none"],
)
def test_time_limit_is_found(create, limit):
    assert construction.inspect(create())["max_episode_steps"] == limit


@pytest.mark.parametrize("create", [dict, lambda: gymnasium.make_vec("CartPole-v1")])
def test_only_single_environments_are_accepted(create):
    _, _, failure = construction.construct([CountingEnv, create], first_row=4)
    assert failure.env == 5
    assert failure.phase == "construct"
    assert "expected a" in failure.text
