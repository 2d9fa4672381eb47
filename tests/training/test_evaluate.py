from types import SimpleNamespace
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

from tests.support import linear
from tests.support.fault_env import fault_envs
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.make import make_env
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.training.assembly import seeded
from tfagents_batch.training.evaluate import CHUNK, Evaluator


def evaluate(constructors, episodes):
    with ProcessEnv(constructors, num_workers=0) as env:
        policy = linear.LinearPolicy(env.spec)
        before = [v.numpy() for v in policy.named_variables().values()]
        evaluator = Evaluator(env, policy, episodes)
        result = evaluator(0)
        after = [v.numpy() for v in policy.named_variables().values()]
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
    return result


def test_every_environment_plays_the_same_number_of_episodes():
    lengths = [2, 30, 150]
    constructors = [lambda n=n: CountingEnv(length=n) for n in lengths]
    result = evaluate(constructors, episodes=9)
    assert result.episodes == 9
    np.testing.assert_array_equal(result.lengths, np.repeat(lengths, 3))
    returns = [n * (n + 1) / 2 for n in lengths]
    np.testing.assert_array_equal(result.returns, np.repeat(returns, 3))
    assert result.mean_return == pytest.approx(np.mean(returns))
    assert result.std_return == pytest.approx(np.std(np.repeat(returns, 3)))


class Frail(CountingEnv):
    """Alternating episodes of 5 and 60 steps; the long ones raise before they end."""

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        self._length = 60 if self._episode % 2 else 5
        return observation, info

    def step(self, action):
        if self._step == 59:
            raise ValueError("something broke")
        return super().step(action)


def evaluate_with_faults(constructors, episodes, **options):
    with make_env(constructors, on_fault="restart", **options) as env:
        policy = linear.LinearPolicy(env.spec)
        return Evaluator(env, policy, episodes)(0)


def test_a_failed_episode_counts_and_is_not_replaced():
    makes = [Frail, lambda: CountingEnv(length=20)]
    result = evaluate_with_faults(makes, 6, num_workers=0)
    # Each environment plays three; a replaced one starts with a short one.
    np.testing.assert_array_equal(result.lengths, [5, 5, 20, 20, 20])
    assert (result.episodes, result.failed_episodes) == (5, 1)
    metrics = result.metrics()
    assert metrics["eval/failed_episodes"] == 1 and metrics["eval/episodes"] == 5


def test_a_slow_replacement_counts_as_one_failed_episode(make_process_env, tmp_path):
    """All rows until it is replaced are invalid, but count as one failure."""
    envs = fault_envs("kill", length=6, step=3, mark=str(tmp_path / "mark"))
    env = make_process_env(envs, 2, on_fault="restart")
    policy = linear.LinearPolicy(env.spec)
    result = Evaluator(env, policy, 6)(0)
    assert (result.episodes, result.failed_episodes) == (5, 1)
    np.testing.assert_array_equal(result.lengths, 6)


def test_an_evaluation_without_a_finished_episode_has_no_mean():
    always = fault_envs("exc", num_envs=1, step=3)
    budget = {"max_restarts": 100, "restart_period_seconds": 0}
    result = evaluate_with_faults(always, 2, num_workers=0, **budget)
    assert (result.episodes, result.failed_episodes) == (0, 2)
    assert np.isnan(result.mean_return)
    counts = {"failed_episodes": 2, "cut_off_episodes": 0}
    expected = {"episodes": 0} | counts
    assert result.metrics() == {f"eval/{k}": x for k, x in expected.items()}


def run_evaluator(env, policy, compiled):
    evaluator = Evaluator(env, policy, 4, compiled=compiled)
    return evaluator(3), evaluator._programs[False][1].mode


@pytest.mark.xla
def test_a_compiled_evaluation_plays_the_same_episodes(library):
    makes = [lambda: gymnasium.make("CartPole-v1")] * 2
    with ProcessEnv(makes, num_workers=1, backend="native") as env:
        policy = linear.LinearPolicy(env.spec)
        expected, mode = run_evaluator(env, policy, compiled=False)
        assert mode == "off"
        found, mode = run_evaluator(env, policy, compiled=True)
        assert mode == "full"
    np.testing.assert_array_equal(found.returns, expected.returns)
    np.testing.assert_array_equal(found.lengths, expected.lengths)


