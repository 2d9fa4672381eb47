"""Distillation: labels, losses, and teachers that cannot teach."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms.cases import (
    B,
    T,
    assert_equal,
    collect,
    make,
    make_ppo,
    named,
    update,
)
from tests.nn.cases import ACTIONS, VECTOR
from tfagents_batch import nest
from tfagents_batch.errors import UserError

SPLIT = gs.Dict(position=gs.Box(-1, 1, (2,)), velocity=gs.Box(-1, 1, (3,)))
ONE_STEP = {"minibatch_size": None, "epochs": 1, "value_scale": 0.0}


def student(action="discrete", teacher="ppo", keys=(), observation=VECTOR, **settings):
    """Return a student with a teacher of another seed, and that teacher's policy."""
    space = ACTIONS[action]
    agent = make("distill", space, observation=observation, **settings)
    seen = gs.Dict({key: observation[key] for key in keys}) if keys else observation
    taught_by = make(teacher, space, observation=seen, seed=7).policy
    agent.imitation.teach(taught_by, keys, 10**6)
    return agent, taught_by


def flat(trajectory):
    first = nest.map(lambda x: x[:-1], trajectory.steps)
    return nest.fold(first._replace(info={}))


def distribution(policy, step):
    return policy.distribution(step, policy.initial_state(step.first.shape[0]))


def masked_mean(x, trajectory):
    mask = nest.fold(trajectory.mask).numpy()
    assert 0 < mask.sum() < mask.size
    return np.mean(np.asarray(x)[mask])


@pytest.mark.parametrize("action", ["discrete", "multi_discrete", "box"])
def test_the_loss_is_the_kl_from_the_teacher_to_the_student(action):
    agent, teacher = student(action, loss="kl", **ONE_STEP)
    trajectory = collect(agent)
    its, own = (distribution(x, flat(trajectory)) for x in (teacher, agent.policy))
    if action == "discrete":  # written out
        p, q = (np.float64(tf.nn.softmax(x.logits)) for x in (its, own))
        kl = np.sum(p * np.log(p / q), -1)
    elif action == "box":
        (m, s), (n, t) = ((np.float64(x.mean), np.float64(x.std)) for x in (its, own))
        kl = np.sum(np.log(t / s) + (s**2 + (m - n) ** 2) / (2 * t**2) - 0.5, -1)
    else:
        kl = its.kl(own)
    loss = update(agent, trajectory, 1)["loss/policy"]
    np.testing.assert_allclose(loss, masked_mean(kl, trajectory), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("teacher", ["ppo", "sac", "td3"])
def test_the_loss_is_the_squared_error_of_the_mean_action(teacher):
    agent, taught_by = student("box", teacher, **ONE_STEP)
    trajectory = collect(agent)
    step, now = flat(trajectory), tf.constant(10**6, tf.int64)
    state = taught_by.initial_state(T * B)
    action = np.float64(taught_by.act(step, state, (), now, False)[0])
    error = np.mean(
        (np.float64(distribution(agent.policy, step).mean) - action) ** 2, -1
    )
    loss = update(agent, trajectory, 1)["loss/policy"]
    np.testing.assert_allclose(loss, masked_mean(error, trajectory), rtol=1e-5)


def test_a_teacher_of_values_labels_by_its_probabilities():
    agent, teacher = student(teacher="dqn", **ONE_STEP)
    trajectory = collect(agent)
    step, now = flat(trajectory), tf.constant(10**6, tf.int64)
    p = np.float64(teacher.probabilities(step, teacher.initial_state(T * B), now))
    q = np.float64(tf.nn.softmax(distribution(agent.policy, step).logits))
    assert np.any(p > 0.9)
    loss = update(agent, trajectory, 1)["loss/policy"]
    kl = np.sum(p * np.log(p / q), -1)
    np.testing.assert_allclose(loss, masked_mean(kl, trajectory), rtol=1e-4)


@pytest.mark.parametrize(("action", "core"), [("discrete", "gru"), ("box", "none")])
def test_a_student_that_sees_less_comes_closer_and_its_teacher_stays(action, core):
    keys = "position", "velocity"
    options = {"actor_keys": ("position",), "network.core": core, "epochs": 5}
    options |= {"learning_rate": 1e-2, "minibatch_size": 24}
    agent, teacher = student(action, "ppo", keys, SPLIT, **options)
    trajectory, before = collect(agent, SPLIT), named(teacher)
    program = tf.function(functools.partial(update, agent, trajectory), autograph=False)
    losses = [program(tf.constant(seed))["loss/policy"] for seed in range(5)]
    assert losses[-1] < 0.9 * losses[0]
    assert_equal(named(teacher), before)


def test_rewards_have_no_influence_on_the_policy_of_a_student():
    (agent, _), (other, _) = (student(max_gradient_norm=None) for _ in range(2))
    trajectory = collect(agent)
    steps = trajectory.steps._replace(reward=trajectory.steps.reward * -3)
    update(agent, trajectory, 1)
    update(other, trajectory._replace(steps=steps), 1)
    one, two = (x.network.body for x in (agent, other))
    for x, y in zip(
        one.policy_tower.variables, two.policy_tower.variables, strict=True
    ):
        np.testing.assert_array_equal(x, y)
    (x, _), (y, _) = (body.value_head.variables for body in (one, two))
    assert np.any(x != y)


@pytest.mark.parametrize(
    ("action", "teacher", "options", "text"),
    [
        ("box", "sac", {"loss": "kl"}, "has no KL with the student's .*squared_error"),
        ("box", "ppo", {"loss": "kl", "network.squash": True}, "same .*squash"),
        ("discrete", "ppo", {"loss": "squared_error"}, "squared_error, but .*loss=kl"),
        ("multi_discrete", "dqn", {}, "has no KL .*use a teacher of ppo, a2c"),
    ],
)
def test_a_teacher_that_cannot_teach_is_refused(action, teacher, options, text):
    with pytest.raises(UserError, match=text):
        student(action, teacher, **options)


def test_a_teacher_has_no_memory_and_a_student_needs_one():
    agent, _ = student()
    recurrent = make("ppo", **{"network.core": "gru"}).policy
    with pytest.raises(UserError, match=r"has a memory, .*network\.core=none"):
        agent.imitation.teach(recurrent, (), 0)
    alone = make("distill")
    alone.imitation._teacher = None
    with pytest.raises(UserError, match="the student has no teacher"):
        update(alone, collect(alone), 1)


def test_ppo_has_no_teacher():
    assert make_ppo().imitation is None
