"""PPO on sequences: recurrent networks, and feed-forward ones cut like them."""

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms.cases import B, T, collect, make_ppo, named
from tests.nn.cases import ACTIONS, OBSERVATIONS, VECTOR
from tfagents_batch import nest
from tfagents_batch.nn import networks
from tfagents_batch.ops import chunks, returns
from tfagents_batch.schedules import Constant
from tfagents_batch.training.seeds import functional

NETWORKS = {
    "feed_forward": networks.Config(hidden=(8, 8)),
    "gru": networks.Config(hidden=(8, 6), core="gru"),
    "gru_policy": networks.Config(hidden=(8, 6), core="gru", value_core="none"),
    "lstm": networks.Config(hidden=(8, 6), core="lstm", value_core="shared"),
}


def make(network, observation=VECTOR, **settings):
    return make_ppo(observation, network=NETWORKS[network], **settings)


def moving_state(agent, observation=VECTOR):
    """A state that is not that of a start."""
    trajectory = collect(agent, observation, seed=9, length=T + 1)
    state, return_ = agent.initial_state(B)
    if agent.recurrent:
        state = nest.map(lambda x: x[-1], trajectory.behavior["state"])
        assert all(np.any(x) for x in nest.flatten(state))
    return state, return_


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("length", [None, 1, 5])
@pytest.mark.parametrize("action", ["discrete", "box"])
def test_before_the_first_step_ratio_is_one_and_kl_zero(network, length, action):
    agent = make(
        network,
        action=ACTIONS[action],
        objective="both",
        clip_ratio=1e-5,
        learning_rate="piecewise(0: 1e-2, 1: 0)",
        sequence_length=length,
    )
    agent.update(collect(agent), 1)  # normalisers are in use now
    trajectory = collect(agent, seed=1, state=moving_state(agent))
    metrics = agent.update(trajectory, 2)
    assert float(metrics["policy/clip_fraction"]) == 0  # within 1 +- 1e-5
    assert abs(float(metrics["policy/approx_kl"])) <= 1e-8
    assert abs(float(metrics["policy/kl"])) <= 1e-8
    rows = metrics["policy/row_kl"].numpy()
    assert np.sum(np.isfinite(rows)) == np.sum(trajectory.mask)


@pytest.mark.parametrize("network", NETWORKS)
def test_targets_do_not_depend_on_how_a_trajectory_is_cut(network):
    targets, gradients = [], []
    for length in (None, 1, 5, T):
        agent = make(
            network,
            sequence_length=length,
            minibatch_size=None,
            epochs=1,
            gae_lambda=0.9,
        )
        trajectory = collect(agent, state=moving_state(agent))
        metrics = agent.update(trajectory, 1)
        targets.append(metrics["value/target"])
        gradients.append(metrics["grad/all"])
    for target, gradient in zip(targets, gradients, strict=True):
        np.testing.assert_allclose(target, targets[0], rtol=1e-5, atol=1e-5)
        if network == "feed_forward":
            np.testing.assert_allclose(gradient, gradients[0], rtol=1e-5, atol=1e-5)


