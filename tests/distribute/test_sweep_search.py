"""Tests of search spaces on the command line."""

import pytest
from optuna.distributions import (
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from tfagents_batch import schedules
from tfagents_batch.distribute import sweep_search
from tfagents_batch.errors import UserError
from tfagents_batch.settings import fields


def parse(text, hint=float, **bounds):
    return sweep_search.parse("x", text, fields.kind(hint), bounds)


@pytest.mark.parametrize(
    ("text", "hint", "expected"),
    [
        ("8,16, 32", int, ("8", "16", "32")),
        ("1e3,none", int | None, ("1000", "none")),
        ("true,false", bool, ("true", "false")),
        ("64,64|128", tuple[int, ...], ("64,64", "128")),
        (
            "1e-3|linear(1e-3, 0)",
            schedules.Schedule,
            ("0.001", "linear(0.001, 0)"),
        ),
        ("uniform:0.5:1", float, FloatDistribution(0.5, 1.0)),
        ("uniform:1:2", float | None, FloatDistribution(1.0, 2.0)),
        (
            "log:1e-5:1e-2",
            schedules.Schedule,
            FloatDistribution(1e-5, 1e-2, log=True),
        ),
        ("log:1:1e3", int, IntDistribution(1, 1000, log=True)),
        ("uniform:64:256:64", int, IntDistribution(64, 256, step=64)),
    ],
)
def test_values_are_read_as_the_flag_reads_them(text, hint, expected):
    if isinstance(expected, tuple):
        expected = CategoricalDistribution(expected)
    assert parse(text, hint) == expected


@pytest.mark.parametrize(
    ("text", "hint", "bounds", "error"),
    [
        ("8,many", int, {}, "'many': expected a whole number"),
        ("8", int, {}, "it is one value; pass several, or pass it as a flag"),
        ("8,16", tuple[int, ...], {}, "pass several, separated by |"),
        ("8,8.0", int, {}, "a value is given twice"),
        ("1e-3,linear(1e-3, 0)", schedules.Schedule, {}, "are separated by |"),
        ("log:1e-3", float, {}, "expected uniform:<low>:<high>"),
        ("log:1:2:1", float, {}, "expected uniform:<low>:<high>"),
        ("log:1:many", float, {}, "expected a number, as in uniform:"),
        ("uniform:0.5:2", int, {}, "expected a whole number"),
        ("uniform:1:1", float, {}, "1.0 is not less than 1.0"),
        ("log:0:1", float, {}, "0.0 has no logarithm"),
        ("uniform:1:2:3", float, {}, "the step is 3.0; expected one between 0 and 1.0"),
        ("uniform:0:1", bool, {}, "the flag is no number but true or false"),
        ("uniform:0.9:1.5", float, {"most": 1}, "1.5 is out of bounds; expected at mo"),
        ("0.5,-1", float, {"above": 0}, "-1.0 is out of bounds; expected more than 0"),
    ],
)
def test_a_value_that_the_flag_refuses_is_named(text, hint, bounds, error):
    with pytest.raises(UserError) as caught:
        parse(text, hint, **bounds)
    assert str(caught.value).startswith(f"--search=x={text}: ")
    assert error in str(caught.value)


def test_searched_flags_are_taken_out_of_a_command_line():
    argv = ["--a=1", "--search=b=1,2", "--search", "--c.d=log:1:2", "--searches=3"]
    found = {"b": "1,2", "c.d": "log:1:2"}
    assert sweep_search.take(argv) == (found, ["--a=1", "--searches=3"])


@pytest.mark.parametrize(
    "argv", [["--search"], ["--search=x"], ["--search=x="], ["--search=x=1"] * 2]
)
def test_a_search_without_values_or_given_twice_is_refused(argv):
    with pytest.raises(UserError, match="--search"):
        sweep_search.take(argv)


def test_optuna_draws_what_was_asked_for():
    import optuna

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    texts = {"a": "8,16", "b": "uniform:64:256:64", "c": "log:1e-5:1e-2"}
    hints = {"a": int, "b": int, "c": float}
    space = {k: parse(x, hints[k]) for k, x in texts.items()}
    drawn = [study.ask(space).params for _ in range(30)]
    assert {x["a"] for x in drawn} == {"8", "16"}
    assert {x["b"] for x in drawn} == {64, 128, 192, 256}
    assert sum(x["c"] < 1e-3 for x in drawn) > 10
