"""Tests that every algorithm of the registry must pass."""

import dataclasses
import functools
import json
import typing
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms.cases import (
    KINDS,
    OF_ROWS,
    B,
    assert_equal,
    experience,
    named,
    small,
    taught,
    update,
)
from tests.nn.cases import ACTIONS, VECTOR, make_spec, make_steps
from tfagents_batch import config, interfaces, nest, sources
from tfagents_batch.algorithms import REGISTRY
from tfagents_batch.errors import UserError
from tfagents_batch.training import alarms
from tfagents_batch.types import Trajectory

# Further cases, of another kind of actions or with options that change the update.
CASES = {
    "sac-discrete": {},
    "dqn-rainbow": {
        "target": "double",
        "n_step": 3,
        "distribution": "c51",
        "network": {"noisy": True, "dueling": True},
    },
    "sac-droq": {
        "critic": {"layer_norm": True, "dropout": 0.2},
        "num_critics": 4,
        "critics_in_target": 2,
        "actor_value": "mean",
        "policy_delay": 2,
    },
    "td3-crossq": {"critic": {"batch_renorm": True}, "quantiles": 5},
    "dqn-gru": {"network": {"core": "gru"}, "sequence_length": 6, "n_step": 2},
    "sac-lstm": {"network": {"core": "lstm"}, "sequence_length": 6},
    "td3-gru": {
        "network": {"core": "gru"},
        "sequence_length": 6,
        "stored_state": False,
        "exploration": "ou",
    },
    "pqn-lstm": {"network": {"core": "lstm"}, "normalize_return": True},
    "dqn-branches-multi_discrete": {
        "n_step": 3,
        "distribution": "c51",
        "network": {"noisy": True, "dueling": True, "core": "gru"},
        "sequence_length": 6,
    },
    "pqn-multi_binary": {"normalize_observation": True},
    "sac-parts": {
        "critic": {"batch_renorm": True},
        "policy_delay": 2,
        "n_step": 2,
        "reset_every": 1000,
    },
    "sac-lstm-parts": {"network": {"core": "lstm"}, "sequence_length": 6},
    "dqn-soft": {"target": "munchausen", "distribution": "qr", "temperature": 0.1},
    **{
        f"{name}-normalized": {"normalize_observation": True, "normalize_return": True}
        for name in ("dqn", "pqn", "td3")
    },
}
SPACES = ACTIONS | {
    "parts": gs.Dict(
        which=gs.MultiDiscrete([2, 3]), far=gs.Box(-1, 1, (2,)), bits=gs.MultiBinary(2)
    )
}
# Tests of one name follow each other, in one test process, which keeps what it learned.
pytestmark = pytest.mark.parametrize("name", [*REGISTRY, *CASES], scope="module")


def kinds_of(name):
    """Return the kinds of actions that an algorithm takes."""
    return KINDS.get(name.partition("-")[0], ("discrete", "box"))


def usual_action(name):
    given = name.rpartition("-")[2]
    return given if given in SPACES else kinds_of(name)[0]


def make(name, action=None, histograms=False):
    algorithm = name.partition("-")[0]
    keras.utils.set_random_seed(0)
    spec = make_spec(action=SPACES[action or usual_action(name)], num_envs=B)
    short = {"histograms": histograms} | ({"epochs": 2} if name == "ppo" else {})
    settings = dataclasses.replace(small(settings_of(name)), **short)
    return taught(REGISTRY[algorithm][0](settings, spec), spec)


class Learned(NamedTuple):
    """An agent after two updates, the same for all tests, which do not change it."""

    agent: interfaces.Algorithm
    trajectory: Trajectory
    everything: list  # pairs of each variable and its value at the start
    start: dict  # copies of its variables at the start, and after each update
    once: dict
    twice: dict
    metrics: dict  # of the second update


def learned(name, action=None):
    return learned_once(name, action)


@functools.cache  # for which an argument that is left out is another one than None
def learned_once(name, action):
    agent = make(name, action, histograms=action is None)
    trajectory, start = experience(agent), named(agent)
    everything = [(x, x.numpy()) for x in (*agent.variables, *agent.network.variables)]
    update(agent, trajectory, 1)
    once = named(agent)
    metrics = update(agent, trajectory, 2, step=100)
    twice = named(agent)
    return Learned(agent, trajectory, everything, start, once, twice, metrics)


