"""Tests that numbers of the settings are inputs of a program, not constants in it."""

import dataclasses
import re

import keras
import pytest
import tensorflow as tf

from tests.algorithms.cases import OF_ROWS, RUNS, STUDENTS
from tfagents_batch import config as configs
from tfagents_batch import schedules
from tfagents_batch.algorithms import REGISTRY
from tfagents_batch.graph.inputs import InputSchedule
from tfagents_batch.programs import program
from tfagents_batch.schedules import Constant, Linear, Piecewise
from tfagents_batch.training.assembly import Experiment
from tfagents_batch.training.compilation import stablehlo
from tfagents_batch.training.config import RunConfig, with_options


def more(name, options=None, **settings):
    """Return an algorithm, and options of its short run with more settings."""
    short = RUNS[name] | (options or {})
    return name, short | {"settings": short["settings"] | settings}


# GA3C is A2C, and its programs are not stored. Others have no environment in a graph.
NAMES = sorted({*REGISTRY} - OF_ROWS - STUDENTS - {"ga3c"})
PROGRAMS = {name: more(name) for name in NAMES} | {
    "ppo with every bound": more(
        "ppo",
        epochs=1,
        objective="both",
        kl_stop=0.5,
        value_clip=0.2,
        entropy_scale="linear(0.1, 0)",
        clip_ratio="linear(0.2, 0)",
        weight_decay=0.01,
        learning_rate="piecewise(0: 1e-3, 100: 1e-4)",
    ),
    "dqn that explores by values": more(
        "dqn",
        {"replay": {"capacity": 400, "prioritized": True}},
        temperature="linear(1, 0.1)",
        target="munchausen",
        target_tau=1.0,
        reset_every=50,
    ),
    "sac with fixed numbers and noise": more("sac", temperature=0.2, exploration="ou"),
    "sac with a target entropy": more("sac", target_entropy=-2.0),
    "sac with noise by states": more("sac", exploration="sde"),
    "a2c with noise by states": more(
        "a2c", {"env": "tf/Pendulum-v1"}, exploration="sde"
    ),
    "a2c with a clipped ratio": more("a2c", correction="clip", entropy_scale=0.01),
    "reinforce with a moving average": more("reinforce", baseline="average"),
}
# Most of their numbers are also those of the other programs.
COVERED = {*PROGRAMS} - {
    *("ppo with every bound", "dqn that explores by values"),
    *("sac with fixed numbers and noise",),
}


def run(name):
    """Return the config of a short run in which environments are in the graph."""
    algorithm, options = PROGRAMS[name]
    options = dict(options)
    settings = REGISTRY[algorithm][1]()
    settings = configs.replace(settings, options.pop("settings", {}))
    base = RunConfig(
        algorithm=algorithm,
        env="tf/CartPole-v1",
        num_envs=4,
        steps=1000,
        eval_every=0,
        compile_cache=False,
        settings=settings,
    )
    return with_options(base, options).check()


def other(value):
    """Return another number, or another schedule of the same kind."""
    if isinstance(value, Constant):
        return Constant(other(value.value))
    if isinstance(value, Linear):
        steps = None if value.steps is None else value.steps + 7
        return Linear(other(value.start), other(value.end), steps)
    if isinstance(value, Piecewise):
        return Piecewise(tuple((2 * step, other(x)) for step, x in value.points))
    if isinstance(value, int):
        return value + 1
    return 0.9 * value + 0.01  # another number also for 0


def changed(config):
    """Return a config in which every number has another value."""
    values = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if configs.is_number(field) and value is not None:
            values[field.name] = other(value)
        elif configs.has_numbers(value):
            values[field.name] = changed(value)
    return dataclasses.replace(config, **values)


def text(config):
    """Return the text of a run's program, and the names of its inputs."""
    found = []

    def save(traced, variables, envs):
        arguments = tf.constant(0), tf.constant(1000, tf.int64), tf.constant(1)
        found.append(stablehlo.export(traced, arguments, variables))
        return traced

    keras.backend.clear_session()  # layers get the same names again
    with Experiment(config, config.recipe()) as experiment:
        experiment.start(0)
        program.build(experiment.source, experiment.algorithm, "full", save=save)
    # Names of functions end in a number that counts everything created before.
    return re.sub(r"_\d{3,}", "", found[0].module), found[0].variables


@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=pytest.mark.slow if x in COVERED else ()) for x in PROGRAMS],
)
def test_other_numbers_make_the_same_program(name):
    config = run(name)
    numbers = dataclasses.replace(
        config,
        steps=config.steps + 100,
        settings=changed(config.settings),
        source=changed(config.source),
    ).check()
    assert numbers.settings != config.settings
    assert configs.structure(numbers.settings) == configs.structure(config.settings)
    (one, inputs), (two, others) = text(config), text(numbers)
    assert inputs == others
    assert one.splitlines() == two.splitlines()


@pytest.mark.parametrize(
    "schedule", [Constant(0.3), Linear(1.0, 0.1, 300), Piecewise(((0, 1.0), (9, 0.5)))]
)
def test_a_schedule_of_variables_has_the_values_of_the_schedule(schedule):
    inputs = InputSchedule(schedule)
    for step in (0, 8, 9, 10, 299, 300, 10**9):
        step = tf.constant(step, tf.int64)
        assert inputs(step) == schedule(step)
    assert str(inputs) == str(schedule) and schedules.parse(str(inputs)) == schedule
