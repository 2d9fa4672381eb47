"""Several rounds in one call of a program, with sources that say what is due."""

from __future__ import annotations

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import linear
from tfagents_batch import experience, nest
from tfagents_batch.algorithms import ppo
from tfagents_batch.envs.make import make_env
from tfagents_batch.errors import UserError
from tfagents_batch.metrics import Interval, Max, Mean, Sum
from tfagents_batch.programs import program
from tfagents_batch.schedules import Linear
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.types import Collected, Updated

NEVER = 2**62  # a step that no call reaches
KINDS = {
    "linear": lambda spec: linear.Linear(
        linear.Config(learning_rate=Linear(1e-2, 0.0, 900)), spec
    ),
    "ppo": lambda spec: ppo.PPO(
        ppo.PPOConfig(minibatch_size=8, epochs=2, histograms=False), spec
    ),
}


def summary(metrics):
    interval = Interval()
    interval.add(metrics)
    return interval.summary()


@pytest.fixture(
    scope="module", params=["linear", pytest.param("ppo", marks=pytest.mark.slow)]
)
def cartpole(request):
    """Return a small compiled run, its variables, and their values at the start."""
    with make_env("tf/CartPole-v1", num_envs=2) as env:
        keras.utils.set_random_seed(0)
        agent = KINDS[request.param](env.spec)
        source = Rollout(env, agent.policy, 8, seed=0)
        training = program.build(source, agent, "full", seed=4)
        variables = program._variables(source, agent, training._step)
        variables |= {"version": agent.policy.version}
        yield (
            training,
            variables,
            {k: np.array(x.numpy()) for k, x in variables.items()},
        )


def restart(variables, start):
    for name, value in start.items():
        variables[name].assign(value)


