from __future__ import annotations

import dataclasses
import json
import re
from typing import Any, Literal

import numpy as np
import pytest
from absl import flags

from tfagents_batch import config
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.schedules import Constant, Linear, Schedule
from tfagents_batch.settings import parsing
from tfagents_batch.sources.rollout_settings import RolloutSettings
from tfagents_batch.training.config import RunConfig


@dataclasses.dataclass(frozen=True)
class Network:
    hidden: tuple[int, ...] | None = option(None, "units of each layer")
    activation: str = option("tanh", "activation of the hidden layers")


@dataclasses.dataclass(frozen=True)
class Settings:
    epochs: int = option(10, "passes over a trajectory")
    gamma: float = option(0.99, "discount factor per step")
    learning_rate: Schedule = option(Constant(3e-4), "step size")
    clip: float | None = option(0.5, "largest norm")
    normalize: bool = option(True, "by streaming moments")
    objective: Literal["clip", "kl"] = option("clip", "what bounds the update")
    sizes: tuple[int, ...] = option((64, 64), "of things")
    network: Network = option(Network(), "shape of the network")


@dataclasses.dataclass(frozen=True)
class Experiment:
    algorithm: str = option("ppo", "name of the algorithm")
    steps: int = option(1_000_000, "environment steps")
    workers: int | None = option(None, "processes")
    env_kwargs: dict = option({}, "JSON object")
    wrappers: list = option([], "JSON list")
    debug: bool = option(False, "show tracebacks")
    settings: Any = option(None, "has no flag")


PARTS = [(Experiment, ""), (Settings, "algorithm")]


def through_json(settings):
    text = json.dumps(config.to_dict(settings))
    return config.from_dict(type(settings), json.loads(text))


def parse(*argv):
    run, given = parsing.parse(argv, PARTS)
    return config.replace(Experiment(), run), config.replace(Settings(), given)


# ---- flags


def test_without_flags_every_setting_keeps_its_default():
    assert parse() == (Experiment(), Settings())


@pytest.mark.parametrize(
    "argument, changed",
    [
        ("--algorithm.epochs=3", {"epochs": 3}),
        ("--algorithm.epochs=1e6", {"epochs": 1_000_000}),
        ("--algorithm.epochs=1_000_000", {"epochs": 1_000_000}),
        ("--algorithm.epochs=2.50e1", {"epochs": 25}),
        ("--algorithm.epochs=-3", {"epochs": -3}),
        ("--algorithm.gamma=1", {"gamma": 1.0}),
        ("--algorithm.gamma=1e-3", {"gamma": 0.001}),
        ("--algorithm.learning_rate=1e-3", {"learning_rate": Constant(1e-3)}),
        ("--algorithm.learning_rate=linear(1, 0)", {"learning_rate": Linear(1, 0)}),
        ("--algorithm.clip=none", {"clip": None}),
        ("--algorithm.clip=2", {"clip": 2.0}),
        ("--algorithm.normalize", {"normalize": True}),
        ("--algorithm.normalize=false", {"normalize": False}),
        ("--noalgorithm.normalize", {"normalize": False}),
        ("--algorithm.objective=kl", {"objective": "kl"}),
        ("--algorithm.sizes=8", {"sizes": (8,)}),
        ("--algorithm.sizes=8, 16", {"sizes": (8, 16)}),
        ("--algorithm.sizes=", {"sizes": ()}),
        ("--algorithm.network.hidden=8,8", {"network.hidden": (8, 8)}),
        ("--algorithm.network.activation=--x=y", {"network.activation": "--x=y"}),
    ],
)
def test_a_flag_changes_its_setting_and_nothing_else(argument, changed):
    run, settings = parse(argument)
    assert run == Experiment()
    assert settings == config.replace(Settings(), changed)


def test_values_may_follow_their_flag_and_may_be_negative():
    arguments = "--steps", "-5", "--algorithm", "dqn", "--algorithm.epochs", "2"
    run, settings = parse(*arguments, "--debug")
    assert (run.steps, run.algorithm, run.debug) == (-5, "dqn", True)
    assert settings.epochs == 2


def test_lists_and_objects_are_json_in_flags_files_and_help():
    wrappers = '--wrappers=["a", {"name": "b", "n": [1, 2]}]'
    run, _ = parse(wrappers, '--env_kwargs={"a": [1, 2.5], "b": {"c": null}}')
    assert run.env_kwargs == {"a": [1, 2.5], "b": {"c": None}}
    assert run.wrappers == ["a", {"name": "b", "n": [1, 2]}]
    assert through_json(run) == run
    assert config.replace(run, {"wrappers": ("a",)}).wrappers == ["a"]
    text = parsing.help_text([(run, "")])
    assert '--wrappers=["a", {"name": "b", "n": [1, 2]}]' in text


