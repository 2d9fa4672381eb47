import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms.cases import B, T, collect, make_ppo, named
from tests.nn.cases import ACTIONS, OBSERVATIONS, make_spec
from tfagents_batch import nest
from tfagents_batch.algorithms import ppo
from tfagents_batch.nn import networks
from tfagents_batch.ops import chunks
from tfagents_batch.schedules import Constant, Linear
from tfagents_batch.types import TimeStep, Trajectory


def weights(agent):
    return [variable.numpy() for variable in agent.network.variables]


@pytest.mark.parametrize("objective", ["clip", "kl", "both"])
@pytest.mark.parametrize("action", ACTIONS)
def test_an_update_is_finite_and_moves_the_weights(action, objective):
    agent = make_ppo(action=ACTIONS[action], objective=objective)
    before = weights(agent)
    metrics = agent.update(collect(agent), 1)
    assert all(np.all(np.isfinite(x)) for x in metrics.values() if x.shape.rank == 0)
    assert float(metrics["grad/skipped"]) == 0
    moved = [np.any(a != b) for a, b in zip(before, weights(agent), strict=True)]
    assert all(moved)


def test_squashed_actions_are_learned_from_and_have_an_entropy():
    network = networks.Config(squash=True, max_std=2.0)
    agent = make_ppo(action=ACTIONS["box"], entropy_scale=0.01, network=network)
    before = weights(agent)
    trajectory = collect(agent)
    assert np.all(np.abs(trajectory.action) < 1)
    metrics = agent.update(trajectory, 1)
    assert all(np.all(np.isfinite(x)) for x in metrics.values() if x.shape.rank == 0)
    assert all(np.any(a != b) for a, b in zip(before, weights(agent), strict=True))


@pytest.mark.parametrize("observation", ["nested", "small_image", "multi_binary"])
def test_observations_of_any_kind_are_learned_from(observation):
    space = OBSERVATIONS[observation]
    agent = make_ppo(space)
    metrics = agent.update(collect(agent, space), 1)
    assert all(np.all(np.isfinite(x)) for x in metrics.values() if x.shape.rank == 0)


@pytest.mark.parametrize("squash", [False, True])
def test_before_the_first_step_ratio_is_one_and_kl_zero(squash):
    network = networks.Config(squash=squash)
    agent = make_ppo(action=ACTIONS["box"], objective="both", network=network)
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
        agent = make_ppo(action=ACTIONS["box"])
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
    agent = make_ppo()
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
    agent = make_ppo()
    trajectory = collect(agent)
    agent.update(trajectory, 1)
    assert int(agent.step) == int(np.sum(trajectory.mask))
    assert 0 < int(agent.step) < T * B


