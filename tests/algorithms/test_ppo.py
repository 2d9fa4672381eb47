import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.nn.cases import ACTIONS, OBSERVATIONS, VECTOR, make_spec, make_steps
from tfagents_batch import interfaces, nest
from tfagents_batch.algorithms import REGISTRY, ppo
from tfagents_batch.schedules import Linear
from tfagents_batch.types import TimeStep, Trajectory

T, B = 12, 4


def make(observation=VECTOR, action=ACTIONS["discrete"], seed=0, **settings):
    keras.utils.set_random_seed(seed)
    config = ppo.Config(**{"minibatch_size": 16, "epochs": 2, **settings})
    return ppo.PPO(config, make_spec(observation, action, B))


def collect(agent, observation=VECTOR, seed=0, length=5, terminate=False) -> Trajectory:
    """A trajectory of random observations and rewards, acted on by the agent."""
    random = np.random.default_rng(seed)
    drawn = make_steps(observation, T + 1, B, seed).observation
    rows, actions, behaviors = [], [], []
    state = start = agent.initial_state(B)
    noise = agent.noise((T, B), seed)
    clock = np.arange(B) % length
    for t in range(T + 1):
        first, last = clock == 0, clock == length
        step = TimeStep(
            nest.map(lambda x, t=t: x[t], drawn),
            tf.constant(np.where(first, 0, random.normal(size=B)), tf.float32),
            tf.constant(first),
            tf.constant(last & terminate),
            tf.constant(last & (not terminate)),
            {},
        )
        rows.append(step)
        clock = np.where(last, 0, clock + 1)
        if t < T:
            now = nest.map(lambda x, t=t: x[t], noise)
            action, behavior, state = agent.act(step, state, now, True)
            actions.append(action)
            behaviors.append(behavior)

    def stack(parts):
        return nest.map(lambda *xs: tf.stack(xs), *parts)

    return Trajectory(stack(rows), stack(actions), stack(behaviors), start)


def weights(agent):
    return [variable.numpy() for variable in agent.network.variables]


def named(agent):
    return {k: np.array(v.numpy()) for k, v in agent.named_variables().items()}


def test_it_is_an_algorithm():
    agent = make()
    assert isinstance(agent, interfaces.Algorithm)
    assert REGISTRY["ppo"] == (ppo.PPO, ppo.Config)


@pytest.mark.parametrize("objective", ["clip", "kl", "both"])
@pytest.mark.parametrize("action", ACTIONS)
def test_an_update_is_finite_and_moves_the_weights(action, objective):
    agent = make(action=ACTIONS[action], objective=objective)
    before = weights(agent)
    metrics = agent.update(collect(agent), 1)
    assert all(np.all(np.isfinite(x)) for x in metrics.values())
    assert float(metrics["grad/skipped"]) == 0
    moved = [np.any(a != b) for a, b in zip(before, weights(agent), strict=True)]
    assert all(moved)


@pytest.mark.parametrize("observation", ["nested", "small_image", "multi_binary"])
def test_observations_of_any_kind_are_learned_from(observation):
    space = OBSERVATIONS[observation]
    agent = make(space)
    metrics = agent.update(collect(agent, space), 1)
    assert all(np.all(np.isfinite(x)) for x in metrics.values())


def test_before_the_first_step_ratio_is_one_and_kl_zero():
    agent = make(action=ACTIONS["box"], objective="both")
    agent.update(collect(agent), 1)  # normalisers are in use now
    trajectory = collect(agent, seed=1)
    seen = agent.observations(trajectory.steps.observation)
    heads, _ = agent.network.unroll(trajectory.steps._replace(observation=seen))
    policy = heads.policy.with_params(nest.map(lambda x: x[:-1], heads.policy.params))
    behavior = trajectory.behavior
    log_ratio = policy.log_prob(trajectory.action) - behavior["log_prob"]
    np.testing.assert_allclose(log_ratio, 0, atol=1e-5)
    kl = policy.with_params(behavior["policy"]).kl(policy)
    np.testing.assert_allclose(kl, 0, atol=1e-6)


@pytest.mark.parametrize("poison", [np.nan, 1e9])
def test_what_is_masked_has_no_influence(poison):
    """Rewards and actions of restart rows and failed rows may be anything."""
    results = []
    for value in (0.0, poison):
        agent = make(action=ACTIONS["box"])
        trajectory = collect(agent, length=5)
        mask = trajectory.mask.numpy()
        reward = trajectory.steps.reward.numpy().copy()
        reward[1:][~mask] = value
        action = trajectory.action.numpy().copy()
        action[~mask] = value
        log_prob = trajectory.behavior["log_prob"].numpy().copy()
        log_prob[~mask] = value
        trajectory = trajectory._replace(
            steps=trajectory.steps._replace(reward=tf.constant(reward)),
            action=tf.constant(action),
            behavior=trajectory.behavior | {"log_prob": tf.constant(log_prob)},
        )
        agent.update(trajectory, 1)
        results.append(named(agent))
    for name, expected in results[0].items():
        np.testing.assert_array_equal(results[1][name], expected, err_msg=name)


def test_a_trajectory_without_a_valid_row_changes_no_weight():
    agent = make()
    agent.update(collect(agent), 1)
    trajectory = collect(agent, seed=1)
    failed = tf.ones_like(trajectory.steps.first)
    steps = trajectory.steps._replace(first=failed, truncated=failed)
    before = named(agent)
    agent.update(trajectory._replace(steps=steps), 2)
    after = named(agent)
    changed = {k for k in before if np.any(before[k] != after[k])}
    assert changed <= {"optimizer/001"}, changed  # the learning rate
    assert after["algorithm/step"] == before["algorithm/step"]


