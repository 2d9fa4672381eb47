"""Updates of networks with memory, against loops over every window and step."""

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms import cases
from tests.nn import test_recurrent as cells
from tests.nn.cases import ACTIONS, VECTOR, make_steps
from tfagents_batch import nest, seeds
from tfagents_batch.algorithms import bc, bcq, dqn, sac
from tfagents_batch.algorithms.shared.sequences import Sequences
from tfagents_batch.config import replace
from tfagents_batch.errors import UserError
from tfagents_batch.nn import actor, q_network
from tfagents_batch.nn.encoder import ACTION_MASK
from tfagents_batch.types import TimeStep, Trajectory

STEP = tf.constant(5000, tf.int64)
LENGTH, BURN_IN, N, GAMMA = 6, 2, 9, 0.9
MASKED = gs.Dict({"x": VECTOR, ACTION_MASK: gs.MultiBinary(3)})


def make(name, action=None, observation=VECTOR, core="gru", **settings):
    usual = {
        "network.core": core,
        "sequence_length": LENGTH,
        "burn_in": BURN_IN,
        "gamma": GAMMA,
        "learning_rate": 0.0,
        "max_gradient_norm": None,
        "histograms": False,
    }
    agent = cases.make(name, action, None, observation, **usual | settings)
    random = np.random.default_rng(5)
    for variable in agent.learner.named_variables().values():
        if "float" in str(variable.dtype) and len(variable.shape):
            noise = 0.3 * random.normal(size=variable.shape).astype(np.float32)
            variable.assign_add(noise)  # targets and biases of their own
    for optimizer in agent.learner.optimizers.values():
        optimizer.restart()
    return agent


def random_windows(agent, seed=0):
    """Return windows with restarts, failed rows, time limits and breaks."""
    random, rows = np.random.default_rng(seed), agent.config.window
    columns = np.zeros([3, rows, N], bool)  # first, terminated, truncated
    for n in range(N):
        ended = random.random() < 0.2
        for t in range(rows):
            kind = random.choice(5, p=[0.6, 0.13, 0.13, 0.07, 0.07])
            failed, broken = kind == 3, kind == 4
            first = ended or failed or broken
            columns[:, t, n] = first, kind == 1, kind == 2 or failed
            ended = kind in (1, 2, 3)
    first, terminated, truncated = map(tf.constant, columns)
    space = agent._spec.observation_space
    seen = make_steps(space, rows, N, seed).observation
    if isinstance(seen, dict):  # some rows without a valid action
        seen[ACTION_MASK] = tf.constant(random.random((rows, N, 3)) < 0.6)
    reward = tf.where(first, 0.0, random.normal(size=(rows, N)).astype(np.float32))
    steps = TimeStep(seen, reward, first, terminated, truncated, {})
    action = agent._spec.action_space
    action.seed(seed)
    taken = np.stack([[action.sample() for _ in range(N)] for _ in range(rows - 1)])
    dtype = tf.int32 if isinstance(action, gs.Discrete) else tf.float32
    state = ()
    if agent.config.stored_state:
        start = agent.policy.encoder.initial_state(N)
        state = nest.map(lambda x: x + random.normal(size=x.shape) / 2, start)
        state = nest.map(lambda x: tf.cast(x, tf.float32), state)
    weight = tf.constant(random.uniform(0.2, 1, N), tf.float32)
    return Trajectory(steps, tf.cast(taken, dtype), {}, state, weight)


def loop(network, batch, begin=None):
    """Return each step as a network remembers it, one step after another."""
    state = network.encoder.initial_state(N) if begin is None else begin
    found = []
    for t in range(batch.steps.first.shape[0]):
        if t == BURN_IN:
            state = nest.map(tf.stop_gradient, state)
        row = cases.at(batch, t)
        remembered, state = network.encoder.step(row, state)
        found.append(remembered)
    return found


def begin(agent, batch):
    return batch.state if agent.config.stored_state else None