def test_an_evaluation_that_xla_refuses_is_not_compiled(monkeypatch, caplog):
    with make_env("tf/CartPole-v1", num_envs=2) as env:
        policy = linear.LinearPolicy(env.spec)
        expected, _ = run_evaluator(env, policy, compiled=False)
        act = policy.act

        def refused(timestep, *rest, **named):
            text = tf.strings.as_string(timestep.reward)
            zeros = tf.strings.to_number(text) * 0
            reward = timestep.reward + zeros
            return act(timestep._replace(reward=reward), *rest, **named)

        monkeypatch.setattr(policy, "act", refused)
        found, mode = run_evaluator(env, policy, compiled=True)
    assert mode == "off" and "--compile of evaluations=off" in caplog.text
    np.testing.assert_array_equal(found.returns, expected.returns)


def test_an_episode_that_does_not_end_is_cut_off_and_the_next_one_is_played(caplog):
    makes = [lambda: CountingEnv(length=10**9), lambda: CountingEnv(length=40)]
    most = 2 * CHUNK + 3
    with ProcessEnv(makes, num_workers=0) as env:
        policy = linear.LinearPolicy(env.spec)
        play = Evaluator(env, policy, 4, most_steps=most)
        result, _ = play(0), play(1)
    assert list(result.lengths) == [most, most, 40, 40]
    np.testing.assert_allclose(result.returns[:2], most * (most + 1) / 2)
    assert result.cut_off_episodes == result.metrics()["eval/cut_off_episodes"] == 2
    assert caplog.text.count(f"cut off after {most} steps") == 1


def test_an_episode_that_is_cut_off_counts_once_even_if_it_ends_later():
    makes = [lambda: CountingEnv(length=30), lambda: CountingEnv(length=20)]
    with ProcessEnv(makes, num_workers=0) as env:
        policy = linear.LinearPolicy(env.spec)
        result = Evaluator(env, policy, 6, most_steps=25)(0)
    assert list(result.lengths) == [25, 25, 25, 20, 20, 20]
    assert result.cut_off_episodes == 3


def test_the_limit_is_that_of_the_environment_unless_one_is_given():
    def limited():
        return gymnasium.wrappers.TimeLimit(CountingEnv(length=10**9), 30)

    result = evaluate([limited], 2)
    assert list(result.lengths) == [30, 30] and result.cut_off_episodes == 0


@pytest.fixture(scope="module")
def played():
    """Return evaluations of one policy: of each kind, again, with another seed."""

    def make():
        return gymnasium.make("CartPole-v1")

    with ProcessEnv([make] * 2, num_workers=0) as env:
        with seeded(0):
            policy = linear.LinearPolicy(env.spec)
        kinds = "mode", "sample", "both"
        plays = {kind: Evaluator(env, policy, 6, kind) for kind in kinds}
        found = {kind: play(3) for kind, play in plays.items()}
        sample = plays["sample"]
        return SimpleNamespace(**found, again=sample(3), other=sample(4))


class TestActions:
    def test_equal_seeds_give_equal_sampled_actions(self, played):
        np.testing.assert_array_equal(played.sample.returns, played.again.returns)
        assert list(played.sample.returns) != list(played.other.returns)

    def test_both_gives_the_results_of_mode_and_sample(self, played):
        mode, sample, both = played.mode, played.sample, played.both
        np.testing.assert_array_equal(both.returns, mode.returns)
        np.testing.assert_array_equal(both.sampled.returns, sample.returns)
        assert list(mode.returns) != list(sample.returns)
        assert both.metrics()["eval/return_mean"] == mode.mean_return
        assert both.metrics()["eval_sample/return_mean"] == sample.mean_return

    def test_noise_does_not_repeat_from_chunk_to_chunk(self):
        """Otherwise the actions of a long episode would be periodic."""

        class Recorder(gymnasium.Env):
            observation_space = gymnasium.spaces.Box(-1, 1, (1,))
            action_space = gymnasium.spaces.Discrete(2)
            taken: ClassVar[list] = []

            def reset(self, *, seed=None, options=None):
                return np.zeros(1, np.float32), {}

            def step(self, action):
                self.taken.append(int(action))
                over = len(self.taken) >= 3 * CHUNK
                return np.zeros(1, np.float32), 0.0, over, False, {}

        with ProcessEnv([Recorder], num_workers=0) as env:
            policy = linear.LinearPolicy(env.spec)
            Evaluator(env, policy, 1, "sample")(0)
        taken = np.array(Recorder.taken)
        assert list(taken[:CHUNK]) != list(taken[CHUNK : 2 * CHUNK])

    def test_both_has_no_result_if_one_half_is_stopped(self):
        answers = iter([False, True, True, True])
        with ProcessEnv([CountingEnv], num_workers=0) as env:
            policy = linear.LinearPolicy(env.spec)
            play = Evaluator(env, policy, 1, "both")
            assert play(0, lambda: next(answers)) is None
