from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.nn.cases import ACTIONS, VECTOR, make_spec, make_steps
from tfagents_batch import nest, seeds
from tfagents_batch.algorithms import bcq
from tfagents_batch.errors import UserError
from tfagents_batch.nn import q_network
from tfagents_batch.nn.layers import noisy
from tfagents_batch.nn.optimizer import TargetNetwork
from tfagents_batch.nn.policies.discrete import EpsilonGreedy
from tfagents_batch.ops.branches import best
from tfagents_batch.schedules import Constant

SPEC = make_spec(VECTOR, gs.Discrete(3, start=2))


def test_every_action_has_a_value_and_steps_are_independent():
    network = q_network.q_network(SPEC)
    steps = make_steps(VECTOR, 4, 2)
    whole = network.unroll(steps, ())[0].q
    assert whole.shape == (4, 2, 3)
    one = tf.nest.map_structure(lambda x: x[2], steps)
    np.testing.assert_allclose(network(one)[0].q, whole[2], rtol=1e-5, atol=1e-6)


def test_advantages_of_a_dueling_network_have_a_mean_of_zero():
    config = q_network.QConfig(dueling=True)
    network = q_network.q_network(SPEC, config)
    features = network.body.encoder(make_steps(VECTOR, 1, 5).observation[0])
    value = network.body.towers[0](features)
    q = network.body(make_steps(VECTOR, 1, 5).observation[0])
    np.testing.assert_allclose(tf.reduce_mean(q, 1), value, rtol=1e-4, atol=1e-5)


def test_the_mean_of_advantages_is_over_valid_actions():
    config = q_network.QConfig(dueling=True)
    space = gs.Dict(state=VECTOR, action_mask=gs.MultiBinary(3))
    network = q_network.q_network(make_spec(space), config)
    state = make_steps(VECTOR, 1, 2).observation[0]
    mask = tf.constant([[True, False, True], [False, False, False]])
    q = network._heads({"state": state}, mask).q
    value = network.body.towers[0](network.body.encoder({"state": state}))[:, 0]
    np.testing.assert_allclose((q[0, 0] + q[0, 2]) / 2, value[0], rtol=1e-4)
    np.testing.assert_allclose(tf.reduce_mean(q[1]), value[1], rtol=1e-4)


PARAMETRIC = gs.Dict(state=VECTOR, action_features=gs.Box(-1, 1, (3, 2)))


@pytest.mark.parametrize("dueling, noisy", [(False, False), (True, True)])
def test_the_value_of_an_action_with_features_depends_on_them_and_not_on_its_place(
    dueling, noisy
):
    config = q_network.QConfig(dueling=dueling, noisy=noisy)
    network = q_network.q_network(make_spec(PARAMETRIC), config)
    steps = nest.map(lambda x: x[0], make_steps(PARAMETRIC, 1, 4))
    noise = network.noise([4], seeds.key(1, "noise"))
    q = network(steps, (), noise)[0].q
    assert q.shape == (4, 3) and len(np.unique(q)) == 12
    order = [2, 0, 1]
    rows = tf.gather(steps.observation["action_features"], order, axis=1)
    moved = steps._replace(observation=steps.observation | {"action_features": rows})
    found = network(moved, (), noise)[0].q
    np.testing.assert_allclose(found, tf.gather(q, order, axis=1), rtol=1e-4, atol=1e-6)


def test_integers_among_features_of_actions_are_scaled_by_their_bounds():
    def network(low, high, kind):
        keras.utils.set_random_seed(0)
        features = gs.Box(low, high, (3, 2), kind)
        space = gs.Dict(state=VECTOR, action_features=features)
        return q_network.q_network(make_spec(space))

    steps = nest.map(lambda x: x[0], make_steps(PARAMETRIC, 1, 1))
    rows = np.array([[[10, 110], [60, 20], [35, 85]]])
    found = []
    for net, x in (
        (network(10, 110, np.int32), rows),
        (network(0, 1, np.float32), np.float32(rows - 10) / 100),
    ):
        seen = steps.observation | {"action_features": tf.constant(x)}
        found.append(net(steps._replace(observation=seen))[0].q)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


@pytest.mark.parametrize(
    "space, text",
    [
        (
            gs.Dict(state=VECTOR, action_features=gs.Box(-1, 1, (4, 2))),
            r"a row for each",
        ),
        (gs.Dict(action_features=gs.Box(-1, 1, (3, 2))), r"has only 'action_features'"),
    ],
)
def test_features_of_actions_that_do_not_fit_are_refused(space, text):
    with pytest.raises(UserError, match=text):
        q_network.q_network(make_spec(space))


def test_noise_is_of_each_row_or_the_same_for_all_and_changes_no_mean():
    network = q_network.q_network(SPEC, q_network.QConfig(noisy=True))
    steps = nest.map(lambda x: x[0], make_steps(VECTOR, 1, 1))
    rows = nest.map(lambda x: tf.repeat(x, 4000, 0), steps)
    each = network(rows, (), network.noise([4000], seeds.key(1, "noise")))[0].q
    same = network(rows, (), network.noise([1], seeds.key(2, "noise")))[0].q
    assert len(np.unique(each[:, 0])) > 3000
    np.testing.assert_allclose(same, tf.repeat(same[:1], 4000, 0), rtol=1e-5)
    assert np.any(np.abs(same[0] - network(steps)[0].q[0]) > 1e-3)


