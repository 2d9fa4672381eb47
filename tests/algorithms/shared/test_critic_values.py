"""Uses of critics, against loops from their papers: DroQ, REDQ, TQC and CrossQ."""

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms import cases
from tests.algorithms.cases import assert_gradients, at, experience, named
from tests.nn.cases import ACTIONS
from tfagents_batch import seeds
from tfagents_batch.algorithms.shared import critic_values
from tfagents_batch.errors import UserError
from tfagents_batch.nn.actor import ActorConfig
from tfagents_batch.schedules import Constant

STEP = tf.constant(5000, tf.int64)
STILL = {"learning_rate": Constant(0.0), "temperature": 0.3, "gamma": 0.9}


def make(name="sac", action=None, **settings):
    return cases.make(name, action, **{"histograms": False} | STILL | settings)


def drawn(agent, step, name):
    """Return SAC's actions and ln pi by NumPy."""
    outputs = agent.network(step)[0]
    std = np.exp(outputs["log_std"])
    noise = seeds.normal(std.shape, seeds.key(0, name)).numpy()
    action = np.tanh(outputs["mean"] + std * noise)
    log = -np.square(noise) / 2 - np.log(std * np.sqrt(2 * np.pi))
    return action, np.sum(log - np.log(1 - np.square(action)), -1)


def goals(batch, value):
    """Return the targets by values of the last states, ``[N]`` or ``[N, m]``."""
    going = np.where(batch.steps.terminated[1], 0, 0.9)
    reward = batch.steps.reward[1].numpy()
    shape = [-1] + [1] * (np.ndim(value) - 1)
    return reward.reshape(shape) + going.reshape(shape) * value


def dense(layer, x, number, mask=None):
    """Return the units of a hidden layer of one critic, by NumPy."""
    x = x @ layer.kernel.numpy()[number] + layer.bias.numpy()[number]
    if mask is not None:
        x = np.where(mask[number], 0, x / (1 - 0.3))
    if layer.norm is not None:
        mean, std = x.mean(-1, keepdims=True), x.std(-1, keepdims=True)
        x = (x - mean) / np.sqrt(std**2 + 1e-6)
    return np.maximum(x, 0)


def test_dropout_has_masks_of_its_own_in_targets_critics_and_actor():
    critic = {"dropout": 0.3, "layer_norm": True}
    agent = make(critic=critic, actor_value="mean")
    batch = experience(agent)
    size = batch.mask.shape[1]

    def value(critics, step, action, purpose):
        keys = seeds.split(seeds.key(0, f"dropout/{purpose}"), 2)
        mask = seeds.coins([2, size, 8], keys[0], 0.3).numpy()
        x = np.concatenate([step.observation, action], -1)
        layers = critics.towers.layers
        x = [dense(layers[0], x, k, mask) for k in range(2)]
        head = layers[1]
        return np.array([y @ head.kernel[k] + head.bias[k] for k, y in enumerate(x)])

    action, log = drawn(agent, at(batch, 1), "later")
    then = value(agent.targets, at(batch, 1), action, "target")[..., 0]
    goal = goals(batch, then.min(0) - 0.3 * log)
    q = value(agent.critics, at(batch, 0), batch.action[0], "critics")[..., 0]
    own, log = drawn(agent, at(batch, 0), "now")
    raised = value(agent.critics, at(batch, 0), own, "actor")[..., 0].mean(0)
    counts = batch.mask[0].numpy()
    found = agent.update(batch, 0, STEP)
    expected = np.where(counts, np.abs(goal - q).mean(0), 0)
    np.testing.assert_allclose(found.priority, expected, rtol=1e-4, atol=1e-5)
    loss = np.mean((0.3 * log - raised)[counts])
    assert float(found.metrics["loss/actor"]) == pytest.approx(loss, rel=1e-4)


def test_evaluated_critics_have_no_dropout():
    agent = make(critic={"dropout": 0.5})
    step = at(experience(agent), 0)
    action = tf.zeros([step.first.shape[0], 2])
    once, again = (agent.critics(step, action) for _ in range(2))
    np.testing.assert_array_equal(once, again)


