import gymnasium
import numpy as np
import pytest

from tfagents_batch.algorithms import ppo
from tfagents_batch.envs.process_env import ProcessEnv
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import UserError
from tfagents_batch.training.evaluate import Evaluator, batch_size


@pytest.mark.parametrize(
    ("episodes", "most", "expected"), [(20, 8, 5), (10, 8, 5), (7, 4, 1), (64, 8, 8)]
)
def test_the_batch_divides_the_episodes(episodes, most, expected):
    assert batch_size(episodes, most) == expected


def evaluate(constructors, episodes, seed=0, times=1):
    with ProcessEnv(constructors, num_workers=0) as env:
        agent = ppo.PPO(ppo.Config(), env.spec)
        before = [v.numpy() for v in agent.named_variables().values()]
        evaluator = Evaluator(env, agent, episodes)
        results = [evaluator(seed) for _ in range(times)]
        after = [v.numpy() for v in agent.named_variables().values()]
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
    return results


def test_every_environment_plays_its_quota_however_long_its_episodes():
    lengths = [2, 30, 150]
    constructors = [lambda n=n: CountingEnv(length=n) for n in lengths]
    (result,) = evaluate(constructors, episodes=9)
    assert result.episodes == 9
    np.testing.assert_array_equal(result.lengths, np.repeat(lengths, 3))
    returns = [n * (n + 1) / 2 for n in lengths]
    np.testing.assert_array_equal(result.returns, np.repeat(returns, 3))
    assert result.mean_return == pytest.approx(np.mean(returns))
    assert result.std_return == pytest.approx(np.std(np.repeat(returns, 3)))


def test_equal_seeds_give_equal_episodes_and_evaluating_changes_nothing():
    def make():
        return gymnasium.make("CartPole-v1")

    first, second = evaluate([make] * 2, 4, seed=5, times=2)
    np.testing.assert_array_equal(first.returns, second.returns)


def test_episodes_that_do_not_divide_are_refused():
    with pytest.raises(UserError, match="3 episodes do not divide among 2"):
        evaluate([CountingEnv] * 2, 3)


def test_an_episode_that_does_not_end_is_an_error(monkeypatch):
    monkeypatch.setattr("tfagents_batch.training.evaluate.LONGEST", 300)
    with pytest.raises(UserError, match=r"did not end within 300 steps.*time limit"):
        evaluate([lambda: CountingEnv(length=10**9)], 1)