def transitions(agent, batch):
    """Return pairs of each transition that is learned from: its place and its end.

    Each is ``(t, n, end, reward, factor)``, with ``end`` the last step's number.
    """
    steps, mask = batch.steps, batch.mask.numpy()
    found = []
    for t in range(BURN_IN, LENGTH):
        for n in range(N):
            if not mask[t, n]:
                continue
            total, factor, end = 0.0, 1.0, t
            while end < t + agent.config.n_step and mask[end, n]:
                total += factor * float(steps.reward[end + 1, n])
                factor *= 0.0 if bool(steps.terminated[end + 1, n]) else GAMMA
                end += 1
            found.append((t, n, end, total, factor))
    return found


def check_priority(found, places, errors):
    """Compare priorities with eta max + (1 - eta) mean of each window's errors."""
    expected = np.zeros(N)
    for n in range(N):
        own = [e for (_, j, *_), e in zip(places, errors, strict=True) if j == n]
        if own:
            expected[n] = 0.9 * max(own) + 0.1 * np.mean(own)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def check_gradients(loss, optimizer):
    weights = [variable.value for variable in optimizer.trained]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        value = loss()
    found = optimizer.rule.mean_gradients()
    for expected, x in zip(tape.gradient(value, weights), found, strict=True):
        size = np.linalg.norm(expected)
        assert size and np.linalg.norm(x - expected) < 1e-5 * size


def masked_best(q, row, n):
    mask = row.observation.observation
    mask = mask[ACTION_MASK].numpy()[n].astype(bool) if isinstance(mask, dict) else None
    if mask is None or not mask.any():
        return int(np.argmax(q))
    return int(np.argmax(np.where(mask, q, -np.inf)))


