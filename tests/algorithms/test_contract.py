"""Tests that every algorithm of the registry must pass."""

import dataclasses
import json
import typing

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.cases import B, T, collect
from tests.nn.cases import ACTIONS, make_spec
from tfagents_batch import config, interfaces
from tfagents_batch.algorithms import REGISTRY

pytestmark = pytest.mark.parametrize("name", REGISTRY)


def make(name, action="discrete"):
    kind, settings = REGISTRY[name]
    keras.utils.set_random_seed(0)
    return kind(settings(), make_spec(action=ACTIONS[action], num_envs=B))


def leaves(settings):
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        hint = typing.get_type_hints(type(settings))[field.name]
        if dataclasses.is_dataclass(hint):
            yield from leaves(value)
        else:
            yield field


def test_settings_are_frozen_and_documented_with_valid_defaults(name):
    settings = REGISTRY[name][1]()
    assert settings.check() == settings
    text = json.dumps(config.to_dict(settings))
    assert config.from_dict(type(settings), json.loads(text)) == settings
    fields = list(leaves(settings))
    assert fields and all(field.metadata["help"] for field in fields)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(settings, fields[0].name, None)


def test_it_satisfies_the_protocol(name):
    agent = make(name)
    assert isinstance(agent, interfaces.Algorithm)
    assert isinstance(agent, tf.Module)
    assert isinstance(agent.compilable, bool)
    assert agent.step.dtype == tf.int64 and agent.step.shape == ()
    assert type(agent).__subclasses__() == []


@pytest.mark.parametrize("action", ["discrete", "box"])
def test_an_update_is_finite_and_counts_its_transitions(name, action):
    agent = make(name, action)
    before = [weight.numpy() for weight in agent.network.trainable_variables]
    trajectory = collect(agent)
    metrics = agent.update(trajectory, 1)
    for key, value in metrics.items():
        assert "/" in key and value.dtype == tf.float32 and len(value.shape) <= 1, key
        assert len(value.shape) == 1 or np.isfinite(value), key
    assert int(agent.step) == int(np.sum(trajectory.mask)) < T * B
    after = agent.network.trainable_variables
    assert any(np.any(a != b) for a, b in zip(before, after, strict=True))


def test_an_update_runs_under_xla_if_compilable(name):
    agent = make(name)
    update = tf.function(agent.update, jit_compile=agent.compilable, autograph=False)
    metrics = update(collect(agent), tf.constant(1))
    assert int(agent.step) > 0 and metrics


def test_all_state_is_in_its_named_variables(name):
    agent = make(name)
    agent.update(collect(agent), 1)
    held = {id(variable) for variable in agent.named_variables().values()}
    everything = [*agent.variables, *agent.network.variables]
    missing = [v.name for v in everything if id(v) not in held]
    assert not missing
    assert id(agent.step) in held
