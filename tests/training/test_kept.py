"""Which programs are kept, under which name, and what runs when one is no good."""

from __future__ import annotations

import dataclasses
import logging

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.algorithms import ppo
from tfagents_batch.training import compile_cache, kept
from tfagents_batch.training.experiment import Config
from tfagents_batch.training.exported import Exported
from tfagents_batch.training.kept import Kept
from tfagents_batch.types import EnvSpec

CONFIG = Config(env="CartPole-v1", steps=1000)


class Batch:
    """As much of an environment as a name depends on."""

    hub = 1

    def __init__(self, high=1.0, **changes):
        space = gymnasium.spaces.Box(-high, high, (3,), np.float32)
        spec = EnvSpec(2, space, gymnasium.spaces.Discrete(2), {}, 200)
        self.spec = spec._replace(**changes)


@pytest.fixture
def store(monkeypatch):
    """A store in memory, which programs may be kept in."""
    entries = {}
    monkeypatch.setattr(compile_cache, "on", lambda: True)
    monkeypatch.setattr(compile_cache, "read", entries.get)
    monkeypatch.setattr(compile_cache, "write", entries.__setitem__)
    with kept.allowed():
        yield entries


# ---- names


def test_a_program_is_kept_only_where_that_is_allowed(store):
    assert kept.name(CONFIG, Batch())
    with kept.allowed():
        assert kept.name(CONFIG, Batch())
    assert kept.name(CONFIG, Batch())


def test_a_program_is_not_kept_by_default(monkeypatch):
    monkeypatch.setattr(compile_cache, "on", lambda: True)
    assert kept.name(CONFIG, Batch()) == ""


def test_a_program_is_not_kept_without_a_cache(store, monkeypatch):
    monkeypatch.setattr(compile_cache, "on", lambda: False)
    assert kept.name(CONFIG, Batch()) == ""


@pytest.mark.parametrize("env", ["mine:Env", "./mine.py:Env", "mine:Id-v1"])
def test_a_program_is_not_kept_where_a_users_module_was_imported(store, env):
    assert kept.name(dataclasses.replace(CONFIG, env=env), Batch()) == ""


OTHERS = {
    "env": "Acrobot-v1",
    "settings": ppo.Config(epochs=3),
    "num_envs": 3,
    "rollout_length": 7,
    "update_every": 8,
    "log_info": ["x"],
    "precision": "mixed_bfloat16",
    "overlap": True,
    "compile": "full",
    "threads": 2,
}


@pytest.mark.parametrize("field", OTHERS)
def test_another_setting_is_another_program(store, field):
    other = dataclasses.replace(CONFIG, **{field: OTHERS[field]})
    assert kept.name(other, Batch()) != kept.name(CONFIG, Batch())


def test_every_setting_counts_that_is_not_named_as_none_of_it(store):
    fields = {each.name for each in dataclasses.fields(Config)}
    assert fields >= kept.ELSEWHERE
    assert not kept.ELSEWHERE & (OTHERS.keys() - {"settings"})


@pytest.mark.parametrize(
    "changes", [{"seed": 5}, {"eval_every": 10}, {"steps": 5000}, {"log_every": 10}]
)
def test_what_a_program_does_not_see_is_no_part_of_its_name(store, changes):
    other = dataclasses.replace(CONFIG, **changes)
    assert kept.name(other, Batch()) == kept.name(CONFIG, Batch())


def test_a_schedule_over_the_whole_run_depends_on_its_steps(store):
    settings = ppo.Config(learning_rate="linear(1e-3, 0)").check()
    falling = dataclasses.replace(CONFIG, settings=settings)
    longer = dataclasses.replace(falling, steps=2000)
    assert kept.name(falling, Batch()) != kept.name(longer, Batch())


@pytest.mark.parametrize(
    "batch",
    [
        Batch(high=2.0),
        Batch(num_envs=3),
        Batch(max_episode_steps=100),
        Batch(action_space=gymnasium.spaces.Discrete(3)),
    ],
)
def test_other_environments_are_another_program(store, batch):
    assert kept.name(CONFIG, batch) != kept.name(CONFIG, Batch())


def test_bounds_of_large_spaces_count_to_the_last_number(store):
    def image(last):
        high = np.ones([84, 84], np.float32)
        high[40, 40] = last
        return Batch(observation_space=gymnasium.spaces.Box(-high, high))

    assert kept.name(CONFIG, image(1.0)) != kept.name(CONFIG, image(2.0))


def test_other_source_or_versions_are_another_program(store, monkeypatch):
    before = kept.name(CONFIG, Batch())
    with monkeypatch.context() as patch:
        patch.setattr(kept, "_source", lambda: "other")
        assert kept.name(CONFIG, Batch()) != before
    with monkeypatch.context() as patch:
        patch.setattr("importlib.metadata.version", lambda name: "other")
        assert kept.name(CONFIG, Batch()) != before


# ---- programs


class Counted:
    """A program that adds its seed to a variable; it counts its runs, if traced."""

    def __init__(self):
        self.total = tf.Variable(0)
        self.variables = {"total": self.total}

        @tf.function(jit_compile=True, autograph=False)
        def traced(seed):
            self.total.assign_add(seed, read_value=False)
            return {"b": self.total.read_value(), "a": seed}

        self.traced = traced

    def kept(self):
        return Kept(self.traced, self.variables, [], "program")


def test_what_one_start_traced_the_next_does_not(store):
    first = Counted()
    program = first.kept()
    assert {k: int(v) for k, v in program(tf.constant(2)).items()} == {"b": 2, "a": 2}
    assert not program.found and list(store) == ["program"]
    second = Counted()
    program = second.kept()
    assert list(program(tf.constant(3))) == ["b", "a"]
    assert int(program(tf.constant(4))["b"]) == int(second.total) == 7
    assert program.found
    assert program.experimental_get_tracing_count() == 1
    assert second.traced.experimental_get_tracing_count() == 0
    assert int(first.total) == 2


def broken(data):
    text = Exported.from_bytes(data)
    return text._replace(module=text.module.replace("stablehlo.add", "nonsense.add"))


DAMAGES = {
    "bytes": lambda data: b"damaged",
    "text": lambda data: broken(data).to_bytes(),
    "variables": lambda data: (
        Exported.from_bytes(data)._replace(variables=["other"]).to_bytes()
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_cannot_be_used_is_traced_instead(store, damage, caplog):
    Counted().kept()(tf.constant(1))
    store["program"] = DAMAGES[damage](store["program"])
    mine = Counted()
    program = mine.kept()
    with caplog.at_level(logging.DEBUG, "tfagents_batch"):
        assert int(program(tf.constant(3))["b"]) == int(mine.total) == 3
    assert not program.found
    assert mine.traced.experimental_get_tracing_count() == 1
    assert int(program(tf.constant(3))["b"]) == 6


def test_what_is_not_suited_is_traced_and_not_kept(store):
    mine = Counted()
    program = Kept(mine.traced, {}, [], "program")
    assert int(program(tf.constant(3))["b"]) == 3
    assert not store and not program.found


def test_an_error_of_the_program_itself_is_not_hidden(store):
    @tf.function(jit_compile=True, autograph=False)
    def refused(seed):
        return {"x": tf.strings.length(tf.strings.as_string(seed))}

    with pytest.raises(tf.errors.InvalidArgumentError, match="AsString"):
        Kept(refused, {}, [], "program")(tf.constant(1))
    assert not store