@functools.cache
def another(name):
    return make(name)


def restored(name, values):
    """Return another agent, without histograms, with these variables."""
    agent = another(name)
    for key, variable in agent.learner.named_variables().items():
        variable.assign(values[key])
    return agent


def settings_of(name):
    kind = REGISTRY[name.partition("-")[0]][1]
    return config.from_dict(kind, CASES.get(name, {})).check()


def leaves(settings):
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        hint = typing.get_type_hints(type(settings))[field.name]
        if dataclasses.is_dataclass(hint):
            yield from leaves(value)
        else:
            yield field


def test_settings_are_frozen_and_documented_with_valid_defaults(name):
    settings = settings_of(name)
    assert settings.check() == settings
    text = json.dumps(config.to_dict(settings))
    assert config.from_dict(type(settings), json.loads(text)) == settings
    fields = list(leaves(settings))
    assert fields and all(field.metadata["help"] for field in fields)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(settings, fields[0].name, None)


def test_it_satisfies_the_protocol(name):
    agent = learned(name).agent
    assert isinstance(agent, interfaces.Algorithm)
    assert isinstance(agent, tf.Module)
    assert isinstance(agent.compilable, bool)
    assert isinstance(agent.policy, interfaces.Policy)
    assert isinstance(agent.policy, tf.Module)
    source = sources.REGISTRY[agent.config.source[0]]
    assert source.kind in agent.config.accepts()
    kinds = [x.__module__.split(".")[0] for x in type(agent).__subclasses__()]
    assert "tfagents_batch" not in kinds  # users may extend it


def test_tiny_returns_raise_an_alarm_unless_rewards_are_normalized(name):
    agent = learned(name).agent
    divides = getattr(agent.config, "normalize_return", False)
    rows = [row for row in agent.config.alarms() if row.name == "small_returns"]
    # Rows have no episodes, so nothing is known of their returns.
    assert len(rows) == (0 if divides or name in OF_ROWS else 1)
    if rows:
        assert raised(rows, -1e-5, 1e-4) and raised(rows, -1e-4, -1e-5)
        for least, most in ((0.0, 0.0), (-1e-5, 1.0), (-5.0, 1e-5), (8.0, 9.0)):
            assert not raised(rows, least, most)


def test_a_builder_that_returns_the_same_weights_again_is_refused(name):
    spec = make_spec(action=SPACES[usual_action(name)], num_envs=B)
    kind, settings = REGISTRY[name.partition("-")[0]][0], settings_of(name)
    layer = keras.layers.Dense(4, name="mine")
    with pytest.raises(UserError, match=r"shares .*mine.* new model"):
        kind(settings, spec, lambda *_: keras.Sequential([layer])).make_policy()
    new = kind(settings, spec, lambda *_: keras.Sequential([keras.layers.Dense(4)]))
    assert new.make_policy().network is not new.policy.network


def raised(rows, least, most):
    watch = alarms.Alarms(rows, 100, num_envs=4)
    line = {"episode/return_min": least, "episode/return_max": most}
    return any(watch.check(line, step) for step in range(0, 100, 10))


def other_action(name):
    """Return a kind of actions that no other test of an algorithm uses."""
    return "discrete" if usual_action(name) == "box" else "box"


@pytest.mark.parametrize("usual", [True, False])
def test_updates_are_finite_and_change_weights_but_not_the_version(name, usual):
    action = usual_action(name) if usual else other_action(name)
    if not usual and action not in kinds_of(name):
        with pytest.raises(UserError, match="action space"):
            make(name, action)
        return
    agent, _, _, start, _, twice, metrics = learned(name, None if usual else action)
    assert all("/" in key for key in metrics)
    for value in nest.flatten(metrics):
        assert value.dtype == tf.float32 and len(value.shape) <= 1
        assert len(value.shape) == 1 or np.isfinite(value)
    assert int(agent.policy.version) == 0  # the program counts it
    weights = [key for key in start if key.startswith("policy/network/")]
    assert any(np.any(start[key] != twice[key]) for key in weights)


def test_an_update_in_a_program_equals_an_eager_one(name):
    before = learned(name)
    agent = restored(name, before.start)
    program = functools.partial(update, agent)
    program = tf.function(program, jit_compile=agent.compilable, autograph=False)
    program(before.trajectory, tf.constant(1))
    assert_equal(named(agent), before.once, rtol=1e-4, atol=1e-5)