def test_few_critics_are_in_a_target_and_other_ones_in_the_next():
    agent = make(num_critics=5, critics_in_target=2)
    batch = experience(agent)
    q = agent.critics(at(batch, 0), batch.action[0]).numpy()
    sets = set()
    for seed in range(6):
        keys = seeds.uniform([5], seeds.key(seed, "critics")).numpy()
        few = np.argsort(keys)[-2:]
        sets.add(tuple(sorted(few)))
        outputs = agent.network(at(batch, 1))[0]
        std = np.exp(outputs["log_std"])
        noise = seeds.normal(std.shape, seeds.key(seed, "later")).numpy()
        action = np.tanh(outputs["mean"] + std * noise)
        log = -np.square(noise) / 2 - np.log(std * np.sqrt(2 * np.pi))
        log = np.sum(log - np.log(1 - np.square(action)), -1)
        then = agent.targets(at(batch, 1), action).numpy()[few].min(0)
        goal = goals(batch, then - 0.3 * log)
        error = np.where(batch.mask[0], np.abs(goal - q).mean(0), 0)
        found = agent.update(batch, seed, STEP).priority
        np.testing.assert_allclose(found, error, rtol=1e-4, atol=1e-4)
    assert len(sets) > 2


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_quantiles_have_the_loss_and_gradient_of_tqc(name):
    own = {"sac": {"temperature": 0.3}, "td3": {"target_noise": None}}[name]
    agent = cases.make(
        name,
        num_critics=3,
        quantiles=4,
        dropped=1,
        actor_value="mean",
        histograms=False,
        gamma=0.9,
        learning_rate=Constant(0.0),
        **own,
    )
    batch = experience(agent)
    counts = batch.mask[0].numpy()
    after = at(batch, 1)
    if name == "sac":
        action, log = drawn(agent, after, "later")
        then, bonus = agent.targets.outputs(after, action).numpy(), 0.3 * log
    else:
        action = agent.policy.unit(after, agent._target_actor)
        then, bonus = agent._targets.outputs(after, action).numpy(), 0.0
    joined = then.transpose(1, 0, 2).reshape([-1, 12])
    kept = np.sort(joined, -1)[:, :9] - np.reshape(bonus, [-1, 1])
    goal = goals(batch, kept).astype(np.float32)

    def loss():
        outputs = agent.critics.outputs(at(batch, 0), batch.action[0])
        total = 0.0
        for k in range(3):
            for i in range(4):
                error = goal - outputs[k, :, i, tf.newaxis]
                size = tf.abs(error)
                huber = tf.where(size < 1, error**2 / 2, size - 0.5)
                side = tf.abs((i + 0.5) / 4 - tf.cast(error < 0, tf.float32))
                total += tf.reduce_mean(side * huber, -1) / 4
        return tf.reduce_mean(tf.boolean_mask(total, counts))

    expected = float(loss())
    q = agent.critics(at(batch, 0), batch.action[0]).numpy()
    found = agent.update(batch, 0, STEP)
    assert float(found.metrics["loss/critics"]) == pytest.approx(expected, rel=1e-5)
    assert_gradients(loss, agent.learner.optimizers["critics"])
    error = np.where(counts, np.abs(goal.mean(-1) - q).mean(0), 0)
    np.testing.assert_allclose(found.priority, error, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("count", [0, 1, 3, 6])
def test_the_largest_returns_have_no_probability(count, compiled):
    values = np.random.default_rng(count).integers(-2, 2, [20, 7]).astype(np.float32)
    values[0] = np.finfo(np.float32).min  # all are equal
    drop = tf.function(critic_values.without_largest, jit_compile=compiled)
    same, probability = drop(values, count)
    np.testing.assert_array_equal(same, values)
    for row, chances in zip(values, probability.numpy(), strict=True):
        kept = chances > 0
        assert sorted(row[kept]) == sorted(row)[: 7 - count]
        np.testing.assert_array_equal(chances[kept], np.float32(1 / (7 - count)))


def renormed(x, layer, counts, kept):
    """Return a batch that was normalized as in CrossQ before its warm-up."""
    mean, variance = x[counts].mean(0), x[counts].var(0)
    kept.append((0.01 * mean, 0.99 + 0.01 * variance))
    return (x - mean) / np.sqrt(variance + 1e-3)


@pytest.mark.parametrize("kind", ["box", "discrete"])
def test_states_and_next_states_are_normalized_in_one_pass_without_targets(kind):
    agent = make(action=ACTIONS[kind], critic={"batch_renorm": True})
    assert agent.targets is agent.critics
    assert not any("targets" in x for x in named(agent))
    batch = experience(agent)
    counts = np.tile(batch.mask[0], 2)
    size = batch.mask.shape[1]
    inputs = np.concatenate([batch.steps.observation[0], batch.steps.observation[1]])
    if kind == "box":
        action, log = drawn(agent, at(batch, 1), "later")
        inputs = np.concatenate([inputs, np.concatenate([batch.action[0], action])], -1)
    q, kept = [], []
    towers = agent.critics.towers
    for k in range(2):
        x = renormed(inputs, None, counts, kept)
        x = np.maximum(x @ towers.layers[0].kernel[k] + towers.layers[0].bias[k], 0)
        x = renormed(x, None, counts, kept)
        q.append(x @ towers.layers[1].kernel[k] + towers.layers[1].bias[k])
    now, then = np.split(np.array(q), 2, 1)
    if kind == "box":
        now, value = now[..., 0], then[..., 0].min(0) - 0.3 * log
    else:
        policy = tf.nn.softmax(agent.network(at(batch, 1))[0]["logits"]).numpy()
        value = np.sum(policy * (then.min(0) - 0.3 * np.log(policy)), -1)
        now = np.take_along_axis(now, batch.action.numpy()[0][None, :, None], 2)[..., 0]
    found = agent.update(batch, 0, STEP)
    error = np.abs(goals(batch, value) - now).mean(0)
    expected = np.where(counts[:size], error, 0)
    np.testing.assert_allclose(found.priority, expected, rtol=1e-3, atol=1e-4)
    for number, layer in enumerate((towers._first, towers.layers[0]._renorm)):
        for k in range(2):
            mean, variance = kept[2 * k + number]
            np.testing.assert_allclose(layer.mean[k, 0], mean, rtol=1e-3, atol=1e-5)
            np.testing.assert_allclose(layer.variance[k, 0], variance, rtol=1e-3)


def test_actor_and_temperature_move_in_every_third_update_and_targets_in_each():
    agent = cases.make("sac", policy_delay=3, histograms=False)
    batch = experience(agent)
    moved = []
    for number in range(6):
        before = named(agent)
        metrics = agent.update(batch, number, STEP).metrics
        after = named(agent)
        parts = {
            part
            for name, x in after.items()
            for part in ("policy", "log_temperature", "targets", "critics")
            if f"/{part}" in f"/{name}" and "optimizer" not in name
            if not np.array_equal(x, before[name])
        }
        moved.append(parts)
        assert float(metrics["loss/actor"].count) == (number % 3 == 2)
    assert all({"targets", "critics"} <= parts for parts in moved)
    late = [number for number, parts in enumerate(moved) if "log_temperature" in parts]
    assert late == [2, 5]


RESIDUAL = {"network.body": "residual"}


@pytest.mark.parametrize(
    ("name", "settings", "text"),
    [
        ("sac", {"critics_in_target": 3}, "but there are 2 critics"),
        ("sac", {"critics_in_target": 1, "quantiles": 5}, "leave one of the two out"),
        ("td3", {"quantiles": 2}, "nothing is left of a target"),
        ("cql", {"critic": {"dropout": 0.1}}, "CQL's loss has none of them"),
        ("sac", {"critic": {"dropout": 1.0}}, "critic.dropout"),
        ("td3", RESIDUAL | {"critic.hidden": (8, 4)}, "critic.hidden is .*equal units"),
        ("sac", RESIDUAL | {"critic.dropout": 0.1}, "critic.dropout is 0.1, but"),
    ],
)
def test_settings_that_mean_nothing_are_refused(name, settings, text):
    with pytest.raises(UserError, match=text):
        cases.make(name, **settings)


def test_residual_blocks_of_unequal_units_are_refused():
    with pytest.raises(UserError, match=r"network.hidden is \(8, 4\).*equal units"):
        ActorConfig(hidden=(8, 4), body="residual").check("network.")


def test_quantiles_of_discrete_actions_are_refused():
    with pytest.raises(UserError, match="quantiles for actions of a Box only"):
        cases.make("sac", gs.Discrete(3), quantiles=5)