@pytest.mark.parametrize("minibatch_size", [2, 7, 16, 1000])
def test_any_minibatch_size_is_taken(minibatch_size):
    agent = make_ppo(minibatch_size=minibatch_size, epochs=1)
    trajectory = collect(agent)
    metrics = agent.update(trajectory, 1)
    rows = int(np.sum(trajectory.mask))
    width = min(minibatch_size, T * B)
    assert int(metrics["grad/updates"]) == -(-rows // width)


def test_compiled_and_uncompiled_updates_agree():
    results = []
    for jit in (False, True):
        agent = make_ppo(action=ACTIONS["box"], objective="both")
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
        agent = make_ppo()
        agent.update(collect(agent), seed)
        finals.append(weights(agent))
    for a, b in zip(finals[0], finals[1], strict=True):
        np.testing.assert_array_equal(a, b)
    assert any(np.any(a != b) for a, b in zip(finals[0], finals[2], strict=True))


def test_learning_rate_follows_its_schedule():
    agent = make_ppo(learning_rate=Linear(1e-3, 0.0, 100))
    trajectory = collect(agent)
    first = agent.update(trajectory, 1)["grad/learning_rate"]
    second = agent.update(collect(agent, seed=1), 2)["grad/learning_rate"]
    count = int(np.sum(trajectory.mask))
    assert float(first) == pytest.approx(1e-3)
    assert float(second) == pytest.approx(1e-3 * (1 - count / 100), rel=1e-5)


def test_kl_stop_ends_the_epochs():
    agent = make_ppo(learning_rate=Linear(0.1, 0.1, 1), epochs=20, kl_stop=0.01)
    updates = int(agent.update(collect(agent), 1)["grad/updates"])
    rows = T * B // 16
    assert updates < 20 * rows


def test_the_penalty_moves_towards_the_target_and_is_saved():
    timid = make_ppo(objective="kl", learning_rate=Linear(1e-7, 1e-7, 1))
    timid.update(collect(timid), 1)
    assert float(timid.penalty.beta) == pytest.approx(1 / 1.5)
    bold = make_ppo(objective="kl", learning_rate=Linear(0.05, 0.05, 1), epochs=5)
    bold.update(collect(bold), 1)
    assert float(bold.penalty.beta) == pytest.approx(1.5)
    assert float(bold.named_variables()["algorithm/penalty"]) == pytest.approx(1.5)


def test_time_limits_bootstrap_and_terminations_do_not():
    """Constant reward: V is the same at every step if episodes are only cut off."""
    spread = {}
    for terminate in (False, True):
        agent = make_ppo(
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


def test_a_limit_of_50_steps_does_not_bend_the_value():
    """V(t) under a constant reward: flat if time limits cut off, else it falls."""
    limit, spread = 50, {}
    clock = (np.arange(2 * limit + 2)[:, None] + 13 * np.arange(B)) % (limit + 1)
    first, last = clock == 0, clock == limit
    shape = [2 * limit + 1, B]
    for terminate in (False, True):
        agent = make_ppo(
            gs.Box(0, 1, (limit,)),
            normalize_observation=False,
            normalize_return=False,
            gamma=0.9,
            gae_lambda=0.9,
            learning_rate=Linear(3e-2, 1e-3, 20_000),
            epochs=4,
            minibatch_size=101,
        )
        flags = (first, last & terminate, last & (not terminate))
        steps = TimeStep(
            tf.one_hot(clock % limit, limit),  # the last looks as the first
            tf.where(first, 0.0, 1.0),
            *map(tf.constant, flags),
            {},
        )
        rows, noise = nest.map(
            lambda x: tf.reshape(x, [-1, *x.shape[2:]]),
            (nest.map(lambda x: x[:-1], steps), agent.noise(shape, 0)),
        )
        action, behavior, _ = agent.act(
            rows, agent.initial_state(shape[0] * B), noise, True
        )
        action, behavior = nest.map(
            lambda x: tf.reshape(x, [*shape, *x.shape[1:]]), (action, behavior)
        )
        trajectory = Trajectory(steps, action, behavior, agent.initial_state(B))
        update = tf.function(agent.update, autograph=False)
        for seed in range(60):
            update(trajectory, tf.constant(seed))
        off = tf.zeros([1, limit], tf.bool)
        probe = TimeStep(tf.eye(limit)[None], tf.zeros([1, limit]), off, off, off, {})
        value = agent.network.unroll(probe)[0].value[0].numpy()
        spread[terminate] = value.std() / value.mean()
    assert spread[False] < 0.05
    assert spread[True] > 0.2  # 1 + gamma + ... to the end: the original's targets


def test_all_state_of_an_agent_is_in_its_checkpoint():
    agent = make_ppo(action=ACTIONS["box"], objective="both")
    agent.update(collect(agent), 1)
    held = {id(v) for v in agent.named_variables().values()}
    everything = [*agent.variables, *agent.network.variables]
    everything += [*agent.optimizer.adam.variables]
    missing = [v.name for v in everything if id(v) not in held]
    assert not missing


def test_an_agent_restored_by_name_acts_and_learns_alike():
    first, second = make_ppo(seed=0), make_ppo(seed=1)
    first.update(collect(first), 1)
    target = second.named_variables()
    for name, variable in first.named_variables().items():
        target[name].assign(variable)
    for agent in (first, second):
        agent.update(collect(agent, seed=3), 4)
    a, b = named(first), named(second)
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def test_an_update_without_a_transition_leaves_the_penalty():
    agent = make_ppo(objective="kl", minibatch_size=None)
    trajectory = collect(agent)
    steps = trajectory.steps
    failed = tf.ones_like(steps.first)
    void = steps._replace(first=failed, truncated=failed)
    metrics = agent.update(trajectory._replace(steps=void), 1)
    assert float(metrics["grad/updates"]) == 0
    assert float(agent.penalty.beta) == 1
    agent.update(trajectory, 2)  # one step moves hardly anything
    assert float(agent.penalty.beta) == pytest.approx(1 / 1.5)


def test_the_weight_of_the_entropy_bonus_follows_its_schedule():
    """The mean over equal updates tells how much of the loss is bonus."""
    weights = []
    for step in (0, 50, 100):
        agent = make_ppo(entropy_scale="linear(0.5, 0, 100)", learning_rate=0, epochs=1)
        agent.step.assign(step)
        metrics = agent.update(collect(agent), 1)
        parts = ("loss/policy", "loss/value", "loss/kl_penalty", "loss/network")
        rest = sum(float(metrics[name]) for name in parts)
        bonus = rest - float(metrics["loss/total"])
        weights.append(bonus / float(metrics["policy/entropy"]))
    np.testing.assert_allclose(weights, [0.5, 0.25, 0.0], atol=0.02)


def test_the_rule_of_the_penalty_is_in_the_settings():
    rate = Constant(1e-7)  # so the KL is 0
    timid = make_ppo(objective="kl", learning_rate=rate, kl_adapt_factor=4.0)
    timid.update(collect(timid), 1)
    assert float(timid.penalty.beta) == pytest.approx(1 / 4)
    bold = make_ppo(
        objective="kl", learning_rate=Constant(0.05), epochs=5, kl_adapt_high=1e9
    )
    bold.update(collect(bold), 1)
    assert float(bold.penalty.beta) == 1


def test_the_epsilon_of_adam_is_a_setting():
    assert make_ppo(adam_epsilon=1e-8).optimizer.adam.epsilon == 1e-8
    assert make_ppo().optimizer.adam.epsilon == 1e-5


def test_evaluating_in_chunks_changes_nothing(monkeypatch):
    results = []
    for limit in (chunks.ROWS, 7):
        monkeypatch.setattr(chunks, "ROWS", limit)
        agent = make_ppo(action=ACTIONS["box"], objective="both")
        metrics = tf.function(agent.update, autograph=False)(
            collect(agent), tf.constant(1)
        )
        results.append((named(agent), metrics))
    for part in (0, 1):
        for name, expected in results[0][part].items():
            got = results[1][part][name]
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


def regularized(scale):
    def build(observation_space, action_space):
        l2 = keras.regularizers.L2(scale)
        return keras.Sequential([keras.layers.Dense(4, kernel_regularizer=l2)])

    return build


@pytest.mark.parametrize("jit", [False, True])
def test_what_a_users_layers_add_is_minimised_and_logged(jit):
    norms, logged = {}, {}
    for scale in (0.0, 1.0):
        keras.utils.set_random_seed(0)
        config = ppo.Config(minibatch_size=16, learning_rate=Constant(1e-2))
        agent = ppo.PPO(config, make_spec(num_envs=B), regularized(scale))
        kernel = agent.network.trainable_variables[0]
        first = float(np.sum(np.square(kernel.numpy())))
        update = tf.function(agent.update, jit_compile=jit, autograph=False)
        for seed in range(2):
            metrics = update(collect(agent), tf.constant(seed))
        logged[scale] = float(metrics["loss/network"])
        norms[scale] = float(np.sum(np.square(kernel.numpy())))
    assert logged[0.0] == 0
    assert 0 < logged[1.0] < first  # once a minibatch, however many went before
    assert norms[1.0] < 0.5 * norms[0.0]


# ---- variants of the objective and of targets


@pytest.mark.parametrize("objective", ["clip", "kl"])
def test_without_a_minibatch_size_an_epoch_is_one_step(objective):
    agent = make_ppo(minibatch_size=None, epochs=3, objective=objective)
    assert int(agent.update(collect(agent), 1)["grad/updates"]) == 3


def test_a_step_on_everything_is_a_minibatch_of_everything():
    results = []
    for size in (None, T * B):
        agent = make_ppo(minibatch_size=size, epochs=2)
        agent.update(collect(agent), 1)
        results.append(named(agent))
    for name, expected in results[0].items():
        np.testing.assert_allclose(
            results[1][name], expected, rtol=1e-3, atol=1e-5, err_msg=name
        )


def test_the_target_may_be_the_return_whatever_lambda_is():
    targets = {}
    for kind, lambda_ in (("gae", 1.0), ("return", 0.3), ("gae", 0.3)):
        agent = make_ppo(value_target=kind, gae_lambda=lambda_)
        target = agent.update(collect(agent), 1)["value/target"].numpy()
        targets[kind, lambda_] = target[np.isfinite(target)]
    np.testing.assert_allclose(
        targets["return", 0.3], targets["gae", 1.0], rtol=1e-5, atol=1e-5
    )
    assert np.max(np.abs(targets["gae", 0.3] - targets["gae", 1.0])) > 0.1


def test_what_fills_no_minibatch_may_be_left_out():
    """12 x 4 steps, of which some do not count: never as many as 16 times three."""
    kept, dropped = (make_ppo(drop_rest=drop, epochs=2) for drop in (False, True))
    trajectory = collect(kept)
    valid = int(np.sum(trajectory.mask))
    assert 32 < valid < 48
    assert int(kept.update(trajectory, 1)["grad/updates"]) == 2 * 3
    assert int(dropped.update(trajectory, 1)["grad/updates"]) == 2 * 2
