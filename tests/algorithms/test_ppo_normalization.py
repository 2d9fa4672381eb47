"""Tests of PPO's normalization of advantages, rewards and observations."""

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.cases import collect, make_ppo, named, update
from tfagents_batch.ops import masked


def test_advantages_are_standardized_once_or_in_each_minibatch_or_never():
    policy = {}
    for kind, size in (("batch", None), (True, 16), (False, None)):
        agent = make_ppo(
            normalize_advantage=kind,
            minibatch_size=size,
            objective="kl",
            learning_rate=0,
            histograms=False,
        )
        policy[kind, size] = float(update(agent, collect(agent), 1)["loss/policy"])
    # Before the first step the ratio is 1, and standardized advantages have mean 0.
    assert policy["batch", None] == pytest.approx(0, abs=1e-6)
    assert policy[True, 16] == pytest.approx(0, abs=1e-6)
    assert abs(policy[False, None]) > 1e-3
    losses = {}
    for kind in (True, "batch"):
        agent = make_ppo(normalize_advantage=kind, minibatch_size=16, histograms=False)
        update(agent, collect(agent), 1)
        losses[kind] = named(agent)["policy/network/000-kernel"]
    assert np.any(losses[True] != losses["batch"])


def test_rewards_may_be_divided_by_their_own_std():
    agent = make_ppo(normalize_return="per_step", gae_lambda=0.0, gamma=0.0)
    trajectory = collect(agent)
    rewards = trajectory.reward.numpy()[trajectory.mask.numpy()]
    metrics = update(agent, trajectory, 1)
    std = np.std(rewards, ddof=1)
    assert float(metrics["normalize/reward_std"]) == pytest.approx(std, rel=1e-5)
    assert float(metrics["normalize/reward"]) == pytest.approx(rewards.mean(), rel=1e-4)
    target = metrics["histogram/target"].numpy()
    np.testing.assert_allclose(
        target[np.isfinite(target)], rewards / std, rtol=1e-4, atol=1e-6
    )


def test_rewards_are_divided_by_the_std_of_discounted_returns():
    """The sum of each stream restarts with every episode (Engstrom et al. 2020,
    section 2)."""
    agent = make_ppo(normalize_return=True, gamma=0.9)
    trajectory = collect(agent)
    steps, mask = trajectory.steps, trajectory.mask.numpy()
    first, reward = steps.first.numpy(), steps.reward.numpy()
    earned = []
    for stream in range(first.shape[1]):
        total = 0.0
        for t in range(len(first)):
            total = 0.0 if first[t, stream] else 0.9 * total + reward[t, stream]
            if t > 0 and not first[t, stream]:  # the previous trajectory has row 0
                earned.append(total)
    metrics = update(agent, trajectory, 1)
    std = np.std(earned, ddof=1)
    assert float(metrics["normalize/reward_std"]) == pytest.approx(std, rel=1e-5)
    raw = trajectory.reward.numpy()[mask].mean()
    scaled = float(metrics["normalize/reward_scaled"])
    assert scaled == pytest.approx(raw / std, rel=1e-4)


def test_a_constant_reward_is_not_scaled():
    agent = make_ppo(normalize_return="per_step", gamma=0.0)
    trajectory = collect(agent)
    reward = tf.where(trajectory.steps.first, 0.0, 3.0)
    steps = trajectory.steps._replace(reward=reward)
    metrics = update(agent, trajectory._replace(steps=steps), 1)
    assert float(metrics["normalize/reward_scaled"]) == pytest.approx(3.0)
    assert float(metrics["normalize/reward_std"]) == 1  # the divisor


def test_observations_are_clipped_at_the_configured_bound():
    for clip in (0.5, 5.0):
        agent = make_ppo(observation_clip=clip)
        update(agent, collect(agent), 1)
        metrics = update(agent, collect(agent, seed=1), 2)
        seen = metrics["histogram/observation"].numpy()
        size = np.abs(seen[np.isfinite(seen)])
        assert np.max(size) <= clip
        assert (np.max(size) == clip) == (clip == 0.5)
        share = float(metrics["normalize/observation_clipped"])
        assert share == pytest.approx(np.mean(size >= clip), rel=1e-5)
        assert (0 < share < 1) == (clip == 0.5)


def test_rewards_are_clipped_at_the_configured_bound():
    for kind, clip in ((True, 0.5), ("clip", 0.5), ("clip", 50.0)):
        options = {"normalize_return": kind, "reward_clip": clip}
        agent = make_ppo(**options, gae_lambda=0.0, gamma=0.0)
        trajectory = collect(agent)
        metrics = update(agent, trajectory, 1)
        if kind == "clip":  # and not divided
            clipped = tf.clip_by_value(trajectory.reward, -clip, clip)
            expected = masked.mean(clipped, trajectory.mask)
            found = metrics["normalize/reward_scaled"]
            np.testing.assert_allclose(found, expected, rtol=1e-5)
            assert "normalize/reward_std" not in metrics
        target = metrics["histogram/target"].numpy()
        size = np.abs(target[np.isfinite(target)])  # equals rewards up to rounding
        assert (size.max() == pytest.approx(clip)) == (clip == 0.5)
        share = np.mean(size >= clip - 1e-5)
        assert float(metrics["normalize/reward_clipped"]) == pytest.approx(share)


def test_floor_and_epsilon_of_the_std_are_settings():
    plain, damped, floored = (
        make_ppo(histograms=False, **settings)
        for settings in (
            {},
            {"normalize_epsilon": 100.0, "normalize_return": "per_step"},
            {"normalize_floor": 10.0},
        )
    )
    for agent in (plain, damped, floored):
        update(agent, collect(agent), 1)
    x = tf.constant([[1.0, 2.0, 3.0]])
    assert np.abs(damped.learner.observations(x)).max() < 0.4
    assert np.abs(floored.learner.observations(x)).max() < 0.4
    assert np.abs(plain.learner.observations(x)).max() > 1
    assert abs(float(damped.learner.rewards(tf.constant(1.0)))) < 0.11
