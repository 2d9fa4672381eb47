"""Metrics of a trajectory."""

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.sources.cases import collect
from tests.support.linear import LinearPolicy
from tfagents_batch import metrics as merging
from tfagents_batch import nest
from tfagents_batch.metrics import NEWEST, Interval, Max, Mean, Median, Sum
from tfagents_batch.sources import metrics
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.types import TimeStep, Trajectory

IN_PROCESS = {"num_workers": 0}
BOX = gymnasium.spaces.Box(-1.0, 1.0, (2,))


def trajectory(action, masked=()):
    """Return two steps of one environment; those ``masked`` are restart rows."""
    first = np.zeros([3, 1], bool)
    first[[step + 1 for step in masked]] = True
    off = tf.zeros([3, 1], tf.bool)
    info = {
        "episode_return": tf.zeros([3, 1]),
        "episode_length": tf.zeros([3, 1], tf.int32),
    }
    zeros = tf.zeros([3, 1])
    steps = TimeStep(zeros, zeros, tf.constant(first), off, off, info)
    return Trajectory(steps, action, {})


@pytest.mark.parametrize(
    ("masked", "expected"), [((), 0.75), ((0,), 1.0), ((1,), 0.5), ((0, 1), 0.0)]
)
def test_clipped_numbers_are_counted_in_actions_with_an_effect(masked, expected):
    action = tf.constant([[[0.5, 1.5]], [[-2.0, 3.0]]])
    found = metrics.clipped_fraction(trajectory(action, masked), BOX)
    assert float(found) == expected


def test_only_boxes_are_clipped():
    space = gymnasium.spaces.Dict({"a": BOX, "b": gymnasium.spaces.Discrete(3)})
    action = {"a": tf.constant([[[0.5, 1.5]]] * 2), "b": tf.constant([[2], [1]])}
    assert float(metrics.clipped_fraction(trajectory(action), space)) == 0.5
    discrete = gymnasium.spaces.Discrete(3)
    assert float(metrics.clipped_fraction(trajectory(action["b"]), discrete)) == 0


def test_clipped_actions_of_tensorflow_environments_are_counted():
    with tfb.make_env("tf/Pendulum-v1", num_envs=16) as env:
        policy = LinearPolicy(env.spec)
        policy.weights.assign(tf.zeros_like(policy.weights))
        collected = collect(Rollout(env, policy, 100, seed=0), 1)
    # A third of the torques with a standard deviation of 2 are outside of [-2, 2].
    assert 0.28 < collected.metrics["env/action_clipped_fraction"] < 0.36


@pytest.mark.parametrize("env", ["tf/CartPole-v1", "CartPole-v1"])
def test_discrete_actions_have_no_share_of_clipped_ones(env):
    with tfb.make_env(env, num_envs=2, **({} if "/" in env else IN_PROCESS)) as env:
        collected = collect(Rollout(env, LinearPolicy(env.spec), 4, seed=0), 1)
        found = {*collected.metrics, *getattr(env, "metrics", dict)()}
    assert "env/masked" in found and "env/action_clipped_fraction" not in found


def random_trajectory(length, envs, chance, seed):
    """Return a trajectory with random ends of episodes, and the ended ones' infos."""
    rng = np.random.default_rng(seed)
    first = np.zeros([length + 1, envs], bool)
    last = rng.random([length + 1, envs]) < chance
    first[1:] = last[:-1]  # rows of restarts
    last &= ~first
    first[1:] = last[:-1]
    info = {
        "episode_return": rng.normal(size=last.shape).astype(np.float32),
        "episode_length": rng.integers(1, 99, last.shape).astype(np.int32),
    }
    info["score"] = 0.5 * info["episode_return"]
    zeros = tf.zeros(last.shape)
    flags = (tf.constant(x) for x in (first, last, np.zeros_like(last)))
    steps = TimeStep(zeros, zeros, *flags, tf.nest.map_structure(tf.constant, info))
    ended = last[1:]
    each = [info[f"episode_{name}"][1:][ended] for name in ("return", "length")]
    return Trajectory(steps, tf.zeros([length, envs, 2]), {}), each


@pytest.mark.parametrize("compile", [False, True])
def test_episode_statistics_equal_those_of_numpy(compile):
    """Some of the iterations have no episode."""
    program = tf.function(metrics.episodes, jit_compile=compile, autograph=False)
    interval, expected = Interval(), [[], []]
    for seed, chance in enumerate([0.0, 0.05, 0.3, 0.0, 0.2]):
        trajectory, each = random_trajectory(30, 4, chance, seed)
        interval.add(nest.map(lambda x: x.numpy(), program(trajectory)))
        for values, more in zip(expected, each, strict=True):
            values.extend(more)
    summary = interval.summary()
    assert summary["episode/count"] == len(expected[0]) > 20
    for name, values in zip(("return", "length"), expected, strict=True):
        for part in ("mean", "min", "max", "median"):
            expected = getattr(np, part)(values)
            found = summary[f"episode/{name}_{part}"]
            assert found == pytest.approx(expected, abs=1e-5), part


