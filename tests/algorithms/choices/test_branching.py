"""Values of actions of several choices: DQN and PQN as slow loops over the choices."""

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms import cases
from tests.algorithms.cases import B, T, assert_gradients, collect, experience
from tests.nn.cases import VECTOR
from tfagents_batch import nest
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks

SPACE = gs.MultiDiscrete([3, 2, 4], start=[1, 0, -2])
MASKED = gs.Dict(state=VECTOR, action_mask=gs.MultiBinary(9))
STEP = tf.constant(5000, tf.int64)


def make(name, observation=VECTOR, space=SPACE, **settings):
    return cases.make(name, space, observation=observation, **settings)


def parts(space, row):
    """Return the entries of each choice of an action, of a row [A]."""
    if isinstance(space, gs.MultiBinary):
        return np.reshape(row, [-1, 2])
    return np.split(row, np.cumsum(space.nvec.ravel())[:-1])


def taken(space, row, action):
    """Return the entries of the choices of one action, [D]."""
    start = 0 if isinstance(space, gs.MultiBinary) else space.start
    index = np.ravel(action - start)
    return np.array([x[i] for x, i in zip(parts(space, row), index, strict=True)])


def best(space, q, mask=None):
    """Return the index of the largest valid value of each choice, [D]."""
    mask = np.ones(q.shape) if mask is None else mask
    pairs = zip(parts(space, q), parts(space, mask), strict=True)
    return [
        int(np.argmax(np.where(valid if np.any(valid) else 1, x, -np.inf)))
        for x, valid in pairs
    ]


def values(network, steps):
    """Return Q and masks of steps, a row of numbers or None for each."""
    q = network.unroll(steps)[0].q.numpy()
    _, valid = networks.split_mask(steps.observation)
    return q, [[None] * q.shape[1]] * len(q) if valid is None else valid.numpy()


@pytest.mark.parametrize(
    ("target", "observation", "space"),
    [
        ("max", VECTOR, gs.MultiBinary(3)),
        ("double", MASKED, SPACE),
        ("sarsa", VECTOR, SPACE),
    ],
)
def test_errors_and_gradients_of_dqn_are_those_of_a_loop_over_choices(
    target, observation, space
):
    n, settings = 2, {"loss": "squared", "max_gradient_norm": None}
    parts_ = {"n_step": n, "gamma": 0.9, "learning_rate": 0.0, "target": target}
    agent = make("dqn", observation, space, **settings, **parts_)
    for variable in agent.target.trainable_variables:
        variable.assign(variable + 0.1)
    batch = experience(agent, observation=observation, terminate=target == "double")
    steps, mask = batch.steps, batch.mask.numpy()
    learned, valid = values(agent.network, steps)
    slow, _ = values(agent.target, steps)
    goals, sizes = [], []
    for i in range(mask.shape[1]):
        total, factor, t = 0.0, 1.0, 0
        while t < n and mask[t, i]:
            total += factor * float(steps.reward[t + 1, i])
            factor *= 0.0 if bool(steps.terminated[t + 1, i]) else 0.9
            t += 1
        chooser = learned if target == "double" else slow
        if target == "sarsa":
            later = taken(space, slow[t][i], batch.action[t, i].numpy())
        else:
            index = best(space, chooser[t][i], valid[t][i])
            rows = zip(parts(space, slow[t][i]), index, strict=True)
            later = np.array([x[j] for x, j in rows])
        counts = mask[0, i]
        if target == "sarsa":
            counts &= bool(steps.last[t, i] | ~steps.first[t + 1, i])
        goal = total + factor * later.mean() if factor else total
        now = taken(space, learned[0][i], batch.action[0, i].numpy())
        goals.append(goal if counts else np.nan)
        sizes.append(np.mean(np.abs(goal - now)) if counts else 0.0)
    updated = agent.update(batch, 0, STEP)
    np.testing.assert_allclose(updated.priority, sizes, rtol=1e-4, atol=1e-5)

    def loss():
        q = agent.network(nest.map(lambda x: x[0], steps))[0].q
        losses = []
        for i, goal in enumerate(goals):
            if np.isfinite(goal):
                hot = one_hot(space, batch.action[0, i].numpy())
                square = tf.reduce_sum(hot * tf.square(goal - q[i]))
                losses.append(square / len(parts(space, hot)) / 2)
        return tf.reduce_mean(losses)

    assert_gradients(loss, agent.learner.optimizers["network"])


