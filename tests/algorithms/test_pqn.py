"""PQN: Q(lambda) targets by a slow loop, the gradient step, and normalized layers."""

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms import cases
from tests.algorithms.cases import B, T, collect, named, update
from tfagents_batch.errors import UserError
from tfagents_batch.nn import q_network


def make(**settings):
    return cases.make("pqn", **settings)


def slow_targets(trajectory, q, gamma, trace):
    """Return G, from the paper's recursion; where the mask is 0, the state's value."""
    steps, mask = trajectory.steps, trajectory.mask.numpy()
    value = q.max(-1)
    found = np.array(value)
    for t in reversed(range(T)):
        for b in range(B):
            if mask[t, b]:
                after = (1 - trace) * value[t + 1, b] + trace * found[t + 1, b]
                going = 0.0 if steps.terminated[t + 1, b] else gamma
                found[t, b] = float(steps.reward[t + 1, b]) + going * after
    return found[:-1]


@pytest.mark.parametrize("trace", [0.0, 0.65, 1.0])
def test_targets_are_those_of_the_recursion(trace):
    agent = make(gamma=0.9, trace=trace)
    trajectory = collect(agent)
    assert not trajectory.mask.numpy().all()  # episodes end in it
    q = agent.network.unroll(trajectory.steps)[0].q
    found = agent._targets(trajectory, q).numpy()
    expected = slow_targets(trajectory, q.numpy(), 0.9, trace)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_step_is_the_gradient_of_half_the_mean_squared_error():
    settings = {"minibatch_size": 10**6, "epochs": 1, "max_gradient_norm": None}
    agent = make(optimizer="rmsprop", learning_rate=1e-3, **settings)
    trajectory = collect(agent)
    mask = trajectory.mask.numpy().reshape(-1)
    weights = [x.value for x in agent.network.trainable_variables]
    q = agent.network.unroll(trajectory.steps)[0].q
    target = tf.reshape(agent._targets(trajectory, q), [-1])[mask]
    action = tf.reshape(agent.policy.index(trajectory.action), [-1])
    with tf.GradientTape() as tape:
        q = agent.network.unroll(trajectory.steps)[0].q[:-1]
        taken = tf.gather(tf.reshape(q, [-1, q.shape[-1]]), action, batch_dims=1)
        loss = tf.reduce_mean((taken[mask] - target) ** 2) / 2
    norm = tf.linalg.global_norm(tape.gradient(loss, weights))
    before = named(agent)
    metrics = update(agent, trajectory, 1)
    np.testing.assert_allclose(metrics["loss/td"], loss, rtol=1e-5)
    np.testing.assert_allclose(metrics["grad/norm"], norm, rtol=1e-4)
    assert metrics["grad/updates"] == 1
    after = named(agent)
    assert any(np.any(before[name] != after[name]) for name in before)


def test_hidden_layers_are_normalized():
    agent = make()
    kinds = [type(x).__name__ for x in agent.network._flatten_layers()]
    assert kinds.count("LayerNormalization") == len(agent.config.network.hidden)
    with pytest.raises(UserError, match=r"noisy and .*layer_norm are both true"):
        q_network.QConfig(noisy=True, layer_norm=True).check("network.")
