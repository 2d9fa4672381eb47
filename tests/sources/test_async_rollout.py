"""Rollouts that wait for the first environments: every transition is there once."""

import itertools
import os
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.support import linear
from tests.support.counting import Counting
from tfagents_batch import algorithms, nest
from tfagents_batch.algorithms import a2c
from tfagents_batch.errors import EnvError, UserError
from tfagents_batch.nn import networks
from tfagents_batch.sources.async_rollout import AsyncRollout

STEP = tf.constant(0, tf.int64)


def start(makes, length, wait_for, compiled=False, size=1, policy=None, **options):
    """Return environments, the source, and its collect in a program."""
    count, workers = len(makes), len(makes) // size
    env = tfb.make_env(makes, count, workers, groups=workers, **options)
    actor = (policy or linear.LinearPolicy)(env.spec)
    source = AsyncRollout(env, actor, length, wait_for, seed=1)

    @tfb.function(envs=[env], jit_compile=compiled, autograph=False)
    def collect(seed):
        return source.collect(seed, STEP)

    return env, source, collect


@pytest.mark.parametrize(
    ("wait_for", "size", "compiled"), [(1, 1, False), (2, 1, True), (2, 2, True)]
)
def test_every_transition_is_in_exactly_one_trajectory(wait_for, size, compiled):
    makes = [lambda i=i: Counting(0.004 if i == 0 else 0) for i in range(4)]
    env, _, collect = start(makes, 6, wait_for, compiled, size=size)
    lives, seen, restarts = np.zeros(4, int), np.zeros(4, int), np.zeros(4, int)
    with env:
        for seed in range(5):
            collected = collect(tf.constant(seed))
            trajectory = collected.trajectory
            assert collected.ok and collected.steps == np.sum(trajectory.mask)
            life, episode = np.moveaxis(trajectory.steps.observation.numpy(), -1, 0)
            mask, last = trajectory.mask.numpy(), trajectory.steps.last.numpy()
            reward = trajectory.reward.numpy()
            for i in range(4):
                t = np.flatnonzero(mask[:, i])
                seen[i] += np.sum(trajectory.counted[:, i])
                np.testing.assert_array_equal(life[t, i], lives[i] + np.arange(t.size))
                np.testing.assert_array_equal(life[t + 1, i], life[t, i] + 1)
                np.testing.assert_array_equal(episode[t + 1, i], episode[t, i] + 1)
                expected = 10 * life[t, i] + trajectory.action.numpy()[t, i]
                np.testing.assert_array_equal(reward[t, i], expected)
                ended = last[t + 1, i]
                np.testing.assert_array_equal(ended, episode[t + 1, i] == 5)
                lives[i] += t.size
                ends = last[:-1, i] & trajectory.steps.valid.numpy()[1:, i]
                restarts[i] += np.sum(ends)
            full = np.sum(trajectory.steps.valid[1:], 0) == 6
            assert np.sum(~full) < wait_for
    assert lives.min() > 0
    # Statistics count every observation once: of transitions, and of restarts.
    np.testing.assert_array_equal(seen, lives + restarts)


def test_a_collect_does_not_wait_for_an_environment_that_does_not_answer(tmp_path):
    gate = str(tmp_path / "gate")
    makes = [lambda i=i: Counting(gate=gate if i == 0 else None) for i in range(4)]
    env, _, collect = start(makes, 5, 3)
    with env:
        early = [collect(tf.constant(seed)).trajectory for seed in range(3)]
        rows = [np.sum(x.mask, 0) for x in early]
        assert all(x[0] == 0 and sorted(x[1:])[1] >= 4 for x in rows)
        open(gate, "w").close()
        later = [collect(tf.constant(seed)).trajectory for seed in range(3, 40)]
    first = np.concatenate([x.reward[:, 0][x.mask[:, 0]] for x in later])
    assert first.size and first[0] < 10  # the action of the first collect