def test_only_flags_that_were_given_override():
    preset = dataclasses.replace(Experiment(), steps=7)
    assert parsing.parse(["--workers=1"], [(preset, "")]) == [{"workers": 1}]
    assert "--steps=7  (int)\n" in parsing.help_text([(preset, "")])


def test_flags_can_be_added_to_those_of_an_absl_program():
    values = flags.FlagValues()
    flags.DEFINE_integer("port", 80, "port of a server", flag_values=values)
    parsing.define_flags(values, Settings, "algorithm")
    argv = ["program", "--port=81", "--algorithm.epochs=1e3", "--noalgorithm.normalize"]
    assert values(argv) == ["program"]
    assert values.port == 81
    given = parsing.overrides(values, Settings, "algorithm")
    assert given == {"epochs": 1000, "normalize": False}
    with pytest.raises(flags.IllegalFlagValueError, match="expected a whole number"):
        values(["program", "--algorithm.epochs=2.5"])


REFUSED = {
    "--algorithm.epochs=2.5": "--algorithm.epochs=2.5: expected a whole number",
    "--algorithm.gamma=nan": "--algorithm.gamma=nan: expected a number",
    "--algorithm.learning_rate=linear(1)": "linear(start, end, steps)",
    "--algorithm.clip=some": "expected a number, or none",
    "--algorithm.normalize=maybe": "normalize=maybe: expected true or false",
    "--algorithm.objective=cilp": "objective=cilp: expected clip or kl",
    "--algorithm.sizes=8,x": "a comma-separated list, each a whole number",
    "--env_kwargs=[1]": "--env_kwargs=[1]: expected a JSON object",
    f"--wrappers={'[' * 60}{']' * 60}": "it is nested too deep",
    f"--wrappers={'[' * 9999}": "it is nested too deep",
    "--wrappers=[NaN]": "cannot be written as JSON",
    "--env_kwargs={a: 1}": "expected a JSON object (Expecting",
    "--wrappers=x": """ (char 0)), such as '["TimeAwareObservation"]'""",
    '--env_kwargs={"a": NaN}': "cannot be written as JSON",
    '--env_kwargs={"a": 1, "a": 2}': "a key is given twice",
    "--noalgorithm.normalize=true": "did you mean --algorithm.normalize?",
    "--algorithm.epoch=3": "unknown flag --algorithm.epoch; did you mean "
    "--algorithm.epochs?",
    "--epochs=3": "did you mean --algorithm.epochs?",
    "--noalgorithm.epochs": "unknown flag --noalgorithm.epochs",
    "--xyzzy": "unknown flag --xyzzy; --help lists all flags",
    "--settings=1": "unknown flag --settings",
    "train": "stray argument 'train'; flags are written --name=value",
    "--": "stray argument '--'",
    "-steps=3": "stray argument '-steps=3'; flags are written --name=value",
    "--steps": "--steps needs a value; write --steps=<value>",
    ("--steps=1", "--steps=1"): "--steps is given twice",
    ("--debug", "--nodebug"): "--debug is given twice",
    ("--debug", "false"): "stray argument 'false'",
}


@pytest.mark.parametrize("argument", REFUSED)
def test_wrong_arguments_are_refused_by_name(argument):
    arguments = argument if isinstance(argument, tuple) else [argument]
    with pytest.raises(UserError, match=re.escape(REFUSED[argument])) as caught:
        parse(*arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "argv, expected",
    [
        ([], None),
        (["--config=a"], "a"),
        (["--x", "--config", "a"], "a"),
        (["--config="], ""),
        (["--config.x=1", "--configs=2"], None),
        (["--config=a=b"], "a=b"),
    ],
)
def test_peek_finds_one_flag_before_the_others_are_known(argv, expected):
    assert parsing.peek(argv, "config") == expected


@pytest.mark.parametrize("argv", [["--config"], ["--config", "--steps=3"]])
def test_peek_refuses_a_flag_without_value(argv):
    with pytest.raises(UserError, match="--config needs a value"):
        parsing.peek(argv, "config")