def test_values_of_a_recurrent_network_go_on_from_the_state_of_acting():
    agent = make("gru", normalize_observation=False, normalize_return=False)
    trajectory = collect(agent, state=moving_state(agent))
    state, value = trajectory.state[0], []
    for t in range(T + 1):
        now = nest.map(lambda x, t=t: x[t], trajectory.steps)
        heads, state = agent.network(now, state)
        value.append(heads.value)
    expected = returns.gae(
        trajectory.reward,
        trajectory.discount(0.99),
        tf.stack(value),
        0.95,
        trajectory.mask,
    )
    target = agent.update(trajectory, 1)["value/target"].numpy()
    mask = trajectory.mask.numpy()
    expected = (expected + tf.stack(value)[:-1]).numpy()[mask]
    np.testing.assert_allclose(
        target[np.isfinite(target)], expected, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("network", ["feed_forward", "gru"])
@pytest.mark.parametrize("episode", [1, 2, 3, 7, T])
def test_episodes_of_every_length_fit_sequences_of_every_length(network, episode):
    agent = make(network, minibatch_size=None, epochs=1)
    trajectory = collect(agent, length=episode, terminate=True)
    for length in (1, 2, 5, 7, T - 1, T, T + 1):
        agent = make(network, minibatch_size=None, epochs=1, sequence_length=length)
        metrics = agent.update(trajectory, 1)
        assert int(agent.step) == np.sum(trajectory.mask)
        assert int(metrics["grad/updates"]) == 1 and not metrics["grad/skipped"]


def padded(trajectory, rows):
    """``rows`` more of each stream, which repeat its last and count for nothing."""

    def more(x):
        return tf.concat([x, tf.repeat(x[-1:], rows, axis=0)], 0)

    return trajectory._replace(
        steps=nest.map(more, trajectory.steps),
        action=nest.map(more, trajectory.action),
        behavior=nest.map(more, trajectory.behavior),
    )


@pytest.mark.parametrize(
    "network, length",
    [("feed_forward", None), ("feed_forward", 5), ("gru", 5), ("lstm", None)],
)
def test_padding_changes_nothing(network, length):
    results = []
    for rows in (1, 7, 19 * T):
        agent = make(
            network,
            action=ACTIONS["box"],
            objective="both",
            kl_reduction="sequence" if length is None else "batch",
            normalize_advantage="batch",
            sequence_length=length,
            minibatch_size=None,
        )
        trajectory = collect(agent)
        steps = trajectory.steps
        last = tf.concat([steps.truncated[:-1], tf.ones([1, B], tf.bool)], 0)
        steps = steps._replace(truncated=last)
        trajectory = padded(trajectory._replace(steps=steps), rows)
        metrics = tf.function(agent.update, autograph=False)(trajectory, 1)
        scalars = {k: float(x) for k, x in metrics.items() if x.shape.rank == 0}
        results.append((scalars, named(agent)))
    for scalars, variables in results[1:]:
        for name, expected in results[0][0].items():
            assert scalars[name] == pytest.approx(expected, rel=1e-4, abs=1e-6), name
        for name, expected in results[0][1].items():
            np.testing.assert_allclose(
                variables[name], expected, rtol=1e-4, atol=1e-6, err_msg=name
            )


@pytest.mark.parametrize("network", ["feed_forward", "gru"])
@pytest.mark.parametrize("size, length, updates", [(1, 4, 12), (8, 4, 6), (25, 6, 2)])
def test_minibatches_are_of_whole_sequences(network, size, length, updates):
    agent = make(network, minibatch_size=size, sequence_length=length, epochs=1)
    metrics = agent.update(collect(agent), 1)
    assert int(metrics["grad/updates"]) == updates


def test_sequences_without_a_valid_step_are_not_visited():
    agent = make("gru", minibatch_size=1, sequence_length=4, epochs=1)
    trajectory = collect(agent, length=T + 1)
    steps = trajectory.steps
    failed = tf.constant(np.arange(T + 1)[:, None] * np.ones(B) >= 4)
    steps = steps._replace(first=failed, truncated=failed, terminated=~failed & failed)
    metrics = agent.update(trajectory._replace(steps=steps), 1)
    assert int(metrics["grad/updates"]) == B


@pytest.mark.parametrize("poison", [np.nan, 1e9])
def test_what_is_masked_has_no_influence(poison):
    """Behind the padding, in restart rows and in what acting recorded there."""
    results = []
    for value in (0.0, poison):
        agent = make("gru", action=ACTIONS["box"], sequence_length=5, objective="kl")
        trajectory = collect(agent)
        mask = trajectory.mask.numpy()

        def put(x, rows, value=value, mask=mask):
            x = x.numpy().copy()
            x[rows:][~mask] = value
            return tf.constant(x)

        behavior = trajectory.behavior | {
            "log_prob": put(trajectory.behavior["log_prob"], 0)
        }
        trajectory = trajectory._replace(
            steps=trajectory.steps._replace(reward=put(trajectory.steps.reward, 1)),
            action=put(trajectory.action, 0),
            behavior=behavior,
        )
        agent.update(trajectory, 1)
        results.append(named(agent))
    for name, expected in results[0].items():
        np.testing.assert_array_equal(results[1][name], expected, err_msg=name)


@pytest.mark.parametrize("network, objective", [("gru", "kl"), ("lstm", "clip")])
def test_compiled_and_uncompiled_updates_agree(network, objective):
    results = []
    for jit in (False, True):
        agent = make(
            network, action=ACTIONS["box"], objective=objective, sequence_length=5
        )
        update = tf.function(agent.update, jit_compile=jit, autograph=False)
        update(collect(agent), tf.constant(1))
        results.append(named(agent))
    for name, expected in results[0].items():
        np.testing.assert_allclose(
            results[1][name], expected, rtol=2e-3, atol=2e-5, err_msg=name
        )


@pytest.mark.parametrize("objective", ["clip", "kl", "both"])
@pytest.mark.parametrize("action", ACTIONS)
def test_an_update_is_finite_and_moves_every_weight(action, objective):
    agent = make("lstm", action=ACTIONS[action], objective=objective)
    before = [v.numpy() for v in agent.network.trainable_variables]
    metrics = agent.update(collect(agent), 1)
    assert all(np.all(np.isfinite(x)) for x in metrics.values() if x.shape.rank == 0)
    assert float(metrics["grad/skipped"]) == 0
    after = agent.network.trainable_variables
    assert all(np.any(a != b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("observation", ["nested", "small_image", "multi_binary"])
def test_observations_of_any_kind_are_learned_from(observation):
    space = OBSERVATIONS[observation]
    agent = make("gru", space, sequence_length=4)
    metrics = agent.update(collect(agent, space), 1)
    assert all(np.all(np.isfinite(x)) for x in metrics.values() if x.shape.rank == 0)
    assert agent.compilable == (observation == "multi_binary")


def test_evaluating_in_chunks_changes_nothing(monkeypatch):
    results = []
    for numbers in (chunks.NUMBERS, chunks.LAYER * 2 * (T + 1)):
        monkeypatch.setattr(chunks, "NUMBERS", numbers)
        agent = make("gru", action=ACTIONS["box"], objective="both", sequence_length=5)
        metrics = tf.function(agent.update, autograph=False)(
            collect(agent), tf.constant(1)
        )
        results.append((named(agent), metrics))
    for part in (0, 1):
        for name, expected in results[0][part].items():
            got = results[1][part][name]
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


def test_kl_stop_ends_the_epochs():
    agent = make(
        "gru", learning_rate=Constant(0.1), epochs=20, kl_stop=0.01, sequence_length=4
    )
    metrics = agent.update(collect(agent), 1)
    assert int(metrics["grad/updates"]) < 20 * T * B // 16


@pytest.mark.parametrize("network", ["feed_forward", "gru"])
def test_a_penalty_of_sequences_is_the_mean_of_those_of_each(network):
    agent = make(network, objective="kl", kl_reduction="sequence")
    kl = tf.constant([[0.1, 0.2, np.nan], [0.3, np.nan, np.nan]])
    mask = tf.constant([[True, True, False], [True, False, False]])
    mean, counts = agent.penalty.mean(kl, mask)
    np.testing.assert_allclose(mean, [0.2, 0.2, 0], rtol=1e-6)
    np.testing.assert_array_equal(counts, [True, True, False])
    metrics = agent.update(collect(agent), 1)
    assert np.isfinite(metrics["policy/kl"])
    assert int(metrics["grad/updates"]) == 2 * B  # whole streams, one a minibatch


def test_means_over_sequences_weigh_short_ones_as_much_as_long_ones():
    """As many steps of KL 1 in a short sequence as of KL 0 in a long one."""
    kl = tf.constant([[1.0, 0.0], [1.0, 0.0], [9.0, 0.0], [9.0, 0.0]])
    mask = tf.constant([[True, True], [True, True], [False, True], [False, True]])
    for reduction, expected in (("sequence", 1 / 2), ("batch", 1 / 3)):
        agent = make("feed_forward", objective="kl", kl_reduction=reduction)
        found = agent.penalty.mean(kl, mask)
        assert float(tf.reduce_mean(found[0])) == pytest.approx(expected)


class TestActionMask:
    space = gs.Dict(features=VECTOR, action_mask=gs.MultiBinary(3))

    def trajectory(self, agent, masks):
        """Acted on under masks ``[T + 1, B, 3]``."""
        plain = collect(agent, self.space)
        state, rows = agent.initial_state(B), []
        steps = plain.steps._replace(
            observation=plain.steps.observation | {"action_mask": tf.constant(masks)}
        )
        noise = agent.noise((T, B), 3)
        for t in range(T):
            now = nest.map(lambda x, t=t: x[t], steps)
            *acted, state = agent.act(now, state, noise[t], True)
            rows.append(acted)
        action, behavior = nest.map(lambda *xs: tf.stack(xs), *rows)
        return plain._replace(steps=steps, action=action, behavior=behavior)

    @pytest.mark.parametrize("network, jit", [("gru", True), ("lstm", False)])
    def test_masks_and_memory_go_together(self, network, jit):
        masks = np.random.default_rng(0).integers(2, size=(T + 1, B, 3)).astype(np.int8)
        masks[..., 0] = 1
        agent = make(network, self.space, objective="both", sequence_length=5)
        trajectory = self.trajectory(agent, masks)
        taken = np.take_along_axis(masks[:-1], trajectory.action.numpy()[..., None], -1)
        assert np.all(taken == 1)
        update = tf.function(agent.update, jit_compile=jit, autograph=False)
        metrics = update(trajectory, tf.constant(1))
        assert all(
            np.all(np.isfinite(x)) for x in metrics.values() if x.shape.rank == 0
        )
        entropy = metrics["policy/row_entropy"].numpy()
        most = np.log(masks[:-1].sum(-1))[trajectory.mask.numpy()]
        assert np.all(entropy[np.isfinite(entropy)] <= most + 1e-5)
        assert float(metrics["grad/skipped"]) == 0

    def test_where_one_action_is_allowed_nothing_is_to_be_learned(self):
        masks = np.zeros((T + 1, B, 3), np.int8)
        masks[..., 1] = 1
        agent = make("gru", self.space, objective="both", entropy_scale=0.01)
        before = [v.numpy() for v in agent.network.trainable_variables]
        metrics = agent.update(self.trajectory(agent, masks), 1)
        for name in ("policy/entropy", "policy/kl", "policy/approx_kl"):
            assert float(metrics[name]) == 0, name
        assert np.isfinite(metrics["grad/norm"])
        for variable, old in zip(
            agent.network.trainable_variables, before, strict=True
        ):
            same = np.array_equal(variable, old)
            assert same == ("policy" in variable.path), variable.path


def test_an_agent_restored_by_name_acts_and_learns_alike():
    first, second = make("lstm", seed=0), make("lstm", seed=1)
    first.update(collect(first), 1)
    target = second.named_variables()
    for name, variable in first.named_variables().items():
        target[name].assign(variable)
    for agent in (first, second):
        agent.update(collect(agent, seed=3), 4)
    a, b = named(first), named(second)
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@pytest.mark.parametrize(
    "network", [pytest.param("gru", marks=pytest.mark.slow), "lstm"]
)
def test_copies_that_are_vectorised_learn_what_each_learns_alone(network):
    """As several seeds in one program do."""
    agents = [make(network, seed=seed, sequence_length=5) for seed in range(2)]
    trajectories = [collect(agent, seed=7) for agent in agents]
    variables = list(agents[0].named_variables().values())
    each = [[np.array(x.numpy()) for x in a.named_variables().values()] for a in agents]
    values = [tf.constant(np.stack(pair)) for pair in zip(*each, strict=True)]
    rows = nest.map(lambda *xs: tf.stack(xs), *trajectories)

    def update(row):
        return functional.call(variables, row[0], agents[0].update, row[1], row[2])

    @tf.function(jit_compile=True, autograph=False)
    def together(values, rows, seeds):
        return tf.vectorized_map(
            update, (values, rows, seeds), fallback_to_while_loop=False
        )

    after, metrics = together(values, rows, tf.constant([3, 4]))
    for index, agent in enumerate(agents):
        alone = agent.update(trajectories[index], 3 + index)
        for name, got in zip(agent.named_variables(), after, strict=True):
            np.testing.assert_allclose(
                got[index],
                agent.named_variables()[name],
                rtol=1e-3,
                atol=1e-5,
                err_msg=name,
            )
        np.testing.assert_allclose(
            metrics["loss/value"][index], alone["loss/value"], rtol=1e-4
        )


def test_states_are_recorded_by_recurrent_networks_only():
    assert "state" not in collect(make("feed_forward")).behavior
    state = collect(make("gru")).behavior["state"]
    assert [tuple(x.shape) for x in nest.flatten(state)] == 2 * [(T, B, 6)]