def test_an_agent_with_the_variables_of_another_learns_the_same(name):
    other = learned(name)
    agent = restored(name, other.once)
    update(agent, other.trajectory, 2, step=100)
    assert_equal(named(agent), other.twice)


def test_actions_and_rewards_of_restart_rows_have_no_influence(name):
    agent, trajectory = restored(name, learned(name).start), learned(name).trajectory
    masked = ~trajectory.mask
    assert np.any(masked) and not np.all(masked)
    other = nest.map(
        lambda x: tf.cast(tf.cast(x, tf.int32) == 0, x.dtype), trajectory.action
    )
    action = nest.where(masked, other, trajectory.action)
    reward = trajectory.steps.reward
    poisoned = tf.where(masked, 1e6, reward[1:])
    steps = trajectory.steps._replace(reward=tf.concat([reward[:1], poisoned], 0))
    update(agent, trajectory._replace(action=action, steps=steps), 1)
    assert_equal(named(agent), learned(name).once)


def test_all_state_is_in_its_named_variables(name):
    agent, pairs = learned(name).agent, learned(name).everything
    held = {id(variable) for variable in agent.learner.named_variables().values()}
    held.add(id(agent.policy.version))  # a run starts it at 0
    # Numbers of the settings are variables, too, but no update changes them.
    missing = [v.name for v, start in pairs if id(v) not in held and np.any(v != start)]
    assert not missing


def test_the_names_of_variables_begin_with_their_role(name):
    agent = learned(name).agent
    roles = {key.partition("/")[0] for key in agent.learner.named_variables()}
    assert roles <= {"policy", "statistics", "learner", "run"}
    acting = agent.policy.named_variables()
    assert {key.partition("/")[0] for key in acting} <= {"policy", "statistics"}
    for key, variable in acting.items():
        assert agent.learner.named_variables()[key] is variable


def test_another_policy_acts_alike_only_after_an_assignment(name):
    agent = learned(name).agent
    agent.policy.version.assign(3)  # no update depends on it
    other = agent.make_policy()
    mine, its = agent.policy.named_variables(), other.named_variables()
    assert list(mine) == list(its)
    assert not {id(x) for x in agent.variables} & {id(x) for x in other.variables}
    assert any(np.any(mine[key].numpy() != its[key].numpy()) for key in mine)
    other.assign_from(agent.policy)
    for key, variable in mine.items():
        np.testing.assert_array_equal(its[key].numpy(), variable.numpy(), err_msg=key)
    assert int(other.version) == 3


@pytest.mark.parametrize("usual", [True, False])
def test_probabilities_or_densities_are_those_of_actions_taken(name, usual):
    action = usual_action(name) if usual else other_action(name)
    if action not in kinds_of(name):  # others have too many joint actions
        return
    agent = learned(name, None if usual else action).agent
    policy, state = agent.policy, agent.policy.initial_state(B)
    step = nest.map(lambda x: x[0], make_steps(VECTOR, 1, B))
    noise = nest.map(lambda x: x[0], policy.noise((1, B), 0))
    now = tf.constant(10**6, tf.int64)  # after the warm-up
    taken, behavior, _ = policy.act(step, state, noise, now, True)

    def probabilities():
        return policy.probabilities(step, state, now)

    def log_density():
        return policy.log_density(step, state, taken, now)

    if action == "box":
        log, other = log_density(), probabilities
    elif getattr(agent.network, "noisy", False):
        return  # refused, see the tests of the policy
    else:
        found, other = probabilities(), log_density
        assert found.shape == (B, 3)
        np.testing.assert_allclose(tf.reduce_sum(found, 1), 1, rtol=1e-5)
        log = tf.math.log(tf.gather(found, taken, batch_dims=1))
    assert log.shape == (B,) and log.dtype == tf.float32
    assert np.all(np.isfinite(log))
    if "log_prob" in behavior:
        np.testing.assert_allclose(log, behavior["log_prob"], rtol=1e-5)
    with pytest.raises(UserError, match="action space is"):
        other()


def test_the_size_of_an_update_is_known_before_training(name):
    size = settings_of(name).update_size(4096)
    assert 1 <= size.rows <= 4096
    assert all(units >= 1 for units in size.hidden)