def test_help_lists_every_flag_with_its_default_in_groups():
    text = parsing.help_text(PARTS)
    general, algorithm, network = text.split("\n\n")
    assert general.startswith(
        "general flags, with their defaults:\n  --algorithm=ppo  (str)\n"
    )
    assert "  --steps=1000000  (int)\n      environment steps\n" in general
    normalize = "  --algorithm.normalize=true  (bool)\n      by streaming moments"
    assert normalize in algorithm
    assert "  --algorithm.learning_rate=0.0003  (schedule)\n" in algorithm
    assert "  --algorithm.sizes=64,64  (int,...)\n" in algorithm
    assert "  --algorithm.network.hidden=none  (int,...)\n" in network
    assert max(map(len, text.splitlines())) <= 88
    for name in config.flat(config.to_dict(Settings())):
        assert f"  --algorithm.{name}=" in text


def test_the_help_has_groups_that_subclasses_need_not_repeat():
    @dataclasses.dataclass(frozen=True)
    class Base:
        rate: float = option(1.0, "rate", group="optimizer")
        gamma: float = option(0.9, "discount")

    @dataclasses.dataclass(frozen=True)
    class Derived(Base):
        rate: float = option(2.0, "another rate")

    first, second = parsing.help_text([(Derived, "algorithm")]).split("\n\n")
    assert first.startswith("algorithm flags") and "--algorithm.gamma=0.9" in first
    assert second.startswith("algorithm optimizer flags") and "rate=2.0" in second


# ---- replace


def test_replace_takes_dotted_names_nested_dicts_and_configs():
    expected = Settings(network=Network(hidden=(8,)), epochs=2)
    for change in (
        {"network.hidden": [8], "epochs": 2},
        {"network": {"hidden": (8,)}, "epochs": 2.0},
        {"network": Network(hidden=(8,)), "epochs": np.int32(2)},
        {"network.hidden": (8,), "network.activation": "tanh", "epochs": 2},
        {"network.hidden": (8,), "epochs": 2, "learning_rate": 3e-4},  # a schedule
    ):
        assert config.replace(Settings(), change) == expected


LONG = int("9" * 400)  # above every float


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"epoch": 3}, "unknown setting 'epoch'; did you mean 'epochs'?"),
        ({"network.hiden": 3}, "'network.hiden'; did you mean 'network.hidden'?"),
        ({"epochs": True}, "epochs is True; expected a whole number"),
        ({"epochs": 2.5}, "epochs is 2.5; expected a whole number"),
        ({"epochs": None}, "epochs is None; expected a whole number"),
        ({"epochs": LONG}, "such as 8 or 1e6"),
        ({"gamma": LONG}, "expected a number"),
        ({"learning_rate": LONG}, "expected a finite number"),
        ({"learning_rate": str(LONG)}, "expected a finite number"),
        ({"gamma": float("nan")}, "gamma is nan; expected a number"),
        ({"normalize": 1}, "normalize is 1; expected true or false"),
        ({"objective": "both"}, "objective is 'both'; expected clip or kl"),
        ({"sizes": "8"}, "sizes is '8'; expected a comma-separated list"),
        ({"network": 8}, "network is 8; expected an object of settings"),
        (
            {"learning_rate": "fast"},
            "learning_rate is 'fast'; 'fast' is not a schedule; expected a number",
        ),
    ],
)
def test_replace_names_the_wrong_setting(changes, message):
    with pytest.raises(UserError, match=re.escape(message)):
        config.replace(Settings(), changes)


def test_env_kwargs_that_json_cannot_represent_are_refused():
    with pytest.raises(UserError, match=r"env_kwargs is .*cannot be written as JSON"):
        config.replace(Experiment(), {"env_kwargs": {"f": print}})
    changed = config.replace(Experiment(), {"env_kwargs": {"x": np.float32(0.5)}})
    assert changed.env_kwargs == {"x": 0.5}


def test_configs_do_not_share_mutable_defaults():
    Experiment().env_kwargs["x"] = 1
    assert Experiment().env_kwargs == {}


def test_a_field_of_an_unsupported_type_raises_a_type_error():
    @dataclasses.dataclass(frozen=True)
    class Bad:
        x: set = option(frozenset(), "of things")

    with pytest.raises(TypeError, match="cannot have a field of type"):
        parsing.help_text([(Bad, "")])


# ---- JSON


CHANGED = Settings(
    learning_rate=Linear(1e-3, 0, 500),
    clip=None,
    sizes=(),
    network=Network(hidden=(3, 4)),
)


@pytest.mark.parametrize("settings", [Settings(), CHANGED])
def test_a_config_survives_a_round_trip_through_json(settings):
    assert through_json(settings) == settings


def test_json_is_readable_and_in_the_order_of_the_fields():
    data = config.to_dict(CHANGED)
    assert list(data) == [field.name for field in dataclasses.fields(Settings)]
    assert data["learning_rate"] == "linear(0.001, 0, 500)"
    assert data["network"] == {"hidden": [3, 4], "activation": "tanh"}
    assert config.to_dict(Settings())["learning_rate"] == 3e-4