def test_acting_states_follow_each_environment():
    """Log-probabilities of a GRU are those of its unroll from the first state."""
    makes = [lambda i=i: Counting(0.003 * i) for i in range(3)]
    agents, network = [], networks.NetworkConfig(hidden=(8,), core="gru")

    def policy(spec):
        agents.append(a2c.A2C(a2c.A2CConfig(network=network), spec))
        return agents[0].policy

    env, _, collect = start(makes, 7, 2, policy=policy)
    (agent,) = agents
    with env:
        for seed in range(4):
            trajectory = collect(tf.constant(seed)).trajectory
            steps = trajectory.steps
            steps = steps._replace(
                observation=agent.learner.observations(steps.observation)
            )
            heads = agent.network.unroll(steps, trajectory.state[0])[0]
            params = nest.map(lambda x: x[:-1], heads.policy.params)
            found = heads.policy.with_params(params).log_prob(trajectory.action)
            np.testing.assert_allclose(
                found[trajectory.mask],
                trajectory.behavior["log_prob"][trajectory.mask],
                atol=1e-5,
            )


def test_a_killed_worker_is_replaced_or_named():
    for on_fault in ("restart", "raise"):
        env, _, collect = start([Counting] * 3, 6, 2, on_fault=on_fault)
        with env:
            collect(tf.constant(0))
            os.kill(env.pids[0], signal.SIGKILL)
            if on_fault == "raise":
                with pytest.raises(EnvError, match="worker"):
                    for seed in range(1, 20):
                        collect(tf.constant(seed))
                continue
            seeds, deadline = itertools.count(1), time.monotonic() + 60
            failed = acts = False
            while not acts and time.monotonic() < deadline:
                found = collect(tf.constant(next(seeds))).trajectory
                valid = found.steps.valid.numpy()
                acts = failed and valid.all() and np.sum(found.mask[:, 0]) > 0
                failed |= not valid.all()
        assert failed
        assert acts  # again


def test_a_run_learns_from_the_first_environments(tmp_path, monkeypatch):
    entry = linear.Linear, linear.Config
    monkeypatch.setitem(algorithms.REGISTRY, "linear", entry)
    run = tfb.train(
        "linear",
        env=lambda: Counting(),
        steps=400,
        num_envs=2,
        rollout={"length": 16, "wait_for": 1},
        eval_every=0,
        compile="full",
        logdir=tmp_path,
    )
    assert run.step >= 400
    assert run.metrics["env/masked"] < 0.6
    again = {"env": lambda: Counting(), "compile": "off"}
    assert tfb.train(resume=run.logdir, steps=600, **again).step >= 600


@pytest.mark.parametrize(
    "options, text",
    [
        ({"env": "tf/CartPole-v1"}, "written in TensorFlow.*another environment"),
        ({"num_workers": 3}, "4 environments cannot share 3 worker processes"),
        ({"num_workers": 2}, "rollout.wait_for is 3; expected a multiple of the 2 env"),
        ({"rollout": {"wait_for": 5}}, "a worker, up to 4"),
        ({"rollout": {"wait_for": 2, "episodes": 8}}, "wait for every environment"),
    ],
)
def test_settings_that_cannot_work_are_refused(options, text, tmp_path):
    given = {"env": "CartPole-v1", "rollout": {"wait_for": 3}} | options
    with pytest.raises(UserError, match=text):
        tfb.train("a2c", steps=100, num_envs=4, logdir=tmp_path, **given)
    assert not list(tmp_path.iterdir())


def test_environments_rest_while_they_are_not_active_and_lose_nothing():
    env, source, collect = start([Counting] * 4, 6, 2, compiled=True)
    with env:
        lives = np.zeros(4, int)
        for seed, active in enumerate([4, 4, 2, 2, 3, 4, 4]):
            source.active.assign(active)
            trajectory = collect(tf.constant(seed)).trajectory
            life, mask = trajectory.steps.observation[..., 0], trajectory.mask.numpy()
            for i in range(4):
                t = np.flatnonzero(mask[:, i])
                expected = lives[i] + np.arange(t.size)
                np.testing.assert_array_equal(life.numpy()[t, i], expected)
                lives[i] += t.size
                # What was in flight arrives, and nothing is sent on.
                assert i < active or t.size <= 1
        assert lives.min() > 6