def test_the_number_of_rounds_in_a_call_changes_no_result(cartpole):
    found, (training, variables, start) = [], cartpole
    for rounds in (1, 50):
        restart(variables, start)
        for _ in range(50 // rounds):
            training(NEVER, rounds)
        found.append({name: np.array(x.numpy()) for name, x in variables.items()})
    assert training.traces() == 1
    assert found[0]["version"] == 50
    assert found[0]["step"] > 600
    for name, value in found[0].items():
        np.testing.assert_array_equal(found[1][name], value, err_msg=name)
    weights = [name for name in start if name.startswith("policy/")]
    assert any(np.any(found[0][name] != start[name]) for name in weights)


def test_metrics_of_a_call_are_merged_over_its_rounds(cartpole):
    training, variables, start = cartpole
    restart(variables, start)
    single = [training(NEVER, 1) for _ in range(6)]
    restart(variables, start)
    merged = training(NEVER, 6)
    assert training.rounds == 6
    assert merged.keys() == single[0].keys()
    assert merged["grad/updates"].count == merged["loss/total"].count == 6
    line, lines = summary(merged), [summary(each) for each in single]
    for name, join in (("episode/count", sum), ("episode/length_min", min)):
        assert merged[name].value == join(each[name].value for each in single) > 2
    for name in ("loss/total", "policy/entropy", "env/masked", "grad/learning_rate"):
        mean = np.mean([each[name] for each in lines])
        assert line[name] == pytest.approx(mean, rel=1e-6), name
    for name, value in merged.items():
        if name.startswith("histogram/"):  # the newest of the vectors
            np.testing.assert_array_equal(value, single[-1][name])


def test_a_call_ends_at_the_given_step_or_number_of_rounds():
    training, _, _ = fake(updates=1, steps=16)
    for until, rounds in ((0, 1), (16, 1), (17, 2), (100, 7), (NEVER, 9)):
        training._step.assign(0)
        training(until, rounds=9)
        assert training.rounds == rounds
        assert training.step == 16 * rounds


# ---- updates that are due


class Source(tf.Module):
    """Says that ``updates`` are due from step ``warm_up`` on; fails at step ``void``.

    Each sample is the seed of its update, and the source adds up the priorities.
    """

    compilable = True
    envs = ()

    def __init__(self, updates, steps, warm_up, void):
        super().__init__()
        self._updates, self._steps = updates, tf.constant(steps, tf.int64)
        self._warm_up, self._void = warm_up, void
        self.priorities = tf.Variable(0.0)

    def collect(self, seed, step):
        ok = step < self._void
        due = tf.where(step >= self._warm_up, self._updates, 0)
        metrics = {"episode/count": Sum(tf.constant(1))}
        return Collected(tf.where(ok, self._steps, 0), ok, due, metrics)

    def sample(self, collected, seed, step):
        return seed

    def feedback(self, priority):
        self.priorities.assign_add(tf.reduce_sum(priority))

    def named_variables(self):
        return {"priorities": self.priorities}


class Learner(tf.Module):
    """Records the seeds and steps of its updates."""

    compilable, learner = True, None

    def __init__(self):
        super().__init__()
        self.policy = SimpleNamespace(
            version=tf.Variable(0, dtype=tf.int64, trainable=False)
        )
        self.calls = tf.Variable(tf.fill([40, 3], -1))

    def update(self, trajectory, seed, step):
        row = tf.stack([trajectory, seed, tf.cast(step, tf.int32)])
        self.calls.assign(tf.concat([self.calls[1:], row[tf.newaxis]], 0))
        metrics = {"grad/updates": 2.0, "loss/some": Mean(3.0, 1.0)}
        metrics = nest.map(tf.constant, metrics)
        metrics["loss/delay"] = Max(tf.cast(50 - abs(step - 30), tf.float32))
        return Updated(metrics, tf.constant([0.5, 1.0]))


def fake(updates, steps=10, warm_up=0, void=NEVER, compile="off"):
    source, learner = Source(updates, steps, warm_up, void), Learner()
    return program.build(source, learner, compile, seed=7), source, learner


def calls(learner):
    """Return ``(sampled seed, seed, step)`` of every update."""
    found = learner.calls.numpy()
    return found[found[:, 0] >= 0].tolist()


def test_fakes_satisfy_the_protocols():
    training, source, _ = fake(1)
    assert isinstance(source, experience.Source)
    assert isinstance(training, program.Program)


def test_a_call_without_updates_counts_them_and_has_no_other_metrics_of_them():
    training, source, learner = fake(updates=0)
    metrics = training(NEVER, rounds=3)
    assert metrics == {"episode/count": Sum(3), "grad/updates": Mean(0, 3)}
    assert calls(learner) == [] and int(learner.policy.version) == 0
    assert training.step == 30 and float(source.priorities) == 0


@pytest.mark.parametrize("compile", ["off", "full"])
def test_all_updates_that_are_due_are_made_with_different_seeds(compile):
    training, source, learner = fake(updates=4, warm_up=20, compile=compile)
    metrics = training(NEVER, rounds=5)
    found = calls(learner)
    # Two rounds warm up; schedules see the step at which a round began.
    assert [step for *_, step in found] == [20] * 4 + [30] * 4 + [40] * 4
    assert len({seed for _, seed, _ in found}) == 12
    assert all(sampled == seed for sampled, seed, _ in found)
    assert int(learner.policy.version) == 12
    assert float(source.priorities) == 12 * 1.5
    assert metrics["grad/updates"] == Mean(24, 5)
    assert metrics["loss/delay"] == Max(50)  # in the second of three rounds
    assert metrics["loss/some"] == Mean(12 * 3, 12)


def test_the_number_of_rounds_in_a_call_changes_no_line():
    """Updates are due in some of the rounds only."""
    lines, (training, _, _) = [], fake(updates=2, warm_up=70)
    for rounds in (1, 3, 20):
        training._step.assign(0)
        interval = Interval()
        while training.step < 200:
            interval.add(training(200, rounds))
        lines.append(interval.summary())
    assert lines[0] == lines[1] == lines[2]
    assert lines[0]["grad/updates"] == pytest.approx(13 * 2 * 2 / 20)


def test_seeds_of_updates_depend_on_the_step_and_not_on_the_call():
    training, _, learner = fake(updates=3)
    training(NEVER, rounds=4)
    found = calls(learner)
    training._step.assign(0)
    for _ in range(4):
        training(NEVER, rounds=1)
    assert calls(learner) == [*found, *found]


def test_a_call_ends_with_a_void_round_which_changes_nothing():
    training, _, learner = fake(updates=2, void=20)
    training(NEVER, rounds=9)
    assert training.rounds == 3 and training.step == 20
    assert len(calls(learner)) == int(learner.policy.version) == 4


@pytest.mark.parametrize(
    "returned, what",
    [({"loss/total": 0.0}, "a dict"), (None, "a NoneType"), (Updated(0.0), "metrics")],
    ids=["dict", "none", "number"],
)
def test_an_update_that_returns_something_else_is_one_line(returned, what):
    class Own(linear.Linear):
        def update(self, trajectory, seed, step):
            return returned

    with make_env("tf/CartPole-v1", num_envs=2) as env:
        own = Own(linear.Config(), env.spec)
        source = Rollout(env, own.policy, 8, seed=0)
        with pytest.raises(UserError, match=f"update returned {what}.*return Updated"):
            program.build(source, own, "off")(NEVER, 1)