def test_nested_settings_have_dotted_names():
    plain = {"a": 1, "settings": {"b": 2, "network": {"c": None}}, "empty": {}}
    assert config.flat(plain) == {
        "a": 1,
        "settings.b": 2,
        "settings.network.c": None,
        "empty": {},
    }


def test_settings_missing_from_json_have_their_defaults():
    assert config.from_dict(Settings, {"epochs": 3}) == Settings(epochs=3)


def test_a_setting_replaces_the_one_that_it_is_instead_of():
    run = RunConfig(envs_per_worker=2)
    changed = config.replace(run, {"num_workers": 3})
    assert (changed.num_workers, changed.envs_per_worker) == (3, None)
    back = config.replace(changed, {"envs_per_worker": 2})
    assert (back.num_workers, back.envs_per_worker) == (None, 2)
    both = {"num_workers": 3, "envs_per_worker": 2}
    with pytest.raises(UserError, match="num_workers is 3 and envs_per_worker is 2"):
        config.replace(run, both)
    saved = RolloutSettings(length=7, episodes=4)  # a saved config replaces nothing
    assert config.from_dict(RolloutSettings, config.to_dict(saved)) == saved


def test_unknown_suggests_the_closest_name_or_lists_all():
    assert config.unknown("config", "cartpol", ["cartpole", "pendulum"]) == (
        "unknown config 'cartpol'; did you mean 'cartpole'?"
    )
    assert config.unknown("config", "xyzzy", ["b", "a"]) == (
        "unknown config 'xyzzy'; known: a, b"
    )


@dataclasses.dataclass(frozen=True)
class Bounded:
    count: int = config.option(1, "x", least=1)
    share: float | None = config.option(None, "x", above=0, most=1)
    sizes: tuple[int, ...] = config.option((1,), "x", least=1)
    rate: Schedule = config.option(Constant(1.0), "x", least=0)
    inner: Settings = config.option(Settings(), "x")


@pytest.mark.parametrize(
    "values, message",
    [
        ({"count": 0}, "a.count is 0; expected at least 1"),
        ({"count": 1.5}, "a.count is 1.5; expected a whole number"),
        ({"share": 0.0}, "a.share is 0.0; expected more than 0 and at most 1"),
        ({"share": 1.5}, "a.share is 1.5; expected more than 0 and at most 1"),
        ({"share": float("nan")}, "a.share is nan; expected a number"),
        ({"sizes": (3, 0)}, "a.sizes is 3,0; expected at least 1"),
        ({"rate": -1}, "a.rate is -1; expected at least 0"),
        ({"rate": "linear(1, -1)"}, "a.rate is linear(1, -1); expected at least 0"),
        ({"rate": "piecewise(0: 1, 5: -1)"}, "expected at least 0"),
        ({"inner": 3}, "a.inner is 3; expected a "),
    ],
)
def test_check_names_the_setting_out_of_bounds(values, message):
    with pytest.raises(UserError, match=re.escape(message)):
        config.check(Bounded(**values), "a.")


def test_check_converts_valid_values_to_their_types():
    checked = config.check(Bounded(count=2.0, share=1, sizes=[3], rate=2))
    assert checked == Bounded(2, 1.0, (3,), Constant(2.0))
    assert config.check(Bounded(2**53 + 1)).count == 2**53 + 1  # not exact as a float
    assert isinstance(checked.count, int) and isinstance(checked.share, float)
    assert config.check(Bounded()) == Bounded()


@dataclasses.dataclass(frozen=True)
class Mixed:
    normalize: Literal[True, False, "batch"] = config.option(True, "how")


@pytest.mark.parametrize(
    "argument, value",
    [
        ("--normalize", True),
        ("--normalize=true", True),
        ("--nonormalize", False),
        ("--normalize=false", False),
        ("--normalize=batch", "batch"),
    ],
)
def test_a_choice_may_contain_true_and_false(argument, value):
    read = config.replace(Mixed(), parsing.parse([argument], [(Mixed, "")])[0])
    assert read.normalize is value or read.normalize == value == "batch"
    for wrong in (1, 0, "off", "true", None):
        with pytest.raises(UserError, match="expected true or false or batch"):
            config.replace(Mixed(), {"normalize": wrong})
    assert through_json(read) == config.check(read) == read
    text = parsing.help_text([(Mixed, "")])
    assert "--normalize=true  (true|false|batch)\n      how" in text