def test_the_median_uses_the_newest_episodes():
    trajectory, (returns, _) = random_trajectory(400, 4, 0.5, 0)
    assert len(returns) > 2 * NEWEST
    interval = Interval()
    found = metrics.episodes(trajectory)
    interval.add(nest.map(lambda x: x.numpy(), found))
    summary = interval.summary()
    newest = np.median(returns[-NEWEST:])
    assert summary["episode/return_median"] == pytest.approx(newest)
    assert summary["episode/return_min"] == returns.min()
    assert summary["episode/return_max"] == returns.max()


def test_without_episodes_only_their_number_is_reported():
    trajectory, _ = random_trajectory(5, 2, 0.0, 0)
    interval = Interval()
    interval.add(nest.map(lambda x: x.numpy(), metrics.episodes(trajectory)))
    assert interval.summary() == {"episode/count": 0, "env/masked": 0}


# ---- several collects


def found_in(trajectory, index):
    """Return metrics of a collect, with a mean, a counter and a vector of a source."""
    info = metrics.episode_info_metrics(trajectory, ["score"])
    other = {"env/share": tf.constant(float(index)), "env/each": tf.fill([2], index)}
    return metrics.episodes(trajectory) | info | other


@pytest.mark.parametrize(("length", "compile"), [(30, True), (400, True), (5, False)])
def test_merged_metrics_of_collects_equal_those_of_all_their_episodes(length, compile):
    """The first and the fourth collect have no episode."""
    rows = [random_trajectory(length, 4, p, i) for i, p in enumerate([0, 0.3, 0.1, 0])]
    trajectories, each = zip(*rows, strict=True)
    returns, lengths = (np.concatenate(x) for x in zip(*each, strict=True))

    def merge(trajectories):
        found = [found_in(x, i) for i, x in enumerate(trajectories)]
        totals = merging.start(found[0], wide=True)
        for each in found:
            totals = merging.merge(totals, each)
        return merging.finish(totals, tf.constant(len(found)))

    program = tf.function(merge, jit_compile=compile, autograph=False)
    merged = nest.map(lambda x: x.numpy(), program(trajectories))
    assert merged["episode/count"].value == len(returns) > 1
    assert merged["episode/return_mean"].count == len(returns)
    total = pytest.approx(returns.sum(), abs=1e-4)
    assert merged["episode/return_mean"].sum == total
    assert merged["episode/return_min"].value == returns.min()
    assert merged["episode/length_max"].value == lengths.max()
    newest = merged["episode/return_median"].values
    np.testing.assert_array_equal(newest[: len(returns)], returns[::-1][:NEWEST])
    assert np.isnan(newest[len(returns) :]).all()
    scores = 0.5 * returns
    assert merged["episode/score_mean"].count == len(scores)
    assert merged["episode/score_mean"].sum == pytest.approx(scores.sum(), abs=1e-4)
    masked = [1 - x.mask.numpy().mean() for x in trajectories]
    assert merged["env/masked"].sum == pytest.approx(np.sum(masked), abs=1e-6)
    assert merged["env/share"] == Mean(6, 4)
    np.testing.assert_array_equal(merged["env/each"], [3, 3])


def test_metrics_of_calls_are_merged_by_their_rules():
    interval = Interval()
    interval.add({"loss/total": Mean(3.0, 3), "lag/max": Max(4.0), "n": Sum(2)})
    interval.add({"loss/total": Mean(5.0, 1), "lag/max": Max(2.0), "n": Sum(3)})
    interval.add({"loss/total": Mean(0.0, 0), "env/share": 1.0, "x": np.zeros(2)})
    interval.add({"env/share": 5.0, "x": np.ones(2)})
    found = interval.summary()
    assert found.pop("x").tolist() == [1, 1]
    assert found == {"loss/total": 2.0, "lag/max": 4.0, "n": 5, "env/share": 3.0}
    again = Interval()
    again.add(interval.totals)
    again.add({"lag/max": Max(-np.inf)})
    assert again.summary()["lag/max"] == 4 and again.summary()["env/share"] == 3


def test_the_median_does_not_depend_on_how_episodes_are_grouped():
    returns = np.random.default_rng(0).normal(size=500).astype(np.float32)
    found = []
    for size in (20, 100, 500):
        interval = Interval()
        for part in np.split(returns, 500 // size):
            interval.add({"x": Median(part[::-1][:NEWEST])})
        found.append(interval.summary()["x"])
    assert found[0] == found[1] == found[2] == np.median(returns[-NEWEST:])