def one_hot(space, action):
    """Return 1 for the choices of one action, f32 [A]."""
    size = 2 * action.size if isinstance(space, gs.MultiBinary) else space.nvec.sum()
    places = taken(space, np.arange(size), action)
    return np.isin(np.arange(size), places).astype(np.float32)


@pytest.mark.parametrize("distribution", ["c51", "qr"])
def test_a_target_of_returns_is_the_mixture_of_those_of_all_choices(distribution):
    settings = {"distribution": distribution, "target": "max", "gamma": 0.9}
    agent = make("dqn", **settings, n_step=1, v_min=-30.0, v_max=30.0)
    batch = experience(agent)
    found = agent.update(batch, 0, STEP).metrics
    slow = agent.target(nest.map(lambda x: x[1], batch.steps))[0].q.numpy()
    later = [
        np.mean([x[j] for x, j in zip(parts(SPACE, q), best(SPACE, q), strict=True)])
        for q in slow
    ]
    factor = 0.9 * (1 - batch.steps.terminated[1].numpy())
    goal = batch.steps.reward[1] + factor * later
    expected = np.mean(goal[batch.mask[0].numpy()])
    assert float(found["value/target"]) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("observation", [VECTOR, MASKED], ids=["all", "masked"])
def test_targets_and_losses_of_pqn_are_those_of_a_loop_over_choices(observation):
    exact = {"minibatch_size": 10**6, "epochs": 1, "max_gradient_norm": None}
    agent = make("pqn", observation, gamma=0.9, trace=0.65, **exact)
    trajectory = collect(agent, observation, terminate=observation is VECTOR)
    steps, mask = trajectory.steps, trajectory.mask.numpy()
    q, valid = values(agent.network, steps)
    value = np.zeros([T + 1, B])
    for t in range(T + 1):
        for b in range(B):
            index = best(SPACE, q[t, b], valid[t][b])
            rows = zip(parts(SPACE, q[t, b]), index, strict=True)
            value[t, b] = np.mean([x[j] for x, j in rows])
    goal = value.copy()
    for t in reversed(range(T)):
        for b in range(B):
            if mask[t, b]:
                after = 0.35 * value[t + 1, b] + 0.65 * goal[t + 1, b]
                going = 0.0 if steps.terminated[t + 1, b] else 0.9
                goal[t, b] = float(steps.reward[t + 1, b]) + going * after
    losses = []
    for t, b in zip(*np.nonzero(mask), strict=True):
        now = taken(SPACE, q[t, b], trajectory.action[t, b].numpy())
        losses.append(np.mean((goal[t, b] - now) ** 2))
    metrics = agent.update(trajectory, 0, STEP).metrics
    assert float(metrics["loss/td"]) == pytest.approx(np.mean(losses) / 2, rel=1e-4)
    assert float(metrics["value/target"]) == pytest.approx(goal[:-1][mask].mean(), 1e-4)


def test_a_random_action_is_random_in_all_choices_or_in_none():
    agent = make("dqn", epsilon=0.5)
    steps = nest.map(lambda x: x[0], experience(agent).steps)
    steps = nest.map(lambda x: tf.repeat(x[:1], 4000, 0), steps)
    noise = agent.policy.noise([4000], 3)
    action = agent.policy.act(steps, (), noise, STEP, True)[0].numpy()
    greedy = agent.policy.act(steps, (), (), STEP, False)[0].numpy()
    same = np.mean(np.all(action == greedy, -1))
    assert same == pytest.approx(0.5 + 0.5 / 24, abs=0.03)
    assert all(SPACE.contains(x) for x in np.unique(action, axis=0))


@pytest.mark.parametrize("settings", [{"target": "munchausen"}, {"cql_scale": 1.0}])
def test_options_of_single_choices_are_refused(settings):
    with pytest.raises(UserError, match=r"MultiDiscrete.*needs Discrete actions"):
        make("dqn", **settings)
