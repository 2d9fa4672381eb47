"""The store of programs: conditions, names and unusable entries."""

from __future__ import annotations

import dataclasses
import os

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.algorithms import ppo
from tfagents_batch.config import marked
from tfagents_batch.errors import EnvError
from tfagents_batch.sources import rollout_settings
from tfagents_batch.training.compilation import compile_cache, program_store, stablehlo
from tfagents_batch.training.compilation.program_store import StoredProgram
from tfagents_batch.training.compilation.stablehlo import Exported
from tfagents_batch.training.config import RunConfig
from tfagents_batch.types import EnvSpec

CONFIG = RunConfig(env="CartPole-v1", steps=1000)


class Batch:
    """The parts of an environment that a name depends on."""

    hub = 1

    def __init__(self, high=1.0, **changes):
        space = gymnasium.spaces.Box(-high, high, (3,), np.float32)
        spec = EnvSpec(2, space, gymnasium.spaces.Discrete(2), {}, 200)
        self.spec = spec._replace(**changes)


@pytest.fixture
def store(monkeypatch):
    """A store in memory, with storing allowed."""
    entries = {}
    monkeypatch.setattr(compile_cache, "read", entries.get)
    monkeypatch.setattr(compile_cache, "write", entries.__setitem__)
    with program_store.allow_storing():
        yield entries


# ---- names


def name(config, batch):
    return program_store.name(config, batch.spec, [batch])


def test_a_program_is_stored_only_while_that_is_allowed():
    assert name(CONFIG, Batch()) == ""
    with program_store.allow_storing():
        with program_store.allow_storing():
            assert name(CONFIG, Batch())
        assert name(CONFIG, Batch())
    assert name(CONFIG, Batch()) == ""


@pytest.mark.parametrize("env", ["mine:Env", "./mine.py:Env", "mine:Id-v1"])
def test_a_program_is_not_stored_if_a_users_module_was_imported(store, env):
    assert name(dataclasses.replace(CONFIG, env=env), Batch()) == ""


OTHERS = {
    "env": "Acrobot-v1",
    "settings": ppo.PPOConfig(epochs=3),
    "num_envs": 3,
    "source": rollout_settings.RolloutSettings(length=7),
    "log_info": ["x"],
    "precision": "mixed_bfloat16",
    "overlap": True,
    "compile": "full",
    "threads": 2,
}


@pytest.mark.parametrize("field", OTHERS)
def test_a_different_setting_changes_the_name(store, field):
    other = dataclasses.replace(CONFIG, **{field: OTHERS[field]})
    assert name(other, Batch()) != name(CONFIG, Batch())


def test_settings_that_change_the_name_are_not_marked_as_same_program():
    assert not {*marked(RunConfig, "same_program")} & OTHERS.keys()


@pytest.mark.parametrize(
    "changes",
    [
        *({"seed": 5}, {"eval_every": 10}, {"steps": 5000}, {"log_every": 10}),
        {"settings": ppo.PPOConfig(learning_rate=0.1, clip_ratio=0.3).check()},
    ],
)
def test_settings_that_a_program_does_not_use_do_not_change_its_name(store, changes):
    other = dataclasses.replace(CONFIG, **changes)
    assert name(other, Batch()) == name(CONFIG, Batch())


def test_the_kind_of_a_schedule_changes_the_name_but_not_its_numbers(store):
    def of(schedule, steps=1000):
        settings = ppo.PPOConfig(learning_rate=schedule).check()
        return name(
            dataclasses.replace(CONFIG, settings=settings, steps=steps), Batch()
        )

    falling = of("linear(1e-3, 0)")
    assert falling == of("linear(2e-3, 1e-5)", steps=2000)
    assert falling not in (of("1e-3"), of("piecewise(0: 1e-3, 50: 0)"))
    assert of("piecewise(0: 1e-3, 50: 0)") != of("piecewise(0: 1e-3, 50: 0, 60: 1)")


@pytest.mark.parametrize(
    "batch",
    [
        Batch(high=2.0),
        Batch(num_envs=3),
        Batch(max_episode_steps=100),
        Batch(action_space=gymnasium.spaces.Discrete(3)),
    ],
)
def test_different_environments_change_the_name(store, batch):
    assert name(CONFIG, batch) != name(CONFIG, Batch())


def test_every_bound_of_a_large_space_changes_the_name(store):
    def image(last):
        high = np.ones([84, 84], np.float32)
        high[40, 40] = last
        return Batch(observation_space=gymnasium.spaces.Box(-high, high))

    one, other = (name(CONFIG, image(high)) for high in (1.0, 2.0))
    assert one != other