@pytest.mark.parametrize(
    ("core", "target", "options"),
    [
        ("gru", "double", {"n_step": 3}),
        ("lstm", "max", {"n_step": 1, "stored_state": False}),
        ("lstm", "double", {"n_step": 2, "network.dueling": True}),
        ("gru", "sarsa", {"n_step": 2}),
        ("gru", "munchausen", {"n_step": 2}),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_dqn_learns_what_loops_over_windows_say(core, target, options, seed):
    observation = VECTOR if target == "munchausen" else MASKED
    agent = make(
        "dqn", None, observation, core, target=target, loss="squared", **options
    )
    batch = random_windows(agent, seed)
    start = begin(agent, batch)

    def values(network):
        return [network(x)[0].q for x in loop(network, batch, start)]

    rows = loop(agent.network, batch, start)
    learned, slow = (
        [x.numpy() for x in values(network)]
        for network in (agent.network, agent.target)
    )
    places, goals, errors = [], [], []
    for t, n, end, total, factor in transitions(agent, batch):
        if target == "munchausen":
            total, factor = 0.0, 1.0
            for row in range(t, end):
                log = tf.nn.log_softmax(slow[row][n] / 0.03)[int(batch.action[row, n])]
                bonus = 0.9 * max(0.03 * float(log), -1.0)
                total += factor * (float(batch.steps.reward[row + 1, n]) + bonus)
                factor *= 0.0 if bool(batch.steps.terminated[row + 1, n]) else GAMMA
        if target == "sarsa":
            last = bool(batch.steps.last[end, n])
            if not last and bool(batch.steps.first[end + 1, n]):
                continue  # no action is known
            best = int(batch.action[end, n])
        else:
            chooser = learned if target == "double" else slow
            best = masked_best(chooser[end][n], rows[end], n)
        value = slow[end][n][best]
        if target == "munchausen":
            log = tf.nn.log_softmax(slow[end][n] / 0.03).numpy()
            value = np.sum(np.exp(log) * (slow[end][n] - 0.03 * log))
        places.append((t, n))
        goals.append(total + factor * value)
        errors.append(abs(goals[-1] - learned[t][n][int(batch.action[t, n])]))
    updated = agent.update(batch, 0, STEP)
    assert len(places) > 5
    check_priority(updated.priority, places, errors)
    assert float(updated.metrics["value/td_error"]) == pytest.approx(
        np.mean(errors), rel=1e-4
    )

    def loss():
        q = values(agent.network)
        losses = [
            batch.weight[n] * (goal - q[t][n][int(batch.action[t, n])]) ** 2 / 2
            for (t, n), goal in zip(places, goals, strict=True)
        ]
        return tf.add_n(losses) / len(losses)

    check_gradients(loss, agent.learner.optimizers["network"])


def noise_of(size, name):
    """Return the normal numbers of each place that is learned from, in its order."""
    drawn = seeds.normal([(LENGTH - BURN_IN) * N, size], seeds.key(0, name))
    return tf.reshape(drawn, [LENGTH - BURN_IN, N, size])


@pytest.mark.parametrize("kind", ["box", "discrete"])
@pytest.mark.parametrize("stored", [True, False])
def test_sac_learns_what_loops_over_windows_say(kind, stored):
    action = ACTIONS[kind]
    options = {"temperature": 0.3, "n_step": 2, "stored_state": stored}
    agent = make("sac", action, core="lstm" if stored else "gru", **options)
    batch = random_windows(agent, seed=2)
    start, later, now = begin(agent, batch), noise_of(2, "later"), noise_of(2, "now")

    def drawn(row, noise, n):
        """Return an action and its log, or the log of all actions, of row n."""
        outputs = {k: x[n : n + 1] for k, x in agent.network(row)[0].items()}
        if kind == "discrete":
            return None, tf.nn.log_softmax(outputs["logits"])
        return agent.policy._of(outputs).sample_with_log_prob(noise[tf.newaxis])

    def values(critics, row, action, n):
        row = nest.map(lambda x: x[n : n + 1], row)
        return critics(row, action)[:, 0]

    def expected(q, log):
        if kind == "box":
            return tf.reduce_min(q, 0) - 0.3 * log[0]
        value = tf.reduce_min(q, 0) - 0.3 * log[0]
        return tf.reduce_sum(tf.exp(log[0]) * value)

    acting, targets = loop(agent.network, batch, start), loop(agent.targets, batch)
    places, goals, errors = transitions(agent, batch), [], []
    critics = loop(agent.critics, batch)

    def q_of(rows, t, n):
        if kind == "discrete":
            found = values(agent.critics, rows[t], None, n)
            return found[:, int(batch.action[t, n])]
        return values(agent.critics, rows[t], batch.action[t, n][tf.newaxis], n)

    for t, n, end, total, factor in places:
        then, log = drawn(acting[end], later[t - BURN_IN, n], n)
        value = expected(values(agent.targets, targets[end], then, n), log)
        goals.append(total + factor * float(value))
        errors.append(float(tf.reduce_mean(tf.abs(goals[-1] - q_of(critics, t, n)))))
    updated = agent.update(batch, 0, STEP)
    assert len(places) > 5
    check_priority(updated.priority, places, errors)

    def critics_loss():
        rows = loop(agent.critics, batch)
        losses = [
            batch.weight[n] * tf.reduce_sum((goal - q_of(rows, t, n)) ** 2) / 2
            for (t, n, *_), goal in zip(places, goals, strict=True)
        ]
        return tf.add_n(losses) / len(losses)

    def actor_loss():
        acting, losses = loop(agent.network, batch, start), []
        for t, n, *_ in places:
            action, log = drawn(acting[t], now[t - BURN_IN, n], n)
            losses.append(-expected(values(agent.critics, critics[t], action, n), log))
        return tf.add_n(losses) / len(losses)

    check_gradients(critics_loss, agent.learner.optimizers["critics"])
    check_gradients(actor_loss, agent.learner.optimizers["actor"])


def test_td3_learns_what_loops_over_windows_say():
    options = {"target_noise": 0.0, "policy_delay": 1, "n_step": 2}
    agent = make("td3", ACTIONS["box"], core="gru", **options)
    batch = random_windows(agent, seed=3)
    acting = loop(agent._target_actor, batch, batch.state)
    targets, critics = (loop(x, batch) for x in (agent._targets, agent.critics))
    places, goals, errors = transitions(agent, batch), [], []
    then = [tf.tanh(agent._target_actor(x)[0]["action"]) for x in acting]
    for t, n, end, total, factor in places:
        value = tf.reduce_min(agent._targets(targets[end], then[end]), 0)[n]
        goals.append(total + factor * float(value))
        q = agent.critics(critics[t], batch.action[t])[:, n]
        errors.append(float(tf.reduce_mean(tf.abs(goals[-1] - q))))
    check_priority(agent.update(batch, 0, STEP).priority, places, errors)

    def critics_loss():
        rows, losses = loop(agent.critics, batch), []
        q = [agent.critics(x, batch.action[min(t, 5)]) for t, x in enumerate(rows)]
        for (t, n, *_), goal in zip(places, goals, strict=True):
            error = tf.reduce_sum((goal - q[t][:, n]) ** 2) / 2
            losses.append(batch.weight[n] * error)
        return tf.add_n(losses) / len(losses)

    def actor_loss():
        rows = loop(agent.network, batch, batch.state)
        units = [tf.tanh(agent.network(x)[0]["action"]) for x in rows]
        q = [agent.critics(*x)[0] for x in zip(critics, units, strict=True)]
        return -tf.add_n([q[t][n] for t, n, *_ in places]) / len(places)

    check_gradients(critics_loss, agent.learner.optimizers["critics"])
    check_gradients(actor_loss, agent.learner.optimizers["actor"])


@pytest.mark.parametrize("core", ["gru", "lstm"])
def test_states_inside_of_windows_are_those_of_the_equations(core, monkeypatch):
    monkeypatch.setattr(cells, "H", 8)  # units of the oracle
    agent = make("dqn", core=core, n_step=1)
    batch = random_windows(agent)
    encoder = agent.network.encoder
    found = Sequences(agent.config, batch).steps(agent.network, 1).observation.features
    state = nest.map(np.array, batch.state[0])
    x, first = batch.steps.observation.numpy(), batch.steps.first.numpy()
    expected, _ = cells.ORACLES[core](encoder.core, x, first, state)
    expected = expected[BURN_IN:LENGTH].reshape(1, -1, 8)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dqn", {"distribution": "c51", "network.noisy": True, "cql_scale": 0.1}),
        ("dqn", {"distribution": "qr", "temperature": 0.5}),
        ("sac", {"quantiles": 3, "dropped": 1, "critic.dropout": 0.1}),
        ("sac", {"exploration": "sde"}),
        ("sac", {"exploration": "ou", "critics_in_target": 1}),
        ("td3", {"exploration": "ou", "normalize_observation": True}),
    ],
)
def test_eager_and_compiled_updates_agree(name, options):
    agents = [make(name, learning_rate=1e-3, **options) for _ in range(2)]
    batch = random_windows(agents[0])
    agents[0].update(batch, 1, STEP)
    program = tf.function(agents[1].update, jit_compile=True, autograph=False)
    program(batch, tf.constant(1), STEP)
    cases.assert_same(agents, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (dqn.DQNConfig, {"burn_in": 4}, "burn_in is 4, but the network has no memory"),
        (dqn.DQNConfig, {"stored_state": False}, "stored_state is False, but the netw"),
        (
            dqn.DQNConfig,
            {"network.core": "gru", "sequence_length": 4, "burn_in": 4},
            "burn_in is 4, but windows have 4 steps, so none is left to learn from",
        ),
        (
            dqn.DQNConfig,
            {"network.core": "gru", "network.hidden": ()},
            "core is gru but network.hidden is empty",
        ),
        (
            sac.SACConfig,
            {"network.core": "lstm", "critic.batch_renorm": True},
            "batch_renorm is true, but network.core is lstm",
        ),
        (
            sac.SACConfig,
            {"network.core": "lstm", "reset_every": 9},
            "reset_every is 9, but network.core is lstm",
        ),
    ],
)
def test_settings_without_a_meaning_are_refused(kind, changes, message):
    with pytest.raises(UserError, match=message) as error:
        replace(kind(), changes).check()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", [sac.CQLConfig, bc.BCConfig, bcq.BCQConfig])
def test_algorithms_of_rows_have_no_core(kind):
    with pytest.raises(UserError, match=r"unknown setting 'network\.core'"):
        replace(kind(), {"network.core": "gru"})
    network = {bcq.BCQConfig: q_network.QConfig}.get(kind, actor.ActorConfig)
    assert kind(network=network()).check()
    with pytest.raises(UserError, match=r"network\.core is gru, but this algori"):
        kind(network=network(core="gru")).check()
