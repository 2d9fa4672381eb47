"""BCQ: limit cases, targets, decisions, and a task whose log is misleading."""

import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.algorithms import cases
from tests.algorithms.cases import assert_equal, assert_gradients
from tests.nn.cases import ACTIONS, VECTOR, make_steps
from tests.offline import timelines
from tfagents_batch import nest
from tfagents_batch.errors import UserError
from tfagents_batch.schedules import Constant
from tfagents_batch.types import Trajectory

STEP = tf.constant(50, tf.int64)
SAME = {"histograms": False, "learning_rate": Constant(3e-3)}


def make(name="bcq", **settings):
    imitator = {"imitator": {"hidden": [8]}} if name == "bcq" else {}
    return cases.make(name, ACTIONS["discrete"], **SAME | imitator | settings)


def rows(agent, number=0) -> Trajectory:
    """Return a batch of rows: steps of a rollout with their next ones.

    Most actions are 0, so that an imitator learns something.
    """
    batch = cases.rows(agent, number)
    random = np.random.default_rng(number)
    actions = random.choice([0, 0, 0, 1, 2], batch.action.shape)
    return batch._replace(action=tf.constant(actions, tf.int32))


def learned(agent, part, updates=20):
    """Return the weights of a part after updates on several batches."""
    batches = [rows(agent, i) for i in range(4)]
    for i in range(updates):
        agent.update(batches[i % 4], i, STEP)
    return {str(i): x.numpy() for i, x in enumerate(part.trainable_variables)}


def copy(target, source):
    for mine, its in zip(target.variables, source.variables, strict=True):
        mine.assign(its)


@pytest.mark.parametrize("target", ["max", "double"])
def test_with_threshold_0_it_is_q_learning_bit_for_bit(target):
    agent = make(threshold=0.0, target=target, target_tau=0.1)
    dqn = make("dqn", target=target, n_step=1, target_tau=0.1, epsilon=0.0)
    for part in (dqn.network, dqn.target, agent.target):
        copy(part, agent.network.values)
    assert_equal(learned(agent, agent.network.values), learned(dqn, dqn.network))
    step = nest.map(lambda x: x[0], make_steps(VECTOR, 1, 64))
    decisions = [each.policy.decide(step, (), STEP) for each in (agent, dqn)]
    np.testing.assert_array_equal(*(each.action for each in decisions))


def test_with_threshold_1_it_is_behavior_cloning_bit_for_bit():
    agent, cloned = make(threshold=1.0, max_gradient_norm=None), make("bc")
    copy(cloned.network, agent.network.imitator)
    expected = learned(cloned, cloned.network)
    assert_equal(learned(agent, agent.network.imitator), expected)
    step = nest.map(lambda x: x[0], make_steps(VECTOR, 1, 64))
    decisions = [each.policy.decide(step, (), STEP) for each in (agent, cloned)]
    np.testing.assert_array_equal(*(each.action for each in decisions))
    probabilities = agent.policy.probabilities(step, (), STEP)
    np.testing.assert_array_equal(np.argmax(probabilities, 1), decisions[1].action)


def test_targets_and_gradients_are_those_of_a_slow_loop():
    agent = make(
        learning_rate=Constant(0.0), loss="squared", max_gradient_norm=None, gamma=0.9
    )
    learned(agent, agent.network, 4)
    for variable in agent.target.trainable_variables:  # a target of its own
        variable.assign(variable + 0.1)
    for variable in agent.network.imitator.trainable_variables:  # clear preferences
        variable.assign(variable * 20)
    for each in agent.learner.optimizers.values():
        for variable in each.rule.variables:
            variable.assign(tf.zeros_like(variable))
    batch = rows(agent)
    before, after = (nest.map(lambda x, i=i: x[i], batch.steps) for i in (0, 1))
    mu = np.exp(agent.network.log_mu(after))
    goals, refused = [], 0
    q, slow = agent.network.values(after)[0].q, agent.target(after)[0].q
    for i, mask in enumerate(batch.mask[0]):
        allowed = mu[i] >= 0.3 * mu[i].max()
        refused += bool(mask) and not allowed[np.argmax(q[i])]
        best = int(np.argmax(np.where(allowed, q[i], -np.inf)))
        value = 0.0 if bool(after.terminated[i]) else 0.9 * float(slow[i, best])
        goals.append(float(after.reward[i]) + value)
    assert refused > 3
    metrics = agent.update(batch, 0, STEP).metrics
    np.testing.assert_allclose(
        metrics["value/target"], np.mean(np.array(goals)[batch.mask[0]]), rtol=1e-4
    )

    def loss():
        taken = tf.gather(agent.network.values(before)[0].q, batch.action[0], axis=1)
        error = goals - tf.linalg.diag_part(taken)
        return tf.reduce_mean(tf.boolean_mask(error**2 / 2, batch.mask[0]))

    assert_gradients(loss, agent.learner.optimizers["network"])


def test_the_imitator_may_be_trained_first():
    agent = make(imitator_updates=51)
    start = [x.numpy() for x in agent.network.trainable_variables]
    batch = rows(agent)
    metrics = agent.update(batch, 0, STEP).metrics  # of 50 earlier updates
    assert metrics["grad/norm"] == metrics["grad/skipped"] == 0
    changed = [
        np.any(x.numpy() != old)
        for x, old in zip(agent.network.trainable_variables, start, strict=True)
    ]
    size = len(agent.network.values.trainable_variables)
    assert not any(changed[:size]) and all(changed[size:])
    agent.update(batch, 0, STEP + 1)
    assert np.any(agent.network.trainable_variables[0].numpy() != start[0])
    for weight in agent.network.imitator.trainable_variables:
        weight.assign(weight * np.nan)
    assert agent.update(batch, 0, STEP).metrics["grad/skipped"] == 1


def test_noise_in_weights_is_refused():
    with pytest.raises(UserError, match=r"network.noisy is true.*leave it out"):
        make(**{"network.noisy": True})


def test_rows_of_one_action_are_followed(tmp_path):
    """The other action is never allowed, whatever its value is."""
    data = [x | {"action": "right"} for x in timelines.walks(40)]
    table = timelines.build(tmp_path / "data", data)
    run = tfb.train_offline(
        "bcq",
        table,
        steps=200,
        logdir=tmp_path,
        eval_every=0,
        settings={"network": {"hidden": [16]}, "imitator": {"hidden": [16]}}
        | {"histograms": False, "learning_rate": 1e-2},
    )
    action, _ = tfb.load(run.logdir).predict(np.eye(5, dtype=np.float32))
    names = sorted({*timelines.ACTIONS})
    assert {names[int(a)] for a in action} == {"right"}
