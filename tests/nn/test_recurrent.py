import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.nn.cases import ACTIONS, OBSERVATIONS, VECTOR, make_spec, make_steps
from tfagents_batch import nest
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks, recurrent

T, B, F, H = 7, 3, 4, 5


def make_cell(name, initializer="orthogonal"):
    cell = recurrent.CELLS[name](H, initializer)
    cell.build((None, F))
    return cell


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def flags(share=0.3, time=T, seed=1):
    return tf.constant(np.random.default_rng(seed).random([time, B]) < share)


def run(cell, x, first, state):
    inputs = nest.batch_apply(cell, tf.convert_to_tensor(x))
    (outputs,), (state,) = recurrent.unroll([cell], [inputs], first, (state,))
    return outputs, state


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru(cell, x, first, h):
    """Compute the equations in NumPy, one step at a time."""
    gates, candidate = cell.gates.numpy(), cell.candidate.numpy()
    outputs = []
    for t in range(len(x)):
        h = np.where(first[t][:, None], 0, h)
        both = sigmoid(np.concatenate([x[t], h], 1) @ gates + cell.gates_bias.numpy())
        r, u = both[:, :H], both[:, H:]
        new = np.concatenate([x[t], r * h], 1) @ candidate
        h = u * h + (1 - u) * np.tanh(new + cell.candidate_bias.numpy())
        outputs.append(h)
    return np.stack(outputs), h