def test_steps_count_transitions_with_mask_one():
    agent = make()
    trajectory = collect(agent)
    agent.update(trajectory, 1)
    assert int(agent.step) == int(np.sum(trajectory.mask))
    assert 0 < int(agent.step) < T * B


@pytest.mark.parametrize("minibatch_size", [1, 7, 16, 1000])
def test_any_minibatch_size_is_taken(minibatch_size):
    agent = make(minibatch_size=minibatch_size, epochs=1)
    trajectory = collect(agent)
    metrics = agent.update(trajectory, 1)
    rows = int(np.sum(trajectory.mask))
    width = min(minibatch_size, T * B)
    assert int(metrics["grad/updates"]) == -(-rows // width)


def test_compiled_and_uncompiled_updates_agree():
    results = []
    for jit in (False, True):
        agent = make(action=ACTIONS["box"], objective="both")
        update = tf.function(agent.update, jit_compile=jit, autograph=False)
        update(collect(agent), tf.constant(1))
        results.append(named(agent))
    for name, expected in results[0].items():
        np.testing.assert_allclose(
            results[1][name], expected, rtol=2e-3, atol=2e-5, err_msg=name
        )


def test_equal_seeds_give_equal_updates_and_others_do_not():
    finals = []
    for seed in (1, 1, 2):
        agent = make()
        agent.update(collect(agent), seed)
        finals.append(weights(agent))
    for a, b in zip(finals[0], finals[1], strict=True):
        np.testing.assert_array_equal(a, b)
    assert any(np.any(a != b) for a, b in zip(finals[0], finals[2], strict=True))


def test_learning_rate_follows_its_schedule():
    agent = make(learning_rate=Linear(1e-3, 0.0, 100))
    trajectory = collect(agent)
    first = agent.update(trajectory, 1)["grad/learning_rate"]
    second = agent.update(collect(agent, seed=1), 2)["grad/learning_rate"]
    count = int(np.sum(trajectory.mask))
    assert float(first) == pytest.approx(1e-3)
    assert float(second) == pytest.approx(1e-3 * (1 - count / 100), rel=1e-5)


def test_kl_stop_ends_the_epochs():
    agent = make(learning_rate=Linear(0.1, 0.1, 1), epochs=20, kl_stop=0.01)
    updates = int(agent.update(collect(agent), 1)["grad/updates"])
    rows = T * B // 16
    assert updates < 20 * rows


def test_the_penalty_moves_towards_the_target_and_is_saved():
    timid = make(objective="kl", learning_rate=Linear(1e-7, 1e-7, 1))
    timid.update(collect(timid), 1)
    assert float(timid.penalty) == pytest.approx(1 / 1.5)
    bold = make(objective="kl", learning_rate=Linear(0.05, 0.05, 1), epochs=5)
    bold.update(collect(bold), 1)
    assert float(bold.penalty) == pytest.approx(1.5)
    assert float(bold.named_variables()["algorithm/penalty"]) == pytest.approx(1.5)


def test_time_limits_bootstrap_and_terminations_do_not():
    """Constant reward: V is the same at every step if episodes are only cut off."""
    spread = {}
    for terminate in (False, True):
        agent = make(
            gs.Box(0, 1, (5,)),
            normalize_observation=False,
            normalize_return=False,
            gamma=0.5,
            gae_lambda=0.9,
            learning_rate=Linear(3e-2, 1e-3, 20_000),
            epochs=4,
        )
        # Observations tell the time of the episode, one-hot; at the last it looks as
        # at the first, for a value is learned where actions are taken.
        trajectory = collect(agent, gs.Box(0, 1, (5,)), 0, 4, terminate)
        clock = (np.arange(T + 1)[:, None] + np.arange(B) % 4) % 5
        reward = tf.where(trajectory.steps.first, 0.0, 1.0)
        steps = trajectory.steps._replace(observation=tf.one_hot(clock % 4, 5))
        trajectory = trajectory._replace(steps=steps._replace(reward=reward))
        update = tf.function(agent.update, autograph=False)
        for seed in range(60):
            update(trajectory, tf.constant(seed))
        flags = tf.zeros([1, 5], tf.bool)
        probe = TimeStep(tf.eye(5)[None], tf.zeros([1, 5]), flags, flags, flags, {})
        value = agent.network.unroll(probe)[0].value[0].numpy()
        spread[terminate] = value[:4]  # the states an action was taken in
    # Cut off: 1 / (1 - 0.5) everywhere. Terminated: 1 + gamma + ... to the end.
    np.testing.assert_allclose(spread[False], 2.0, atol=0.15)
    np.testing.assert_allclose(spread[True], [1.875, 1.75, 1.5, 1.0], atol=0.15)


def test_all_state_of_an_agent_is_in_its_checkpoint():
    agent = make(action=ACTIONS["box"], objective="both")
    agent.update(collect(agent), 1)
    held = {id(v) for v in agent.named_variables().values()}
    everything = [*agent.variables, *agent.network.variables]
    everything += [*agent.optimizer.adam.variables]
    missing = [v.name for v in everything if id(v) not in held]
    assert not missing


def test_an_agent_restored_by_name_acts_and_learns_alike():
    first, second = make(seed=0), make(seed=1)
    first.update(collect(first), 1)
    target = second.named_variables()
    for name, variable in first.named_variables().items():
        target[name].assign(variable)
    for agent in (first, second):
        agent.update(collect(agent, seed=3), 4)
    a, b = named(first), named(second)
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def test_every_setting_has_a_help():
    for field in dataclasses.fields(ppo.Config):
        assert field.metadata["help"], field.name