def test_noisy_layers_compute_in_float32_whatever_the_precision():
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        network = q_network.q_network(SPEC, q_network.QConfig(noisy=True, dueling=True))
    finally:
        keras.config.set_dtype_policy(before)
    stacks = [tower.stack for tower in network.body.towers]
    assert {layer.compute_dtype for stack in stacks for layer in stack} == {"float32"}


def test_a_noisy_layer_has_independent_noise_of_inputs_and_outputs():
    layer = noisy.NoisyDense(3)
    layer.build((None, 2))
    x = tf.constant([[1.0, -2.0]])
    noise = noisy.LayerNoise(tf.constant([[0.5, 2.0]]), tf.constant([[1.0, -1.0, 0.0]]))
    sigma = 0.5 / np.sqrt(2)
    part = sigma * (1 * 0.5 - 2 * 2.0) + sigma
    expected = layer(x) + part * np.array([[1.0, -1.0, 0.0]])
    np.testing.assert_allclose(layer(x, noise), expected, rtol=1e-5)


@pytest.mark.parametrize(
    "build",
    [
        lambda *_: keras.Sequential([keras.layers.Dense(7, "relu")]),
        lambda *_: Named("q", 3),
    ],
    ids=["features", "values"],
)
def test_a_users_model_of_features_or_values_is_adapted(build):
    network = q_network.q_network(SPEC, network=build)
    assert network.unroll(make_steps(VECTOR, 2, 2), ())[0].q.shape == (2, 2, 3)


class Named(keras.Model):
    """Returns one output under a name."""

    def __init__(self, name, size):
        super().__init__()
        self.key, self.dense = name, keras.layers.Dense(size)

    def call(self, x):
        return {self.key: self.dense(x)}


@pytest.mark.parametrize(
    "model, text",
    [
        (Named("values", 3), r"returns keys \['values'\].*'q' \[N, 3\]"),
        (Named("q", 4), r"output 'q'.*shape \(None, 4\); expected \(None, 3\)"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_by_name(model, text):
    with pytest.raises(UserError, match=text):
        q_network.q_network(SPEC, network=lambda *_: model)


def test_actions_of_other_kinds_are_refused():
    with pytest.raises(UserError, match=r"need Discrete, MultiDiscrete.*or ppo"):
        q_network.q_network(make_spec(VECTOR, ACTIONS["box"]))
    masked = gs.Dict(state=VECTOR, action_mask=gs.MultiBinary(6))
    with pytest.raises(UserError, match=r"MultiBinary\(3\): cannot mask actions"):
        q_network.q_network(make_spec(masked, gs.MultiBinary(3)))
    text = r"action_mask has shape \(6,\); .*MultiDiscrete\(\[2 3\]\) needs \(5,\)"
    with pytest.raises(UserError, match=text):
        q_network.q_network(make_spec(masked, gs.MultiDiscrete([2, 3])))


def test_actions_that_are_not_discrete_are_refused_where_one_choice_is_needed():
    spec = make_spec(VECTOR, ACTIONS["multi_discrete"])
    with pytest.raises(UserError, match=r"MultiDiscrete.*expected Discrete"):
        q_network.number_of_actions(spec)
    with pytest.raises(UserError, match=r"MultiDiscrete.*expected Discrete"):
        bcq.BCQ(bcq.BCQConfig(), spec)


def make_policy(epsilon=0.0):
    network = q_network.q_network(SPEC)
    return EpsilonGreedy(network, SPEC.action_space, Constant(epsilon))


def test_the_policy_is_greedy_without_exploration_and_with_epsilon_zero():
    steps = nest.map(lambda x: x[0], make_steps(VECTOR, 1, 200))
    step = tf.constant(0, tf.int64)
    for policy, explore in ((make_policy(1.0), False), (make_policy(0.0), True)):
        noise = nest.map(lambda x: x[0], policy.noise((1, 200), 3))
        actions, *_ = policy.act(steps, (), noise, step, explore)
        greedy = 2 + tf.argmax(policy.network(steps)[0].q, -1, tf.int32)
        np.testing.assert_array_equal(actions, greedy)


def test_only_valid_actions_are_selected_and_a_row_without_one_counts_as_all_valid():
    value = tf.constant([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    mask = tf.constant([[False, True, True], [False, False, False]])
    np.testing.assert_array_equal(best(value, mask), [1, 0])


def moving(target, learned, every, tau):
    networks = (SimpleNamespace(variables=[x]) for x in (target, learned))
    return TargetNetwork([tuple(networks)], every, tau)


@pytest.mark.parametrize(
    "every, tau, expected", [(3, 1.0, [0, 0, 4]), (1, 0.5, [2, 3, 3.5])]
)
def test_the_target_moves_after_every_n_updates_by_tau(every, tau, expected):
    target, learned = keras.Variable(1.0), keras.Variable(0.0)
    network = moving(target, learned, every, tau)
    assert float(target.value) == 0  # it starts as a copy
    learned.assign(4.0)
    found = []
    for _ in range(3):
        network.update()
        found.append(float(target.value))
    assert found == expected


def test_integers_of_a_target_are_copied():
    target, learned = (keras.Variable(0, dtype="int64") for _ in range(2))
    network = moving(target, learned, every=1, tau=0.5)
    learned.assign(5)  # such as the count of keras.layers.Normalization
    network.update()
    assert int(target.value) == 5
