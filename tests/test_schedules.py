import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tfagents_batch import config, schedules
from tfagents_batch.algorithms.ppo import PPOConfig
from tfagents_batch.errors import UserError
from tfagents_batch.schedules import (
    Constant,
    Linear,
    Piecewise,
    Schedule,
)

SCHEDULES = [
    Constant(3e-4),
    Linear(3e-4, 0, 200_000),
    Linear(0.1, 1.0, 7),
    Piecewise(((0, 1e-3), (100_000, 1e-4), (2**40, 1e-5))),
    Piecewise(((0, 0.5),)),
]
STEPS = [0, 1, 6, 7, 8, 99_999, 100_000, 200_000, 10**9]

value = st.floats(allow_nan=False, allow_infinity=False, width=64)
step = st.integers(0, 10**12)
schedule = st.one_of(
    st.builds(Constant, value),
    st.builds(Linear, value, value, st.one_of(st.none(), st.integers(1, 10**12))),
    st.builds(
        lambda points: Piecewise(((0, 1.0), *sorted(points.items()))),
        st.dictionaries(st.integers(1, 10**12), value, max_size=4),
    ),
)


def reference(schedule, step):
    if isinstance(schedule, Constant):
        return schedule.value
    if isinstance(schedule, Linear):
        part = min(step / schedule.steps, 1.0)
        return schedule.start + part * (schedule.end - schedule.start)
    return [value for start, value in schedule.points if start <= step][-1]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("jit_compile", [None, False, True])
def test_values_agree_with_python_in_eager_graph_and_compiled_code(
    schedule, jit_compile
):
    call = schedule
    if jit_compile is not None:
        call = tf.function(schedule, jit_compile=jit_compile, autograph=False)
    for step in STEPS:
        result = call(tf.constant(step, tf.int64))
        assert result.dtype == tf.float32 and result.shape == []
        np.testing.assert_allclose(result, reference(schedule, step), 1e-5)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_steps_may_be_python_numbers_or_int32_or_int64_tensors(schedule):
    expected = schedule(tf.constant(6, tf.int64))
    for step in (6, np.int64(6), tf.constant(6, tf.int32), tf.Variable(6)):
        assert schedule(step) == expected


def test_a_linear_schedule_reaches_its_ends_exactly():
    schedule = Linear(0.1, 0.3, 10)
    assert schedule(0).numpy() == np.float32(0.1)
    assert schedule(10).numpy() == schedule(11).numpy() == np.float32(0.3)


@given(schedule)
def test_text_reads_back_as_the_same_schedule(schedule):
    assert schedules.parse(str(schedule)) == schedule
    assert hash(schedules.parse(str(schedule))) == hash(schedule)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("3e-4", Constant(0.0003)),
        (" 1 ", Constant(1.0)),
        (0.5, Constant(0.5)),
        (2, Constant(2.0)),
        (np.float32(0.5), Constant(0.5)),
        ("linear(3e-4, 0)", Linear(3e-4, 0.0)),
        ("linear(3e-4,0,2e5)", Linear(3e-4, 0.0, 200_000)),
        ("piecewise(0: 1e-3, 1e5: 1e-4)", Piecewise(((0, 1e-3), (100_000, 1e-4)))),
        (Linear(1, 0), Linear(1.0, 0.0)),
    ],
)
def test_text_and_numbers_are_read(text, expected):
    assert schedules.parse(text) == expected


@pytest.mark.parametrize(
    "bad, message",
    [
        ("", "not a schedule"),
        ("fast", "'fast' is not a schedule; expected a number, linear"),
        ("linear(1)", "expected a number, linear"),
        ("linear(1, 2, 3, 4)", "expected a number, linear"),
        ("linear(1, x)", "expected a number, linear"),
        ("linear(1, 0, 0)", "steps is 0; expected a whole number of at least 1"),
        ("linear(1, 0, 2.5)", "steps is 2.5; expected a whole number"),
        ("cosine(1, 0)", "not a schedule"),
        ("piecewise(1: 2)", "expected increasing steps from 0"),
        ("piecewise(0: 1, 5: 2, 5: 3)", "expected increasing steps from 0"),
        ("piecewise(0, 1)", "not a schedule"),
        ("nan", "expected a finite number"),
        (float("inf"), "expected a finite number"),
        (True, "not a schedule"),
        (None, "not a schedule"),
        ([1], "not a schedule"),
    ],
)
def test_invalid_schedules_are_refused_with_the_expected_forms(bad, message):
    with pytest.raises(UserError, match=re.escape(message)):
        schedules.parse(bad)


@dataclasses.dataclass(frozen=True)
class Inner:
    rate: Schedule = Linear(1.0, 0.0)  # noqa: RUF009
    fixed: Schedule = Linear(1.0, 0.0, 5)  # noqa: RUF009


@dataclasses.dataclass(frozen=True)
class Outer:
    optional: Schedule | None = None
    plain: float = 0.5
    inner: Inner = Inner()


def test_resolve_gives_every_schedule_the_length_of_the_run():
    resolved = schedules.resolve(Outer(), 1000)
    assert resolved.inner.rate == Linear(1.0, 0.0, 1000)
    assert resolved.inner.fixed == Linear(1.0, 0.0, 5)
    assert resolved.optional is None
    assert resolved.plain == 0.5
    optional = dataclasses.replace(Outer(), optional=Linear(0, 1))
    assert schedules.resolve(optional, 7).optional == Linear(0, 1, 7)


def test_a_linear_schedule_of_unknown_length_says_how_to_resolve_it():
    with pytest.raises(UserError, match=r"linear\(1, 0\).*schedules.resolve"):
        Linear(1, 0)(3)


def test_a_function_of_python_is_shown_once_with_what_to_write_instead():
    with pytest.raises(UserError) as raised:
        config.replace(PPOConfig(), {"learning_rate": lambda left: 3e-4 * left})
    text = str(raised.value)
    assert text.count("<function") == 1
    assert text.endswith('; write "linear(3e-4, 0)" instead')
