import functools

import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.sources.cases import Counter, assert_same_specs, collect, outline
from tests.support.fault_env import fault_envs
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import EnvError
from tfagents_batch.sources.rollout import Rollout


@pytest.fixture
def env():
    with ProcessEnv([lambda: CountingEnv(length=4)] * 3, num_workers=0) as env:
        yield env


def test_shapes_are_static_and_time_major(env):
    rollout = Rollout(env, Counter(), 7, seed=0)
    program = tf.function(functools.partial(collect, rollout), autograph=False)
    trajectory = program(tf.constant(1)).trajectory
    assert trajectory.steps.observation.shape == (8, 3, 2)
    assert trajectory.action.shape == (7, 3)
    assert trajectory.mask.shape == (7, 3)
    assert trajectory.behavior["count"].shape == (7, 3)
    assert trajectory.state[0].shape == (3,)


@pytest.mark.parametrize("source", ["processes", "graph"])
def test_its_outline_is_that_of_the_graph_that_collects(source):
    made = {
        "processes": lambda: tfb.make_env("CartPole-v1", num_envs=3, num_workers=0),
        "graph": lambda: tfb.make_env("tf/CartPole-v1", num_envs=3),
    }
    with made[source]() as env:
        rollout = Rollout(env, Counter(), 7, seed=0)
        assert_same_specs(rollout.outline(), outline(rollout))


def test_unmasked_steps_lead_to_the_next_observation(env):
    trajectory = collect(Rollout(env, Counter(), 23, seed=0), 1).trajectory
    episode, step = (trajectory.steps.observation[..., i].numpy() for i in (0, 1))
    mask = trajectory.mask.numpy()
    assert mask.sum() < mask.size  # there were restarts
    np.testing.assert_array_equal((step[1:] - step[:-1])[mask], 1)
    np.testing.assert_array_equal((episode[1:] - episode[:-1])[mask], 0)
    np.testing.assert_array_equal(step[1:][~mask], 0)
    np.testing.assert_array_equal((episode[1:] - episode[:-1])[~mask], 1)


def test_the_next_trajectory_starts_with_the_last_step_of_this_one(env):
    rollout = Rollout(env, Counter(), 5, seed=0)
    program = tf.function(functools.partial(collect, rollout), autograph=False)
    first, second = (program(tf.constant(seed)).trajectory for seed in (1, 2))
    tf.nest.map_structure(
        lambda x: np.testing.assert_array_equal(*x),
        tf.nest.map_structure(lambda a, b: [a[-1], b[0]], first.steps, second.steps),
    )
    np.testing.assert_array_equal(second.state[0], 5)
    np.testing.assert_array_equal(second.behavior["count"][:, 0], range(5, 10))


def test_noise_depends_on_the_seed_alone(env):
    rollout = Rollout(env, Counter(), 5, seed=0)
    found = [collect(rollout, seed).trajectory for seed in (1, 2, 1)]
    noise = [trajectory.behavior["noise"].numpy() for trajectory in found]
    np.testing.assert_array_equal(noise[0], noise[2])
    assert np.all(noise[0] != noise[1])


def test_restart_starts_new_episodes_and_resets_the_acting_state(env):
    rollout = Rollout(env, Counter(), 6, seed=0)
    collect(rollout, 1)
    rollout.restart(seed=3)
    trajectory = collect(rollout, 1).trajectory
    assert np.all(trajectory.steps.first[0])
    np.testing.assert_array_equal(trajectory.state[0], 0)


def test_a_rollout_with_the_variables_of_another_goes_on_as_it_does():
    env = tfb.make_env("tf/CartPole-v1", num_envs=2)
    first, second = (Rollout(env, Counter(), 5, seed=seed) for seed in (0, 1))
    collect(first, 1)
    for name, variable in second.named_variables().items():
        variable.assign(first.named_variables()[name])
    found = [collect(each, 2).trajectory for each in (first, second)]
    tf.nest.map_structure(np.testing.assert_array_equal, *found)
    np.testing.assert_array_equal(found[1].state[0], 5)


def test_without_exploration_the_noise_is_not_used(env):
    rollout = Rollout(env, Counter(), 6, seed=0, explore=False)
    trajectory = collect(rollout, 1).trajectory
    np.testing.assert_array_equal(trajectory.action, 0)


def test_steps_are_transitions_with_mask_one_and_one_update_is_due(env):
    """Of 23 rows, 5 are restarts."""
    rollout = Rollout(env, Counter(), 23, seed=0)
    collected = collect(rollout, 1)
    mask = collected.trajectory.mask.numpy()
    assert int(collected.steps) == mask.sum() == 3 * 19
    assert collected.steps.dtype == tf.int64
    assert collected.ok.dtype == tf.bool and bool(collected.ok)
    assert collected.updates.dtype == tf.int32 and int(collected.updates) == 1
    assert rollout.sample(collected, 1, 0) is collected.trajectory


def test_a_failed_rollout_has_no_steps_and_no_update(make_process_env):
    env = make_process_env(fault_envs("exc", step=3), 0)
    rollout = Rollout(env, Counter(), 9, seed=0)
    program = tf.function(functools.partial(collect, rollout), autograph=False)
    collected = program(tf.constant(1))
    assert not bool(collected.ok)
    assert int(collected.steps) == int(collected.updates) == 0
    with pytest.raises(EnvError):
        env.check()