def lstm(cell, x, first, state):
    h, c = state
    outputs = []
    for t in range(len(x)):
        h, c = (np.where(first[t][:, None], 0, s) for s in (h, c))
        z = np.concatenate([x[t], h], 1) @ cell.gates.numpy() + cell.bias.numpy()
        i, f, o, g = np.split(z, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.stack(outputs), (h, c)


ORACLES = {"gru": gru, "lstm": lstm}


def random_state(name):
    h, c = random(B, H, seed=2), random(B, H, seed=3)
    return h if name == "gru" else (h, c)


@pytest.mark.parametrize("name", ORACLES)
def test_a_cell_computes_its_equations(name):
    cell, x, first = make_cell(name), random(T, B, F), flags()
    for bias in (w for w in cell.weights if len(w.shape) == 1):
        bias.assign(random(*bias.shape, seed=4))
    outputs, state = run(cell, x, first, nest.map(tf.constant, random_state(name)))
    expected, last = ORACLES[name](cell, x, first.numpy(), random_state(name))
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)
    for got, wanted in zip(nest.flatten(state), nest.flatten(last), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def keras_layer(name, cell):
    """Return Keras' own layer with the weights of a cell."""
    blocks = [w.numpy() for w in cell.weights if len(w.shape) == 2]
    bias = np.concatenate([w.numpy() for w in cell.weights if len(w.shape) == 1])
    if name == "gru":
        layer = keras.layers.GRU(H, reset_after=False, return_sequences=True)
        parts = [*np.split(blocks[0], 2, 1), blocks[1]]  # r, u, c
        order = [1, 0, 2]  # Keras: u, r, c
    else:
        layer = keras.layers.LSTM(H, return_sequences=True)
        parts = np.split(blocks[0], 4, 1)  # i, f, o, g
        order = [0, 1, 3, 2]  # Keras: i, f, g, o
    layer.build((None, T, F))
    kernel = np.concatenate([parts[i] for i in order], 1)
    biases = np.split(bias, len(order))
    layer.set_weights(
        [kernel[:F], kernel[F:], np.concatenate([biases[i] for i in order])]
    )
    return layer


@pytest.mark.parametrize("name", ORACLES)
def test_values_and_gradients_agree_with_keras(name):
    cell = make_cell(name)
    layer, x = keras_layer(name, cell), tf.constant(random(T, B, F))
    weight = tf.constant(random(T, B, H, seed=5))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        ours, _ = run(cell, x, tf.zeros([T, B], tf.bool), cell.initial_state(B))
        theirs = tf.transpose(layer(tf.transpose(x, [1, 0, 2])), [1, 0, 2])
        losses = [tf.reduce_sum(weight * y) for y in (ours, theirs)]
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    gradients = [tape.gradient(loss, x) for loss in losses]
    np.testing.assert_allclose(*gradients, rtol=1e-4, atol=1e-5)
    mine = [tape.gradient(losses[0], w.value) for w in cell.weights]
    kernel, back, bias = (tape.gradient(losses[1], w.value) for w in layer.weights)
    total = sum(float(tf.reduce_sum(tf.square(g))) for g in mine)
    wanted = sum(float(tf.reduce_sum(tf.square(g))) for g in (kernel, back, bias))
    assert total == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("name, jit", [("gru", True), ("lstm", False)])
def test_gradients_in_graphs_agree_with_eager_code(name, jit):
    cell, x, first = make_cell(name), tf.constant(random(T, B, F)), flags()

    def gradient(x):
        weights = [w.value for w in cell.weights]
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs, _ = run(cell, x, first, nest.map(tf.constant, random_state(name)))
            loss = tf.reduce_sum(tf.square(outputs))
        return tape.gradient(loss, [*weights, x])

    expected = gradient(x)
    got = tf.function(gradient, jit_compile=jit, autograph=False)(x)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("jit", [False, True])
def test_updates_in_nested_loops_train_the_cell(jit):
    """Like an update: the gradient of a loop is computed inside two other loops."""
    cell, x = make_cell("gru"), tf.constant(random(T, B, F))

    def train():
        def once(_, loss):
            weights = [w.value for w in cell.weights]
            with tf.GradientTape() as tape:
                outputs, _ = run(cell, x, flags(), cell.initial_state(B))
                loss = tf.reduce_mean(tf.square(outputs - 0.5))
            for w, g in zip(weights, tape.gradient(loss, weights), strict=True):
                w.assign_sub(0.1 * g)
            return loss

        def epoch(i, loss):
            _, loss = tf.while_loop(
                lambda j, _: j < 10, lambda j, l: (j + 1, once(j, l)), (0, loss)
            )
            return i + 1, loss

        return tf.while_loop(lambda i, _: i < 10, epoch, (0, 0.0))[1]

    with_loss = tf.function(train, jit_compile=jit, autograph=False)
    first, last = float(with_loss()), float(with_loss())
    assert last < first < 0.25


def test_no_gradient_flows_past_the_start_of_an_episode():
    cell, x = make_cell("lstm"), tf.constant(random(T, B, F))
    first = tf.constant(np.arange(T)[:, None] == np.full([1, B], 4))
    with tf.GradientTape() as tape:
        tape.watch(x)
        outputs, _ = run(cell, x, first, cell.initial_state(B))
        loss = tf.reduce_sum(outputs[4:])
    gradient = tape.gradient(loss, x).numpy()
    assert np.all(gradient[:4] == 0)
    assert np.all(np.any(gradient[4:] != 0, axis=-1))


def test_cells_in_one_loop_do_not_affect_each_other():
    cells = [make_cell("gru"), make_cell("lstm")]
    x, first = random(T, B, F), flags()
    inputs = [nest.batch_apply(cell, tf.convert_to_tensor(x)) for cell in cells]
    states = recurrent.initial_state(cells, B)
    outputs, last = recurrent.unroll(cells, inputs, first, states)
    for i, cell in enumerate(cells):
        alone, state = run(cell, x, first, states[i])
        np.testing.assert_array_equal(outputs[i], alone)
        for a, b in zip(nest.flatten(last[i]), nest.flatten(state), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("initializer", ["orthogonal", "glorot"])
def test_initial_weights_match_the_initializer(initializer):
    keras.utils.set_random_seed(0)
    cell = recurrent.GRU(64, initializer)
    cell.build((None, 32))
    gates = cell.gates.numpy()
    np.testing.assert_array_equal(cell.gates_bias, 1)
    np.testing.assert_array_equal(cell.candidate_bias, 0)
    if initializer == "orthogonal":
        for block in (gates[:32], gates[32:]):
            np.testing.assert_allclose(block @ block.T, np.eye(len(block)), atol=1e-5)
    else:  # the kernel of inputs and state is initialized as one
        for kernel, outputs in ((gates, 128), (cell.candidate.numpy(), 64)):
            limit = np.sqrt(6 / (96 + outputs))
            assert 0.95 * limit < np.abs(kernel).max() <= limit


def test_the_forget_bias_of_an_lstm_starts_at_one():
    bias = make_cell("lstm").bias.numpy().reshape(4, H)
    np.testing.assert_array_equal(bias, np.array([0, 1, 0, 0])[:, None] * np.ones(H))


# ---- networks


CORES = [("gru", "own"), ("gru", "shared"), ("gru", "none"), ("lstm", "own")]


def network(core="gru", value_core="own", observation=VECTOR, action=None, **settings):
    spec = make_spec(observation, action or ACTIONS["discrete"])
    config = networks.NetworkConfig(core=core, value_core=value_core, **settings)
    return networks.actor_critic(spec, config.check())


def with_first(steps):
    first = np.random.default_rng(3).random(steps.first.shape) < 0.3
    return steps._replace(first=tf.constant(first))


@pytest.mark.parametrize(
    "core, value_core, observation",
    [
        *((*each, "vector") for each in CORES),
        ("lstm", "own", "small_image"),
    ],
)
def test_unroll_agrees_with_step_by_step_calls(core, value_core, observation):
    space = OBSERVATIONS[observation]
    model = network(core, value_core, space, hidden=(8, 6))
    steps = with_first(make_steps(space, 5, 2))
    state = model.initial_state(2)
    heads, last = model.unroll(steps, state)
    for t in range(5):
        one, state = model(nest.map(lambda x, t=t: x[t], steps), state)
        np.testing.assert_allclose(one.value, heads.value[t], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(
            one.policy.logits, heads.policy.logits[t], rtol=1e-4, atol=1e-5
        )
    for a, b in zip(nest.flatten(state), nest.flatten(last), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert not model.convolves


@pytest.mark.parametrize("core, value_core", CORES)
def test_outputs_depend_on_the_past_only_with_a_core(core, value_core):
    model = network(core, value_core)
    steps = make_steps(VECTOR, 4, 2)
    changed = steps.observation.numpy().copy()
    changed[0] += 1
    state = model.initial_state(2)
    heads, _ = model.unroll(steps, state)
    others, _ = model.unroll(steps._replace(observation=tf.constant(changed)), state)
    assert np.all(np.any(heads.policy.logits != others.policy.logits, axis=-1))
    same_value = np.all(heads.value[1:] == others.value[1:])
    assert same_value == (value_core == "none")


@pytest.mark.parametrize("value_core", ["own", "shared", "none"])
def test_every_weight_is_trained_by_policy_or_value(value_core):
    model = network("lstm", value_core, OBSERVATIONS["nested"], ACTIONS["box"])
    steps = with_first(make_steps(OBSERVATIONS["nested"], 4, 2))
    weights = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape(persistent=True) as tape:
        heads, _ = model.unroll(steps, model.initial_state(2))
        policy = tf.reduce_sum(heads.policy.log_prob(tf.ones([4, 2, 2])))
        value = tf.reduce_sum(heads.value)
    paths = [variable.path for variable in model.trainable_variables]
    gradients = [tape.gradient(loss, weights) for loss in (policy, value)]
    for path, *each in zip(paths, *gradients, strict=True):
        assert all(g is None or np.all(np.isfinite(g)) for g in each), path
        by_policy, by_value = (g is not None and np.any(g != 0) for g in each)
        if "shared" not in path and "policy" in path:
            assert by_policy and not by_value, path
        elif "shared" not in path and "value" in path:
            assert by_value and not by_policy, path
        else:
            assert by_policy, path


def test_a_lone_image_goes_straight_to_the_core():
    model = network("lstm", "shared", OBSERVATIONS["grey"])
    assert [tuple(x.shape) for x in nest.flatten(model.initial_state(3))] == 2 * [
        (3, 256)
    ]


def test_a_core_without_units_is_refused():
    with pytest.raises(UserError, match=r"network.core is gru but network.hidden is e"):
        networks.NetworkConfig(core="gru", hidden=()).check("network.")