def test_different_source_or_versions_change_the_name(store, monkeypatch):
    before = name(CONFIG, Batch())
    with monkeypatch.context() as patch:
        patch.setattr(program_store, "_source", lambda: "other")
        assert name(CONFIG, Batch()) != before
    with monkeypatch.context() as patch:
        patch.setattr(gymnasium, "__version__", "other")
        assert name(CONFIG, Batch()) != before


def source(folder, monkeypatch):
    """Return the hash of a package of one file and an editor's lock file."""
    (folder / "training").mkdir()
    (folder / ".#lock.py").symlink_to("nowhere")
    (folder / "module.py").write_text("")
    path = folder / "training/compilation/program_store.py"
    monkeypatch.setattr(program_store, "__file__", str(path))
    os.utime(folder / "module.py", (1000, 1000))
    return program_store._source.__wrapped__()


def test_the_source_hash_depends_on_the_content_of_files(tmp_path, monkeypatch):
    before = source(tmp_path, monkeypatch)
    (tmp_path / "module.py").write_text("changed")
    os.utime(tmp_path / "module.py", (1000, 1000))
    assert program_store._source.__wrapped__() != before


def test_a_program_is_not_stored_if_its_source_changed(tmp_path, monkeypatch):
    source(tmp_path, monkeypatch)
    (tmp_path / "module.py").write_text("changed")
    monkeypatch.setattr(program_store, "_source", program_store._source.__wrapped__)
    with program_store.allow_storing():
        assert name(CONFIG, Batch()) == ""


# ---- programs


class Counted:
    """A program that adds its seed to a variable."""

    def __init__(self):
        self.total = tf.Variable(0)
        self.variables = {"total": self.total}

        @tf.function(jit_compile=True, autograph=False)
        def traced(seed):
            self.total.assign_add(seed, read_value=False)
            return {"b": self.total.read_value(), "a": seed}

        self.traced = traced

    def stored(self):
        return StoredProgram(self.traced, self.variables, [], "program")


def test_the_next_start_does_not_trace_a_stored_program(store):
    first = Counted()
    program = first.stored()
    assert {k: int(v) for k, v in program(tf.constant(2)).items()} == {"b": 2, "a": 2}
    assert program.origin == {"program": "traced"} and list(store) == ["program"]
    second = Counted()
    program = second.stored()
    assert list(program(tf.constant(3))) == ["b", "a"]
    assert int(program(tf.constant(4))["b"]) == int(second.total) == 7
    assert program.origin == {"program": "kept"}
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
def test_an_unusable_entry_is_replaced(store, damage):
    Counted().stored()(tf.constant(1))
    whole = store["program"]
    store["program"] = DAMAGES[damage](whole)
    mine = Counted()
    program = mine.stored()
    assert int(program(tf.constant(3))["b"]) == int(mine.total) == 3
    assert program.origin == {"program": "traced"}
    assert mine.traced.experimental_get_tracing_count() == 1
    assert int(program(tf.constant(3))["b"]) == 6
    assert len(store["program"]) == len(whole)


def test_a_program_that_cannot_be_exported_is_traced_and_not_stored(store):
    mine = Counted()
    program = StoredProgram(mine.traced, {}, [], "program")
    assert int(program(tf.constant(3))["b"]) == 3
    assert int(program(tf.constant(3))["b"]) == 6
    assert not store
    assert program.origin == {
        "program": "traced",
        "not_kept": "it uses more than the variables that have names",
    }


def test_a_text_that_xla_cannot_read_is_traced_and_not_stored(store, monkeypatch):
    export = stablehlo.export

    def wrong(*arguments):
        return broken(export(*arguments).to_bytes())

    monkeypatch.setattr(stablehlo, "export", wrong)
    mine = Counted()
    program = mine.stored()
    assert int(program(tf.constant(3))["b"]) == int(mine.total) == 3
    assert program.origin["not_kept"] == "XLA cannot read its text"
    assert not store


class Faulty:
    """An environment that failed in the first program."""

    def __init__(self):
        self.faults = [EnvError("it broke")]

    def check(self):
        if self.faults:
            raise self.faults.pop()


def test_a_fault_in_the_first_iteration_is_raised_and_nothing_is_stored(store):
    mine = Counted()
    program = StoredProgram(mine.traced, mine.variables, [Faulty()], "program")
    with pytest.raises(EnvError):
        program(tf.constant(1))
    assert not store
    assert int(program(tf.constant(1))["b"]) == 2
    assert list(store) == ["program"]


def test_an_error_of_the_program_itself_is_not_hidden(store):
    @tf.function(jit_compile=True, autograph=False)
    def refused(seed):
        return {"x": tf.strings.length(tf.strings.as_string(seed))}

    with pytest.raises(tf.errors.InvalidArgumentError, match="AsString"):
        StoredProgram(refused, {}, [], "program")(tf.constant(1))
    assert not store
