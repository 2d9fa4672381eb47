"""DQN: targets, exploration, priorities, and runs from the start to a resume."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.algorithms import cases
from tests.algorithms.cases import (
    assert_equal,
    assert_gradients,
    experience,
    named,
    variables,
)
from tfagents_batch import nest
from tfagents_batch.algorithms import dqn
from tfagents_batch.devices import machine
from tfagents_batch.errors import UserError
from tfagents_batch.nn import q_network
from tfagents_batch.schedules import Constant, Linear, Piecewise
from tfagents_batch.training.log.logger import read_metrics

STEP = tf.constant(5000, tf.int64)


def make(*action, **settings):
    return cases.make("dqn", *action, **settings)


@pytest.mark.parametrize(
    ("warmup", "steps", "epsilon"),
    [("auto", 7, 1.0), ("random", 7, 1.0), ("policy", 0, 0.05)],
)
def test_a_policy_that_acts_in_the_warm_up_has_explored(warmup, steps, epsilon):
    schedules = {"temperature": Linear(3.0, 0.5, 100)}
    settings = dqn.DQNConfig(warmup=warmup, warmup_steps=7, **schedules)
    assert settings.random_steps == steps
    ends = settings.begun(settings.temperature), settings.begun(Linear(1.0, 0.05, 100))
    assert [float(x(0)) for x in ends] == pytest.approx(
        [0.5 if steps == 0 else 3.0, epsilon]
    )
    points = Piecewise(((0, 2.0), (5, 1.0)))
    assert float(settings.begun(points)(0)) == (2.0 if steps else 1.0)
    policy = make(warmup=warmup, warmup_steps=7, epsilon=Linear(0.9, 0.05, 100)).policy
    assert float(policy.epsilon(0)) == pytest.approx(epsilon)


def values(network, observation):
    return network.body(observation, training=False)[..., 0].numpy()


def log_policy(q, temperature=0.03):
    scaled = (q - np.max(q)) / temperature
    return scaled - np.log(np.sum(np.exp(scaled)))


@pytest.mark.parametrize(
    ("target", "terminate", "n"),
    [
        *(("max", False, 1), ("max", True, 3), ("double", True, 1)),
        *(("double", False, 3), ("sarsa", True, 1), ("sarsa", False, 3)),
        *(("munchausen", False, 1), ("munchausen", True, 3)),
    ],
)
def test_errors_and_gradients_are_those_of_a_slow_loop(target, terminate, n):
    agent = make(
        target=target,
        n_step=n,
        gamma=0.9,
        learning_rate=Constant(0.0),
        loss="squared",
        max_gradient_norm=None,
    )
    for variable in agent.target.trainable_variables:  # a target of its own
        variable.assign(variable + 0.1)
    batch = experience(agent, terminate=terminate)
    first = batch.steps.first.numpy()
    first[-1, ::3] = True  # some follow no step: collecting broke off before them
    batch = batch._replace(steps=batch.steps._replace(first=tf.constant(first)))
    steps, mask = batch.steps, batch.mask.numpy()
    learned = [values(agent.network, x) for x in steps.observation]
    slow = [values(agent.target, x) for x in steps.observation]
    goals, expected = [], []
    for i in range(mask.shape[1]):
        total, factor, t = 0.0, 1.0, 0
        while t < n and mask[t, i]:
            total += factor * float(steps.reward[t + 1, i])
            if target == "munchausen":
                log = 0.03 * log_policy(slow[t][i])[int(batch.action[t, i])]
                total += factor * 0.9 * max(log, -1.0)
            factor *= 0.0 if bool(steps.terminated[t + 1, i]) else 0.9
            t += 1
        chooser = learned if target == "double" else slow
        best = int(np.argmax(chooser[t][i]))
        counts = mask[0, i]
        if target == "sarsa":
            best = int(batch.action[t, i])
            counts &= bool(steps.last[t, i]) or not first[t + 1, i]
        value = slow[t][i][best]
        if target == "munchausen":
            log = log_policy(slow[t][i])
            value = np.sum(np.exp(log) * (slow[t][i] - 0.03 * log))
        goal = total + factor * value
        error = goal - learned[0][i][int(batch.action[0, i])]
        goals.append(goal)
        expected.append(abs(error) if counts else np.nan)
    updated = agent.update(batch, 0, STEP)
    counted = np.isfinite(expected)
    error, expected = np.nanmean(expected), np.nan_to_num(expected)
    np.testing.assert_allclose(updated.priority, expected, rtol=1e-4, atol=1e-5)
    assert float(updated.metrics["value/td_error"]) == pytest.approx(error, rel=1e-4)

    def loss():  # targets are numbers: no gradient flows into them
        q = agent.network(nest.map(lambda x: x[0], steps))[0].q
        error = goals - tf.gather(q, batch.action[0], batch_dims=1)
        return tf.reduce_mean(tf.boolean_mask(error**2 / 2, counted))

    assert_gradients(loss, agent.learner.optimizers["network"])


def test_a_batch_without_a_transition_keeps_the_weights():
    agent = make()
    batch = experience(agent)
    nothing = batch._replace(steps=batch.steps._replace(first=batch.steps.first | True))
    before = named(agent)
    agent.update(nothing, 0, STEP)
    after = named(agent)
    for name, value in before.items():
        if name.startswith("policy/"):
            np.testing.assert_array_equal(after[name], value, err_msg=name)


def test_the_target_network_gets_no_gradient_and_follows_every_n_updates():
    agent = make(target_every=3, target_tau=1.0)
    start = [x.numpy() for x in agent.target.trainable_variables]
    batch = experience(agent)
    for _ in range(2):
        agent.update(batch, 0, STEP)
    for before, now in zip(start, agent.target.trainable_variables, strict=True):
        np.testing.assert_array_equal(now, before)
    agent.update(batch, 0, STEP)
    pairs = zip(agent.target.variables, agent.network.variables, strict=True)
    for target, learned in pairs:
        np.testing.assert_array_equal(target, learned)


def test_importance_weights_scale_the_loss():
    one, two = make(), make()
    batch = experience(one)
    loss = one.update(batch, 0, STEP).metrics["loss/td"]
    twice = two.update(batch._replace(weight=2 * batch.weight), 0, STEP)
    assert float(twice.metrics["loss/td"]) == pytest.approx(2 * float(loss), rel=1e-5)


def train(folder, **options):
    """Train with options that replay, target and network have together."""
    settings = cases.RUNS["dqn"]["settings"] | {"target": "double", "n_step": 3}
    settings["reset_every"] = 10  # before and after the stop
    settings["network"] = {"hidden": [8], "dueling": True}
    # A beta that depends on the number of steps would differ in a stopped run.
    replay = {"capacity": 200, "prioritized": True, "beta": 0.5}
    common = {"settings": settings, "replay": replay, "log_every": 50}
    return cases.train("dqn", folder, **common | options)


@pytest.mark.parametrize(
    "options, text",
    [
        ({"steps": 100}, r"warmup_steps is 100, but the run has 100 steps"),
        ({"replay": {"capacity": 15}}, r"capacity is 15; expected at least"),
        ({"replay": {"capacity": 10**12}}, r"replay needs .*smaller capacity"),
        ({"replay": {"stack": 3}}, r"stack"),
        ({"overlap": True}, r"overlap is true.*leave overlap out"),
        ({"rollout.length": 8}, r"rollout.length is a setting of.*'rollout'.*replay"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_a_run_folder_exists(
    tmp_path, options, text
):
    with pytest.raises(UserError, match=text):
        train(tmp_path, **{"steps": 400, **options})
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    return train(tmp_path_factory.mktemp("straight"), steps=300, compile="off")


def test_a_run_logs_updates_only_after_the_warmup(straight):
    lines = [line for line in read_metrics(straight.logdir) if "env/masked" in line]
    early = [line for line in lines if line["step"] <= 100]
    late = [line for line in lines if line["step"] > 110]
    assert early and all("loss/td" not in line for line in early)
    assert late and all(np.isfinite(line["loss/td"]) for line in late)
    assert all(line["replay/size"] <= 200 for line in lines)
    assert all(line["replay/priority_max"] > 0 for line in late)


def test_a_stopped_and_resumed_run_equals_a_straight_one(straight, tmp_path):
    stopped = train(tmp_path, steps=150, compile="off")
    resumed = tfb.train(resume=stopped.logdir, steps=300)
    assert resumed.step == straight.step > stopped.step
    assert_equal(variables(resumed), variables(straight))


def test_playing_an_agent_needs_no_memory_for_a_replay(straight, monkeypatch):
    monkeypatch.setattr(machine, "available_bytes", lambda: 2**20)
    result = tfb.evaluate(straight.logdir, episodes=4)
    assert result.mean_return > 0


def test_settings_are_checked_by_name():
    with pytest.raises(UserError, match=r"unknown network.activation .reluu.; did you"):
        dqn.DQNConfig(network=q_network.QConfig(activation="reluu")).check()
    assert dataclasses.replace(dqn.DQNConfig(), n_step=2).check().n_step == 2
