import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms.cases import B, T, collect
from tests.nn.cases import ACTIONS, OBSERVATIONS, VECTOR, make_spec
from tfagents_batch import nest
from tfagents_batch.algorithms import ppo
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks
from tfagents_batch.ops import chunks
from tfagents_batch.schedules import Constant, Linear
from tfagents_batch.types import TimeStep, Trajectory


def make(observation=VECTOR, action=ACTIONS["discrete"], seed=0, **settings):
    keras.utils.set_random_seed(seed)
    config = ppo.Config(**{"minibatch_size": 16, "epochs": 2, **settings})
    return ppo.PPO(config, make_spec(observation, action, B))


def weights(agent):
    return [variable.numpy() for variable in agent.network.variables]


def named(agent):
    return {k: np.array(v.numpy()) for k, v in agent.named_variables().items()}


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"epochs": 0}, "epochs is 0; expected at least 1"),
        ({"epochs": 1.5}, "epochs is 1.5; expected a whole number"),
        ({"minibatch_size": 0}, "minibatch_size is 0; expected at least 1"),
        ({"gamma": 1.01}, "gamma is 1.01; expected at least 0 and at most 1"),
        ({"gamma": -0.1}, "gamma is -0.1; expected at least 0 and at most 1"),
        ({"gamma": np.nan}, "gamma is nan; expected a number"),
        ({"gae_lambda": 2}, "gae_lambda is 2.0; expected at least 0 and at most 1"),
        ({"clip_ratio": 0.0}, "clip_ratio is 0.0; expected more than 0"),
        ({"learning_rate": Linear(1e-3, -1e-3)}, "learning_rate is linear(0.001, -0"),
        ({"adam_epsilon": 0.0}, "adam_epsilon is 0.0; expected more than 0"),
        ({"gradient_norm": 0.0}, "gradient_norm is 0.0; expected more than 0"),
        ({"value_scale": -1.0}, "value_scale is -1.0; expected at least 0"),
        ({"value_clip": 0.0}, "value_clip is 0.0; expected more than 0"),
        ({"kl_target": 0.0}, "kl_target is 0.0; expected more than 0"),
        ({"kl_init_penalty": 0.0}, "kl_init_penalty is 0.0; expected more than 0"),
        ({"kl_adapt_low": 0.0}, "kl_adapt_low is 0.0; expected more than 0"),
        ({"kl_adapt_low": 2.0}, "kl_adapt_low is 2.0; expected at most kl_adapt_high"),
        ({"kl_adapt_factor": 1.0}, "kl_adapt_factor is 1.0; expected more than 1"),
        ({"kl_cutoff_factor": -1.0}, "kl_cutoff_factor is -1.0; expected more than 0"),
        ({"kl_cutoff_scale": -1.0}, "kl_cutoff_scale is -1.0; expected at least 0"),
        ({"kl_stop": 0.0}, "kl_stop is 0.0; expected more than 0"),
        ({"sequence_length": 0}, "sequence_length is 0; expected at least 1"),
        ({"observation_clip": 0.0}, "observation_clip is 0.0; expected more than 0"),
        ({"value_target": "mc"}, "value_target is 'mc'; expected gae or return"),
        ({"kl_reduction": "row"}, "kl_reduction is 'row'; expected batch or sequence"),
        (
            {"normalize_advantage": "minibatch"},
            "normalize_advantage is 'minibatch'; expected true or false or batch",
        ),
        (
            {"normalize_return": "reward"},
            "normalize_return is 'reward'; expected true or false or per_step",
        ),
        (
            {"network": networks.Config(policy_scale=0.0)},
            "network.policy_scale is 0.0; expected more than 0",
        ),
        (
            {"network": networks.Config(core="rnn")},
            "network.core is 'rnn'; expected none or gru or lstm",
        ),
        ({"objective": "clp"}, "objective is 'clp'; expected clip or kl or both"),
        ({"entropy_scale": np.inf}, "entropy_scale is inf; expected"),
        ({"network": networks.Config(init_std=-1)}, "network.init_std is -1.0; expect"),
        ({"normalize_floor": 0.0}, "normalize_floor is 0.0; expected more than 0"),
        ({"normalize_epsilon": -1}, "normalize_epsilon is -1.0; expected at least 0"),
        ({"reward_clip": 0.0}, "reward_clip is 0.0; expected more than 0"),
        (
            {"drop_rest": True, "minibatch_size": None},
            "drop_rest is true, but minibatch_size is none",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(UserError, match=re.escape(message)):
        ppo.Config(**settings).check()
    with pytest.raises(UserError, match=re.escape(message)):
        make(**settings)


def test_settings_at_their_bounds_are_taken_as_numbers():
    config = ppo.Config(
        gamma=0, gae_lambda=1, learning_rate=0, value_scale=0, entropy_scale=-0.1
    )
    assert config.check().learning_rate == Constant(0.0)
    assert ppo.Config().check() == ppo.Config()
    agent = make(learning_rate=1e-3, entropy_scale="linear(0.1, 0, 100)")
    assert np.isfinite(agent.update(collect(agent), 1)["loss/total"])


@pytest.mark.parametrize("objective", ["clip", "kl", "both"])
@pytest.mark.parametrize("action", ACTIONS)
def test_an_update_is_finite_and_moves_the_weights(action, objective):
    agent = make(action=ACTIONS[action], objective=objective)
    before = weights(agent)
    metrics = agent.update(collect(agent), 1)
    assert all(np.all(np.isfinite(x)) for x in metrics.values() if x.shape.rank == 0)
    assert float(metrics["grad/skipped"]) == 0
    moved = [np.any(a != b) for a, b in zip(before, weights(agent), strict=True)]
    assert all(moved)


def test_squashed_actions_are_learned_from_and_have_an_entropy():
    network = networks.Config(squash=True, max_std=2.0)
    agent = make(action=ACTIONS["box"], entropy_scale=0.01, network=network)
    before = weights(agent)
    trajectory = collect(agent)
    assert np.all(np.abs(trajectory.action) < 1)
    metrics = agent.update(trajectory, 1)
    assert all(np.all(np.isfinite(x)) for x in metrics.values() if x.shape.rank == 0)
    assert all(np.any(a != b) for a, b in zip(before, weights(agent), strict=True))


@pytest.mark.parametrize("observation", ["nested", "small_image", "multi_binary"])
def test_observations_of_any_kind_are_learned_from(observation):
    space = OBSERVATIONS[observation]
    agent = make(space)
    metrics = agent.update(collect(agent, space), 1)
    assert all(np.all(np.isfinite(x)) for x in metrics.values() if x.shape.rank == 0)


@pytest.mark.parametrize("squash", [False, True])
def test_before_the_first_step_ratio_is_one_and_kl_zero(squash):
    network = networks.Config(squash=squash)
    agent = make(action=ACTIONS["box"], objective="both", network=network)
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


def test_a_limit_of_50_steps_does_not_bend_the_value():
    """V(t) under a constant reward: flat if time limits cut off, else it falls."""
    limit, spread = 50, {}
    clock = (np.arange(2 * limit + 2)[:, None] + 13 * np.arange(B)) % (limit + 1)
    first, last = clock == 0, clock == limit
    shape = [2 * limit + 1, B]
    for terminate in (False, True):
        agent = make(
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


@pytest.mark.parametrize("objective", ["clip", "kl", "both"])
def test_the_cutoff_is_reported_where_there_is_one(objective):
    share = {}
    for rate in (1e-7, 0.1):
        agent = make(objective=objective, learning_rate=Constant(rate), epochs=5)
        metrics = agent.update(collect(agent), 1)
        share[rate] = metrics.get("policy/kl_cutoff")
    if objective == "clip":
        assert share == {1e-7: None, 0.1: None}
    else:
        assert float(share[1e-7]) == 0
        assert 0 < float(share[0.1]) <= 1


def test_the_rule_of_the_penalty_is_in_the_settings():
    rate = Constant(1e-7)  # so the KL is 0
    timid = make(objective="kl", learning_rate=rate, kl_adapt_factor=4.0)
    timid.update(collect(timid), 1)
    assert float(timid.penalty) == pytest.approx(1 / 4)
    bold = make(
        objective="kl", learning_rate=Constant(0.05), epochs=5, kl_adapt_high=1e9
    )
    bold.update(collect(bold), 1)
    assert float(bold.penalty) == 1


def test_the_epsilon_of_adam_is_a_setting():
    assert make(adam_epsilon=1e-8).optimizer.adam.epsilon == 1e-8
    assert make().optimizer.adam.epsilon == 1e-5


@pytest.mark.parametrize("action", ["discrete", "box"])
def test_histograms_hold_what_counts_and_nan_for_the_rest(action):
    agent = make(action=ACTIONS[action])
    trajectory = collect(agent)
    metrics = agent.update(trajectory, 1)
    mask = trajectory.mask.numpy()
    taken = metrics["policy/action"].numpy()
    expected = trajectory.action.numpy()[mask].ravel()
    np.testing.assert_array_equal(taken[np.isfinite(taken)], expected)
    assert taken.dtype == np.float32 and len(taken) == trajectory.action.numpy().size
    finite = np.isfinite(metrics["value/target"].numpy())
    np.testing.assert_array_equal(finite, mask.ravel())


def test_evaluating_in_chunks_changes_nothing(monkeypatch):
    results = []
    for limit in (chunks.ROWS, 7):
        monkeypatch.setattr(chunks, "ROWS", limit)
        agent = make(action=ACTIONS["box"], objective="both")
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


# ---- variants of the objective, of targets and of what is normalised


@pytest.mark.parametrize("objective", ["clip", "kl"])
def test_without_a_minibatch_size_an_epoch_is_one_step(objective):
    agent = make(minibatch_size=None, epochs=3, objective=objective)
    assert int(agent.update(collect(agent), 1)["grad/updates"]) == 3


def test_a_step_on_everything_is_a_minibatch_of_everything():
    results = []
    for size in (None, T * B):
        agent = make(minibatch_size=size, epochs=2)
        agent.update(collect(agent), 1)
        results.append(named(agent))
    for name, expected in results[0].items():
        np.testing.assert_allclose(
            results[1][name], expected, rtol=1e-3, atol=1e-5, err_msg=name
        )


def test_advantages_are_standardized_once_or_in_each_minibatch_or_never():
    policy = {}
    for kind in (True, False, "batch"):
        for size in (None, 8):
            agent = make(
                normalize_advantage=kind,
                minibatch_size=size,
                epochs=1,
                objective="kl",
                learning_rate=0,
            )
            policy[kind, size] = float(agent.update(collect(agent), 1)["loss/policy"])
    # Before the first step the ratio is 1, and the mean of what is standardized is 0.
    assert policy[True, None] == pytest.approx(0, abs=1e-6)
    assert policy["batch", None] == pytest.approx(0, abs=1e-6)
    assert policy[True, 8] == pytest.approx(0, abs=1e-6)
    assert abs(policy[False, None]) > 1e-3
    losses = {}
    for kind in (True, "batch"):
        agent = make(normalize_advantage=kind, minibatch_size=8, epochs=1)
        agent.update(collect(agent), 1)
        losses[kind] = named(agent)["network/000-kernel"]
    assert np.any(losses[True] != losses["batch"])


def test_the_target_may_be_the_return_whatever_lambda_is():
    targets = {}
    for kind, lambda_ in (("gae", 1.0), ("return", 0.3), ("gae", 0.3)):
        agent = make(value_target=kind, gae_lambda=lambda_)
        target = agent.update(collect(agent), 1)["value/target"].numpy()
        targets[kind, lambda_] = target[np.isfinite(target)]
    np.testing.assert_allclose(
        targets["return", 0.3], targets["gae", 1.0], rtol=1e-5, atol=1e-5
    )
    assert np.max(np.abs(targets["gae", 0.3] - targets["gae", 1.0])) > 0.1


def test_rewards_may_be_divided_by_their_own_deviation():
    agent = make(normalize_return="per_step", gae_lambda=0.0, gamma=0.0)
    trajectory = collect(agent)
    rewards = trajectory.reward.numpy()[trajectory.mask.numpy()]
    metrics = agent.update(trajectory, 1)
    std = np.std(rewards, ddof=1)
    assert float(metrics["normalize/reward_std"]) == pytest.approx(std, rel=1e-5)
    assert float(metrics["normalize/reward"]) == pytest.approx(rewards.mean(), rel=1e-4)
    target = metrics["value/target"].numpy()
    np.testing.assert_allclose(
        target[np.isfinite(target)], rewards / std, rtol=1e-4, atol=1e-6
    )


def test_a_constant_reward_is_left_as_it_is():
    agent = make(normalize_return="per_step", gamma=0.0)
    trajectory = collect(agent)
    reward = tf.where(trajectory.steps.first, 0.0, 3.0)
    steps = trajectory.steps._replace(reward=reward)
    metrics = agent.update(trajectory._replace(steps=steps), 1)
    assert float(metrics["normalize/reward_scaled"]) == pytest.approx(3.0)


def test_observations_are_clipped_where_the_settings_say():
    for clip in (0.5, 5.0):
        agent = make(observation_clip=clip)
        agent.update(collect(agent), 1)
        seen = agent.update(collect(agent, seed=1), 2)["normalize/observation_seen"]
        seen = seen.numpy()[np.isfinite(seen)]
        assert np.max(np.abs(seen)) <= clip
        assert (np.max(np.abs(seen)) == clip) == (clip == 0.5)


def test_rewards_are_clipped_where_the_settings_say():
    for clip in (0.5, 50.0):
        agent = make(reward_clip=clip, gae_lambda=0.0, gamma=0.0)
        metrics = agent.update(collect(agent), 1)
        target = metrics["value/target"].numpy()
        size = np.abs(target[np.isfinite(target)])  # rewards, but for rounding
        assert (size.max() == pytest.approx(clip)) == (clip == 0.5)
        share = np.mean(size >= clip - 1e-5)
        assert float(metrics["normalize/reward_clipped"]) == pytest.approx(share)


def test_the_share_of_observations_that_was_clipped_is_told():
    agent = make(observation_clip=0.5)
    agent.update(collect(agent), 1)
    trajectory = collect(agent, seed=1)
    metrics = agent.update(trajectory, 2)
    seen = metrics["normalize/observation_seen"].numpy()
    share = np.mean(np.abs(seen[np.isfinite(seen)]) >= 0.5)
    assert 0 < share < 1
    found = float(metrics["normalize/observation_clipped"])
    assert found == pytest.approx(share, rel=1e-5)


def test_floor_and_epsilon_of_deviations_are_settings():
    plain, damped = make(), make(normalize_epsilon=100.0, normalize_return="per_step")
    for agent in (plain, damped):
        agent.update(collect(agent), 1)
    floored = make(normalize_floor=10.0)
    floored.update(collect(floored), 1)
    x = tf.constant([[1.0, 2.0, 3.0]])
    assert np.abs(damped.observations(x)).max() < 0.4
    assert np.abs(floored.observations(x)).max() < 0.4
    assert np.abs(plain.observations(x)).max() > 1
    assert abs(float(damped.rewards(tf.constant(1.0)))) < 0.11


def test_what_fills_no_minibatch_may_be_left_out():
    """12 x 4 steps, of which some do not count: never as many as 16 times three."""
    kept, dropped = (make(drop_rest=drop, epochs=2) for drop in (False, True))
    trajectory = collect(kept)
    valid = int(np.sum(trajectory.mask))
    assert 32 < valid < 48
    assert int(kept.update(trajectory, 1)["grad/updates"]) == 2 * 3
    assert int(dropped.update(trajectory, 1)["grad/updates"]) == 2 * 2


# ---- histograms


@pytest.mark.parametrize("objective", ["clip", "kl"])
@pytest.mark.parametrize("jit", [False, True])
def test_every_histogram_is_there_and_all_can_be_left_out(objective, jit):
    for on in (True, False):
        agent = make(action=ACTIONS["box"], objective=objective, histograms=on)
        update = tf.function(agent.update, jit_compile=jit, autograph=False)
        metrics = update(collect(agent), tf.constant(1))
        vectors = {name for name, value in metrics.items() if value.shape.rank}
        expected = {*ppo.HISTOGRAMS, *(ppo.KL_HISTOGRAMS if objective == "kl" else ())}
        assert vectors == (expected if on else set())
        for name in vectors:
            assert np.any(np.isfinite(metrics[name])), name


def test_histograms_change_nothing_that_is_learned():
    results = []
    for on in (True, False):
        agent = make(histograms=on)
        agent.update(collect(agent), 1)
        results.append(named(agent))
    for name, expected in results[0].items():
        np.testing.assert_array_equal(results[1][name], expected, err_msg=name)


def test_histograms_say_what_scalars_are_means_of():
    agent = make(
        minibatch_size=None,
        epochs=1,
        action=ACTIONS["box"],
        objective="both",
        gradient_norm=None,
    )
    trajectory = collect(agent)
    metrics = {k: x.numpy() for k, x in agent.update(trajectory, 1).items()}
    mask = trajectory.mask.numpy()

    def finite(name):
        return metrics[name][np.isfinite(metrics[name])]

    np.testing.assert_allclose(
        np.linalg.norm(finite("grad/all")), metrics["grad/norm"], rtol=1e-5
    )
    assert len(finite("grad/all")) == agent.network.count_params()
    for name in ("grad", "weights"):
        parts = [finite(f"{name}/{group}") for group in ("policy", "value")]
        assert sum(map(len, parts)) == len(finite(f"{name}/all"))
    entropy = finite("policy/row_entropy")
    assert len(entropy) == mask.sum()
    assert entropy.mean() == pytest.approx(metrics["policy/entropy"], rel=1e-5)
    assert finite("value/row_loss").mean() == pytest.approx(
        metrics["loss/value"], rel=1e-4
    )
    assert len(finite("policy/row_kl")) == mask.sum()
    assert finite("policy/row_kl").mean() == pytest.approx(
        metrics["policy/kl"], rel=1e-5
    )
    log_prob = trajectory.behavior["log_prob"].numpy()[mask]
    np.testing.assert_allclose(finite("policy/log_prob"), log_prob, rtol=1e-6)
    mean = trajectory.behavior["policy"]["mean"].numpy()[mask].ravel()
    np.testing.assert_array_equal(finite("policy/mode"), mean)
