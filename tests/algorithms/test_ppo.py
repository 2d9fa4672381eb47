"""Tests of PPO on transitions and sequences, with and without recurrent networks."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms.cases import (
    B,
    T,
    assert_same,
    collect,
    make_ppo,
    named,
    update,
)
from tests.nn.cases import ACTIONS, VECTOR, make_spec
from tfagents_batch import nest
from tfagents_batch.algorithms import ppo
from tfagents_batch.algorithms.ppo_penalty import KLConfig
from tfagents_batch.graph import training_batch
from tfagents_batch.nn import networks
from tfagents_batch.ops import returns
from tfagents_batch.schedules import Constant, Linear
from tfagents_batch.types import VERSION, TimeStep

NETWORKS = {
    "feed_forward": networks.NetworkConfig(hidden=(8,)),
    "squashed": networks.NetworkConfig(hidden=(8,), squash=True, max_std=2.0),
    "gru": networks.NetworkConfig(hidden=(8, 6), core="gru"),
    "gru_policy": networks.NetworkConfig(hidden=(8, 6), core="gru", value_core="none"),
    "lstm": networks.NetworkConfig(hidden=(8, 6), core="lstm", value_core="shared"),
}


def make(network="feed_forward", observation=VECTOR, action="discrete", **settings):
    common = {"minibatch_size": None, "histograms": False}
    settings = {"network": NETWORKS[network]} | common | settings
    return make_ppo(observation, ACTIONS[action], **settings)


def weights(agent):
    return [variable.numpy() for variable in agent.network.trainable_variables]


def compiled(agent, jit=False):
    """Return ``cases.update`` of an agent as a program."""
    program = functools.partial(update, agent)
    return tf.function(program, jit_compile=jit, autograph=False)


def assert_finite(metrics):
    for name, value in metrics.items():
        assert value.shape.rank or np.isfinite(value), name
    assert float(metrics["grad/skipped"]) == 0


def moving_state(agent):
    """Return an acting state from the middle of a trajectory."""
    trajectory = collect(agent, seed=9, length=T + 1)
    state, return_ = agent.policy.initial_state(B)
    if agent.recurrent:
        state = nest.map(lambda x: x[-1], trajectory.behavior["state"])
        assert all(np.any(x) for x in nest.flatten(state))
    return state, return_


# ---- every kind of space and network


@pytest.mark.parametrize(
    ("action", "network", "objective"),
    [
        ("discrete", "feed_forward", "clip"),
        ("box", "lstm", "both"),
        ("box", "squashed", "kl"),
        ("scalar_box", "feed_forward", "both"),
        ("multi_discrete", "lstm", "clip"),
        ("multi_binary", "gru", "kl"),
    ],
)
def test_an_update_is_finite_and_moves_the_weights(action, network, objective):
    agent = make(
        network, action=action, objective=objective, entropy_scale=0.01, histograms=True
    )
    before = weights(agent)
    trajectory = collect(agent)
    assert_finite(update(agent, trajectory, 1))
    assert all(np.any(a != b) for a, b in zip(before, weights(agent), strict=True))
    recorded = nest.flatten(trajectory.behavior.get("state", ()))
    assert agent.recurrent == bool(recorded)
    assert all(x.shape == (T, B, 6) for x in recorded)
    if network == "squashed":
        assert np.all(np.abs(trajectory.action) < 1)


@pytest.mark.parametrize(
    ("network", "length", "action"),
    [
        ("squashed", None, "box"),
        ("gru_policy", 1, "discrete"),
        ("lstm", 5, "box"),
    ],
)
def test_ratio_is_one_and_kl_zero_before_the_first_step(network, length, action):
    agent = make(
        network,
        action=action,
        objective="both",
        clip_ratio=1e-5,
        learning_rate="piecewise(0: 1e-2, 1: 0)",
        sequence_length=length,
        histograms=True,
    )
    update(agent, collect(agent), 1)  # from here on normalizers change their inputs
    trajectory = collect(agent, seed=1, state=moving_state(agent))
    metrics = update(agent, trajectory, 2, step=1)
    assert float(metrics["policy/clip_fraction"]) == 0  # within 1 +- 1e-5
    assert abs(float(metrics["policy/approx_kl"])) <= 1e-8
    assert abs(float(metrics["policy/kl"])) <= 1e-6
    rows = metrics["histogram/kl"].numpy()
    assert np.sum(np.isfinite(rows)) == np.sum(trajectory.mask)


# ---- masked rows


def test_masked_rows_have_no_influence():
    """Rewards and actions of restart rows and failed rows are arbitrary."""
    agents = []
    for poison in ([0.0], [np.nan, 1e9]):
        agent = make("gru", action="box", objective="kl", sequence_length=5)
        trajectory = collect(agent)
        mask = trajectory.mask.numpy()

        def put(x, rows=0, poison=poison, mask=mask):
            x = x.numpy().copy()
            for index, place in enumerate(np.argwhere(~mask)):
                x[rows:][tuple(place)] = poison[index % len(poison)]
            return tf.constant(x)

        log_prob = put(trajectory.behavior["log_prob"])
        trajectory = trajectory._replace(
            steps=trajectory.steps._replace(reward=put(trajectory.steps.reward, 1)),
            action=put(trajectory.action),
            behavior=trajectory.behavior | {"log_prob": log_prob},
        )
        update(agent, trajectory, 1)
        agents.append(agent)
    assert_same(agents)


def padded(trajectory, rows):
    """Append ``rows`` masked rows to each stream, copies of its last row."""

    def more(x):
        return tf.concat([x, tf.repeat(x[-1:], rows, axis=0)], 0)

    return trajectory._replace(
        steps=nest.map(more, trajectory.steps),
        action=nest.map(more, trajectory.action),
        behavior=nest.map(more, trajectory.behavior),
    )


@pytest.mark.parametrize(
    ("network", "length", "reduction"),
    [("feed_forward", 5, "batch"), ("lstm", None, "sequence")],
)
def test_padding_changes_nothing(network, length, reduction):
    agents, logged = [], []
    for rows in (1, T):
        agent = make(
            network,
            action="box",
            objective="both",
            kl=KLConfig(reduction=reduction),
            normalize_advantage="batch",
            sequence_length=length,
        )
        trajectory = collect(agent)
        steps = trajectory.steps
        last = tf.concat([steps.truncated[:-1], tf.ones([1, B], tf.bool)], 0)
        trajectory = trajectory._replace(steps=steps._replace(truncated=last))
        metrics = update(agent, padded(trajectory, rows), 1)
        logged.append({name: float(value) for name, value in metrics.items()})
        agents.append(agent)
    assert logged[1] == pytest.approx(logged[0], rel=1e-4, abs=1e-6)
    assert_same(agents, rtol=1e-4, atol=1e-6)


def test_an_update_without_valid_rows_changes_nothing():
    agent = make(objective="kl", learning_rate=Constant(1e-3))
    trajectory = collect(agent)
    failed = tf.ones_like(trajectory.steps.first)
    steps = trajectory.steps._replace(first=failed, truncated=failed)
    before = named(agent)
    metrics = update(agent, trajectory._replace(steps=steps), 1)
    assert float(metrics["grad/updates"]) == 0
    after = named(agent)
    changed = {k for k in before if np.any(before[k] != after[k])}
    assert changed == {"learner/optimizer/001"}  # the learning rate


def test_the_learning_rate_follows_the_steps_of_the_run():
    agent = make(learning_rate=Linear(1e-3, 0.0, 100))
    trajectory = collect(agent)
    for step in (0, 41):
        rate = update(agent, trajectory, 1, step)["grad/learning_rate"]
        assert float(rate) == pytest.approx(1e-3 * (1 - step / 100), rel=1e-5)


# ---- minibatches and sequences


@pytest.mark.parametrize(
    ("network", "size", "length", "updates"),
    [
        ("feed_forward", 14, None, 3),
        ("feed_forward", 1000, None, 1),
        ("feed_forward", 16, 4, 3),
        ("gru", 1, T, 4),
        ("gru", 25, 6, 2),
    ],
)
def test_minibatches_contain_whole_sequences(network, size, length, updates):
    agent = make(network, minibatch_size=size, sequence_length=length)
    trajectory = collect(agent)
    assert 35 < np.sum(trajectory.mask) <= 42
    assert int(update(agent, trajectory, 1)["grad/updates"]) == updates


def test_the_last_partial_minibatch_may_be_dropped():
    """12 x 4 steps with some masked are fewer than three minibatches of 16."""
    settings = {"minibatch_size": 16}
    default, dropped = (make(drop_last=drop, **settings) for drop in (False, True))
    trajectory = collect(default)
    assert 32 < np.sum(trajectory.mask) < 48
    assert int(update(default, trajectory, 1)["grad/updates"]) == 3
    assert int(update(dropped, trajectory, 1)["grad/updates"]) == 2


def test_a_minibatch_of_all_rows_equals_the_whole_batch():
    agents = [make(minibatch_size=size) for size in (None, T * B)]
    for agent in agents:
        update(agent, collect(agent), 1)
    assert_same(agents, rtol=1e-3, atol=1e-5)


def test_sequences_without_a_valid_step_are_not_visited():
    agent = make("gru", minibatch_size=1, sequence_length=4)
    trajectory = collect(agent, length=T + 1)
    failed = tf.constant(np.arange(T + 1)[:, None] * np.ones(B) >= 4)
    steps = trajectory.steps._replace(
        first=failed, truncated=failed, terminated=tf.zeros_like(failed)
    )
    metrics = update(agent, trajectory._replace(steps=steps), 1)
    assert int(metrics["grad/updates"]) == B


@pytest.mark.parametrize(("episode", "length"), [(1, T + 1), (2, 5), (T, 1)])
def test_episodes_of_every_length_fit_sequences_of_every_length(episode, length):
    agent = make("gru", sequence_length=length)
    trajectory = collect(agent, length=episode, terminate=True)
    metrics = update(agent, trajectory, 1)
    assert int(metrics["grad/updates"]) == 1 and not metrics["grad/skipped"]


@pytest.mark.parametrize("network", ["feed_forward", "lstm"])
def test_targets_do_not_depend_on_the_sequence_length(network):
    targets, gradients = [], []
    for length in (None, 1, 5):
        agent = make(network, sequence_length=length, histograms=True)
        trajectory = collect(agent, state=moving_state(agent))
        metrics = update(agent, trajectory, 1)
        targets.append(metrics["histogram/target"])
        gradients.append(metrics["histogram/gradient"])
    for target, gradient in zip(targets, gradients, strict=True):
        np.testing.assert_allclose(target, targets[0], rtol=1e-5, atol=1e-5)
        if network == "feed_forward":
            np.testing.assert_allclose(gradient, gradients[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("network", ["feed_forward", "gru"])
def test_advantages_are_corrected_if_an_older_policy_acted(network):
    off = {"normalize_observation": False, "normalize_return": False}
    agents = [make(network, correction=x, **off) for x in ("none", "vtrace")]
    trajectory = collect(agents[0], state=moving_state(agents[0]))
    behavior = trajectory.behavior
    drawn = tf.random.stateless_normal(behavior["log_prob"].shape, [1, 2])
    log_ratio = 0.5 * drawn  # of the policies' probabilities
    older = behavior | {"log_prob": behavior["log_prob"] - log_ratio}
    version = {VERSION: tf.zeros(drawn.shape, tf.int64)}

    def found(agent, behavior):
        older = trajectory._replace(behavior=behavior)
        batch = agent._batch(
            older, agent.learner.begin(older, tf.constant(0, tf.int64))
        )
        return batch.advantage, batch.target, batch.value

    # Without a version, or with the same policy, nothing is corrected.
    plain, *same = (
        found(agent, each)
        for agent, each in zip(
            [agents[0], agents[1], agents[1]],
            [older | version, older, behavior | version],
            strict=True,
        )
    )
    for each in same:
        for x, y in zip(each, plain, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
    advantage, target, _ = found(agents[1], older | version)
    state = trajectory.state[0]
    values = training_batch.values(agents[1].network, trajectory.steps, state)
    expected, expected_target = returns.vtrace(
        trajectory.reward,
        trajectory.discount(0.99),
        values,
        log_ratio,
        trajectory.mask,
        lambda_=0.95,
    )
    rho = tf.minimum(tf.exp(log_ratio), 1)
    np.testing.assert_allclose(rho * advantage, expected, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(target, expected_target, rtol=1e-3, atol=1e-5)
    assert np.abs(advantage - plain[0]).max() > 0.1
    lag = update(agents[1], trajectory._replace(behavior=older | version), 0)
    assert float(lag["lag/updates"]) == 0


def test_recurrent_values_start_from_the_acting_state():
    agent = make(
        "gru", normalize_observation=False, normalize_return=False, histograms=True
    )
    trajectory = collect(agent, state=moving_state(agent))
    state, value = trajectory.state[0], []
    for t in range(T + 1):
        now = nest.map(lambda x, t=t: x[t], trajectory.steps)
        heads, state = agent.network(now, state)
        value.append(heads.value)
    advantage = returns.gae(
        trajectory.reward,
        trajectory.discount(0.99),
        tf.stack(value),
        0.95,
        trajectory.mask,
    )
    target = update(agent, trajectory, 1)["histogram/target"].numpy()
    expected = (advantage + tf.stack(value)[:-1]).numpy()[trajectory.mask.numpy()]
    np.testing.assert_allclose(
        target[np.isfinite(target)], expected, rtol=1e-4, atol=1e-5
    )


# ---- the same result another way


def test_compiled_and_uncompiled_updates_agree():
    agents = []
    for jit in (False, True):
        agent = make(
            "gru_policy", action="box", objective="kl", sequence_length=5, epochs=2
        )
        learn = compiled(agent, jit=True) if jit else functools.partial(update, agent)
        learn(collect(agent), tf.constant(1))
        agents.append(agent)
    assert_same(agents, rtol=2e-3, atol=2e-5)


@pytest.mark.parametrize(
    ("network", "name", "limit"),
    [
        ("feed_forward", "ROWS", 7),
        ("gru", "NUMBERS", training_batch.LAYER * 2 * (T + 1)),
    ],
)
def test_evaluating_in_chunks_changes_nothing(monkeypatch, network, name, limit):
    agents, logged = [], []
    for value in (getattr(training_batch, name), limit):
        monkeypatch.setattr(training_batch, name, value)
        agent = make(
            network, action="box", objective="both", sequence_length=5, histograms=True
        )
        logged.append(update(agent, collect(agent), 1))
        agents.append(agent)
    assert_same(agents, rtol=1e-4, atol=1e-6)
    for key, expected in logged[0].items():
        np.testing.assert_allclose(
            logged[1][key], expected, rtol=1e-4, atol=1e-6, err_msg=key
        )


def test_updates_depend_on_the_seed():
    agents = [make(minibatch_size=24) for _ in range(3)]
    for agent, seed in zip(agents, (1, 1, 2), strict=True):
        update(agent, collect(agent), seed)
    assert_same(agents[:2])
    finals = map(weights, agents[1:])
    assert any(np.any(a != b) for a, b in zip(*finals, strict=True))


# ---- objective, penalty and entropy


def test_kl_stop_ends_the_epochs():
    agent = make(
        "gru",
        learning_rate=Constant(0.1),
        epochs=10,
        kl_stop=0.01,
        minibatch_size=24,
        sequence_length=6,
    )
    assert int(update(agent, collect(agent), 1)["grad/updates"]) < 10 * 2


@pytest.mark.parametrize(
    ("settings", "beta"),
    [
        ({"learning_rate": Constant(1e-7), "kl": KLConfig(adapt_factor=4.0)}, 1 / 4),
        ({"learning_rate": Constant(0.1), "epochs": 3}, 1.5),
        (
            {
                "learning_rate": Constant(0.1),
                "epochs": 3,
                "kl": KLConfig(adapt_high=1e9),
            },
            1,
        ),
    ],
)
def test_the_penalty_moves_towards_the_target_and_is_saved(settings, beta):
    agent = make(objective="kl", minibatch_size=24, **settings)
    update(agent, collect(agent), 1)
    saved = agent.learner.named_variables()["learner/penalty"]
    assert float(saved) == float(agent.penalty.beta) == pytest.approx(beta)


def test_the_weight_of_the_entropy_bonus_follows_its_schedule():
    """The bonus is the total loss minus all other parts."""
    found = []
    agent = make(entropy_scale="linear(0.5, 0, 100)", learning_rate=0)
    for step in (0, 50, 100):
        metrics = update(agent, collect(agent), 1, step)
        parts = ("loss/policy", "loss/value", "loss/kl_penalty", "loss/network")
        rest = sum(float(metrics[name]) for name in parts)
        bonus = rest - float(metrics["loss/total"])
        found.append(bonus / float(metrics["policy/entropy"]))
    np.testing.assert_allclose(found, [0.5, 0.25, 0.0], atol=0.02)


def older(trajectory):
    """Return a trajectory whose actions had other probabilities when it acted."""
    behavior = trajectory.behavior
    shift = 0.3 * tf.random.stateless_normal(behavior["log_prob"].shape, [1, 2])
    log_prob = behavior["log_prob"] + shift
    return trajectory._replace(behavior=behavior | {"log_prob": log_prob})


@pytest.mark.parametrize("jit", [False, True])
def test_the_clip_range_follows_its_schedule_to_zero(jit):
    """The loss is that of a loop over rows, eq. 7 of Schulman et al. 2017."""
    raw = {"normalize_observation": False, "normalize_return": False}
    more = {"normalize_advantage": False, "learning_rate": 0.0, "value_clip": 0.1}
    agent = make(clip_ratio="linear(0.2, 0, 100)", correction="none", **raw, **more)
    trajectory = older(collect(agent))
    batch = agent._batch(trajectory, trajectory.steps)
    heads = agent.network.unroll(trajectory.steps)[0]
    log_prob = heads.policy.with_params(
        nest.map(lambda x: x[:-1], heads.policy.params)
    ).log_prob(trajectory.action)
    columns = [
        x.numpy()[trajectory.mask] for x in (log_prob, batch.log_prob, batch.advantage)
    ]
    program = compiled(agent, jit)  # updates do not change the weights
    for step, range_ in ((0, 0.2), (50, 0.1), (100, 0.0), (1000, 0.0)):
        rows, outside = [], []
        for new, old, gain in zip(*columns, strict=True):
            ratio = np.exp(new - old)
            within = min(max(ratio, 1 - range_), 1 + range_)
            rows.append(min(ratio * gain, within * gain))
            outside.append(abs(ratio - 1) > range_)
        metrics = program(trajectory, 1, tf.constant(step, tf.int64))
        assert_finite(metrics)
        assert float(metrics["loss/policy"]) == pytest.approx(-np.mean(rows), abs=1e-5)
        share = float(metrics["policy/clip_fraction"])
        assert share == pytest.approx(np.mean(outside), abs=1e-6)


def test_a_constant_clip_range_learns_as_a_schedule_that_stays_there():
    agents = [make(clip_ratio=x) for x in (0.1, "linear(0.1, 0.1, 100)")]
    for agent in agents:
        update(agent, older(collect(agent)), 1, 50)
    assert_same(agents)


# ---- values


def test_time_limits_bootstrap_and_terminations_do_not():
    """Constant reward: V is the same at every step if episodes are only cut off."""
    space, spread = gs.Box(0, 1, (5,)), {}
    agent = make(
        "feed_forward",
        space,
        normalize_observation=False,
        normalize_return=False,
        gamma=0.5,
        gae_lambda=0.9,
        learning_rate=Linear(3e-2, 1e-3, 20_000),
        epochs=16,
    )
    learn, start = compiled(agent), named(agent)
    for terminate in (False, True):
        for name, variable in agent.learner.named_variables().items():
            variable.assign(start[name])
        # Observations are the one-hot step of the episode. The last step looks like
        # the first, because values are trained only where actions are taken.
        trajectory = collect(agent, space, 0, 4, terminate)
        clock = (np.arange(T + 1)[:, None] + np.arange(B) % 4) % 5
        reward = tf.where(trajectory.steps.first, 0.0, 1.0)
        steps = trajectory.steps._replace(observation=tf.one_hot(clock % 4, 5))
        trajectory = trajectory._replace(steps=steps._replace(reward=reward))
        for seed in range(40):
            learn(trajectory, tf.constant(seed))
        flags = tf.zeros([1, 5], tf.bool)
        probe = TimeStep(tf.eye(5)[None], tf.zeros([1, 5]), flags, flags, flags, {})
        value = agent.network.unroll(probe)[0].value[0].numpy()
        spread[terminate] = value[:4]  # the states with an action
    # Cut off: 1 / (1 - 0.5) everywhere. Terminated: 1 + gamma + ... to the end.
    np.testing.assert_allclose(spread[False], 2.0, atol=0.15)
    np.testing.assert_allclose(spread[True], [1.875, 1.75, 1.5, 1.0], atol=0.15)


def test_the_value_target_may_be_the_return_for_any_lambda():
    targets = {}
    for kind, lambda_ in (("gae", 1.0), ("return", 0.3), ("gae", 0.3)):
        agent = make(value_target=kind, gae_lambda=lambda_, histograms=True)
        target = update(agent, collect(agent), 1)["histogram/target"].numpy()
        targets[kind, lambda_] = target[np.isfinite(target)]
    np.testing.assert_allclose(
        targets["return", 0.3], targets["gae", 1.0], rtol=1e-5, atol=1e-5
    )
    assert np.max(np.abs(targets["gae", 0.3] - targets["gae", 1.0])) > 0.1


# ---- networks of users, and action masks


def regularized(scale):
    def build(observation_space, action_space):
        l2 = keras.regularizers.L2(scale)
        return keras.Sequential([keras.layers.Dense(4, kernel_regularizer=l2)])

    return build


def test_losses_of_a_users_layers_are_minimized_and_logged():
    keras.utils.set_random_seed(0)
    config = ppo.PPOConfig(
        minibatch_size=16, learning_rate=Constant(1e-2), histograms=False
    )
    agent = ppo.PPO(config, make_spec(num_envs=B), regularized(1.0))
    kernel = agent.network.trainable_variables[0]
    first = float(np.sum(np.square(kernel.numpy())))
    learn = compiled(agent)
    for seed in range(2):
        logged = float(learn(collect(agent), tf.constant(seed))["loss/network"])
        assert 0 < logged < first  # each minibatch adds the loss once
    assert np.sum(np.square(kernel.numpy())) < 0.5 * first


class TestActionMask:
    space = gs.Dict(features=VECTOR, action_mask=gs.MultiBinary(3))

    def trajectory(self, agent, masks):
        """Return a trajectory with action masks ``[T + 1, B, 3]``."""
        plain = collect(agent, self.space)
        state, rows = agent.policy.initial_state(B), []
        steps = plain.steps._replace(
            observation=plain.steps.observation | {"action_mask": tf.constant(masks)}
        )
        noise = agent.policy.noise((T, B), 3)
        for t in range(T):
            now = nest.map(lambda x, t=t: x[t], steps)
            *acted, state = agent.policy.act(now, state, noise[t], 0, True)
            rows.append(acted)
        action, behavior = nest.map(lambda *xs: tf.stack(xs), *rows)
        return plain._replace(steps=steps, action=action, behavior=behavior)

    def test_masked_actions_work_with_recurrent_networks(self):
        masks = np.random.default_rng(0).integers(2, size=(T + 1, B, 3)).astype(np.int8)
        masks[..., 0] = 1
        agent = make(
            "gru", self.space, objective="both", sequence_length=5, histograms=True
        )
        trajectory = self.trajectory(agent, masks)
        taken = np.take_along_axis(masks[:-1], trajectory.action.numpy()[..., None], -1)
        assert np.all(taken == 1)
        metrics = update(agent, trajectory, 1)
        assert_finite(metrics)
        entropy = metrics["histogram/entropy"].numpy()
        most = np.log(masks[:-1].sum(-1))[trajectory.mask.numpy()]
        assert np.all(entropy[np.isfinite(entropy)] <= most + 1e-5)

    def test_a_single_allowed_action_gives_no_policy_gradient(self):
        masks = np.zeros((T + 1, B, 3), np.int8)
        masks[..., 1] = 1
        agent = make("gru", self.space, objective="both", entropy_scale=0.01)
        before = weights(agent)
        metrics = update(agent, self.trajectory(agent, masks), 1)
        for name in ("policy/entropy", "policy/kl", "policy/approx_kl"):
            assert float(metrics[name]) == 0, name
        assert np.isfinite(metrics["grad/norm"])
        after = agent.network.trainable_variables
        for variable, old in zip(after, before, strict=True):
            same = np.array_equal(variable, old)
            assert same == ("policy" in variable.path), variable.path
