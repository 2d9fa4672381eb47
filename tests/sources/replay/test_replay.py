"""The replay compared with lists of rows."""

from __future__ import annotations

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.sources.cases import outline
from tests.sources.replay.scripted import KINDS, Case, Script, Slow, stream, uid
from tfagents_batch.clocks import Ratio
from tfagents_batch.errors import UserError
from tfagents_batch.schedules import Linear
from tfagents_batch.sources.replay import Replay
from tfagents_batch.sources.replay_settings import ReplaySettings
from tfagents_batch.types import Windows

CASES = {
    "plain": Case(batch=2, k=1, window=2, capacity=24),
    "n-step": Case(batch=3, k=2, window=4, capacity=31),
    "long collects": Case(batch=1, k=7, window=3, capacity=10),
    "wide": Case(batch=2, k=1, window=3, capacity=20, wide=True),
    "stack": Case(2, 1, 2, 24, stack=3, image="first"),
    "stack of channels": Case(2, 2, 3, 30, stack=4, image="last", wide=True),
    "state": Case(batch=2, k=2, window=5, capacity=24, state=True),
    "stack of two": Case(1, 5, 2, 14, stack=2, image="first", wide=True),
}
N = 10


class Program:
    """A replay over a script, and its functions."""

    def __init__(self, case, way="graph", **options):
        self.case, self.script = case, Script(case)
        options.setdefault("beta", Linear(0.4, 1.0, 1000))
        config = ReplaySettings(case.capacity, case.k, case.stack, **options)
        recorded = 160 if case.state else 0
        wanted = Windows(N, case.window, Ratio(1, 2, 10), recorded=recorded)
        like = outline(self.script)
        self.replay = Replay(self.script, config, like, wanted)
        self._start = [x.numpy() for x in self.variables()]
        self.collect, self.sample, self.feedback = (
            self._function(x, way)
            for x in (self._collect, self._sample, self.replay.feedback)
        )

    def _function(self, function, way):
        if way == "eager":
            return function
        return tf.function(function, jit_compile=way == "xla", autograph=False)

    def _collect(self, seed, step):
        return self.replay.store(self.replay.collect(seed, step), step)

    def _sample(self, seed, step):
        return self.replay.sample((), seed, step)

    def variables(self):
        return list(self.replay.named_variables().values())

    def load(self, scripts, begin, ok):
        """Start again with another script; return the list to compare with."""
        for variable, value in zip(self.variables(), self._start, strict=True):
            variable.assign(value)
        streams = [stream(script, self.script.size) for script in scripts]
        return Slow(self.case, self.script.load(streams, begin, ok))

    def draws(self, seed, step=0):
        found = self.sample(tf.constant(seed), tf.constant(step, tf.int64))
        return tf.nest.map_structure(lambda x: x.numpy(), found)


@functools.cache
def program(name, way="graph", **options):
    return Program(CASES[name], way, **options)


SCRIPT = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from(KINDS)), min_size=1, max_size=5
)


@st.composite
def plans(draw, case, size=120, most=30):
    """Draw scripts, and begin and success of each collect."""
    scripts = [draw(SCRIPT) for _ in range(case.batch)]
    begin, ok, row = [], [], draw(st.integers(0, 9))
    for _ in range(draw(st.integers(3, most))):
        if row + case.k >= size:
            break
        begin.append(row)
        ok.append(draw(st.integers(0, 9)) > 0)
        row += case.k + (0 if ok[-1] else draw(st.integers(1, 5)))
    return scripts, begin, ok


def check_samples(slow, program, seeds=(1, 2, 3)):
    """Compare samples with the lists; return how often each start was drawn."""
    expected = {1000 * env + slow.rows[env][i][0]: (env, i) for env, i in slow.starts()}
    found = collections.Counter()
    for seed in seeds:
        sampled = program.draws(seed)
        mask = np.asarray(sampled.mask)
        for n, each in enumerate(uid(sampled)):
            if expected:
                assert mask[0, n]
                slow.compare(sampled, n, *expected[each])
                found[each] += 1
            else:
                assert not mask[:, n].any()
        drawn = [expected[each] for each in uid(sampled)] if expected else []
        ages = [len(slow.rows[env]) - 1 - i for env, i in drawn] or [0]
        assert float(program.replay.metrics()["replay/age"]) == pytest.approx(
            np.mean(ages) * len(slow.rows), 1e-6
        )
    assert set(found) <= set(expected)
    return found, expected


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "prioritized"),
    [
        ("n-step", True),
        ("state", True),
        ("stack", True),
        ("long collects", False),
        ("stack of channels", False),
        *(
            pytest.param(name, False, marks=SLOW)
            for name in ("plain", "wide", "n-step", "stack", "stack of two")
        ),
    ],
)
@given(data=st.data())
@settings(deadline=None, max_examples=8, phases=[Phase.explicit, Phase.generate])
def test_every_window_is_one_of_the_list(name, prioritized, data):
    each = program(name, prioritized=prioritized)
    scripts, begin, ok = data.draw(plans(each.case))
    slow = each.load(scripts, begin, ok)
    total = tf.constant(0, tf.int64)
    for i, (row, fine) in enumerate(zip(begin, ok, strict=True)):
        collected = each.collect(tf.constant(i), total)
        slow.collect(row, fine)
        total += collected.steps
        assert bool(collected.ok) == fine
        assert float(collected.metrics["replay/size"]) == len(slow.starts())
        if i % 5 == 4:
            check_samples(slow, each, seeds=[i])
    found, expected = check_samples(slow, each, seeds=range(12))
    if 0 < len(expected) <= 30:
        assert set(found) == set(expected)
    each.replay.check()
    if prioritized:
        metrics = each.replay.metrics()
        assert float(metrics["replay/priority_mean"]) == float(len(expected) > 0)


def test_draws_are_uniform_over_all_transitions():
    """Pearson's chi-square, seeds fixed; 99.9 % quantile from Wilson and Hilferty."""
    each = program("n-step")
    begin = list(range(0, 40, 2))
    scripts = [[(3, "terminate"), (2, "fail")], [(1, "truncate")], [(9, "terminate")]]
    slow = each.load(scripts, begin, [True] * len(begin))
    for row in begin:
        each.collect(tf.constant(0), tf.constant(0, tf.int64))
        slow.collect(row, True)
    found, expected = check_samples(slow, each, seeds=range(300))
    mean = 300 * N / len(expected)
    statistic = sum((found[x] - mean) ** 2 / mean for x in expected)
    free = len(expected) - 1
    term = 2 / (9 * free)
    assert statistic < free * (1 - term + 3.09 * term**0.5) ** 3


@pytest.mark.parametrize("prioritized", [False, True], ids=["uniform", "priority"])
def test_a_void_collect_changes_nothing(prioritized):
    each = program("n-step", prioritized=prioritized)
    begin, ok = list(range(0, 30, 2)), [True] * 12 + [False] * 3
    each.load([[(3, "terminate")]] * 3, begin, ok)
    for _ in begin[:12]:
        each.collect(tf.constant(0), tf.constant(100, tf.int64))
    before = each.draws(7)
    names = [x for x in each.replay.named_variables() if x.split("/")[0] in COUNTERS]
    kept = {x: each.replay.named_variables()[x].numpy() for x in names}
    for _ in range(3):
        collected = each.collect(tf.constant(0), tf.constant(100, tf.int64))
        assert (int(collected.updates), int(collected.steps)) == (0, 0)
        tf.nest.map_structure(np.testing.assert_array_equal, before, each.draws(7))
    for name, value in kept.items():
        now = each.replay.named_variables()[name].numpy()
        np.testing.assert_array_equal(now, value)


COUNTERS = {"head", "filled", "size", "start", "largest", "tree"}


def run(each, collects, feedback=True):
    """Collect and sample; return what was drawn."""
    found = []
    for i in range(collects):
        each.collect(tf.constant(i), tf.constant(i, tf.int64))
        found.append(each.draws(i, i))
        if feedback:
            each.feedback(tf.abs(tf.constant(found[-1].reward[0])) % 5)
    return found


def test_eager_code_graphs_and_compiled_programs_agree():
    results = []
    for way in ("eager", "graph", "xla"):
        each = program("stack", way, prioritized=True)
        begin = np.arange(8) * each.case.k
        script = [(3, "terminate"), (2, "fail"), (4, "truncate")]
        each.load([script] * each.case.batch, begin, [True] * 4 + [False] + [True] * 3)
        results.append(run(each, len(begin)))
    for other in results[1:]:
        tf.nest.map_structure(np.testing.assert_array_equal, results[0], other)


@pytest.mark.parametrize("prioritized", [False, True], ids=["uniform", "priority"])
@pytest.mark.parametrize("name", ["plain", "wide", "stack"])
def test_a_sample_with_another_seed_is_the_same_compiled_program(name, prioritized):
    each = program(name, "xla", prioritized=prioritized)

    def compiled(seed):
        arguments = tf.constant(seed), tf.constant(0, tf.int64)
        return each.sample.experimental_get_compiler_ir(*arguments)(stage="hlo")

    assert compiled(1) == compiled(2)


def test_rounds_in_one_call_give_the_results_of_single_calls():
    each = program("n-step", prioritized=True)
    script = [(3, "terminate"), (2, "fail")]
    begin, ok = list(range(0, 24, 2)), [True] * 12
    each.load([script] * 3, begin, ok)
    expected = run(each, 12)[-1]
    each.load([script] * 3, begin, ok)

    @tf.function(jit_compile=True, autograph=False)
    def rounds(count):
        def body(i):
            step = tf.cast(i, tf.int64)
            each.replay.store(each.replay.collect(i, step), step)
            drawn = each.replay.sample((), i, step)
            each.replay.feedback(tf.abs(drawn.reward[0]) % 5)
            return i + 1

        tf.while_loop(lambda i: i < count, body, (0,), parallel_iterations=1)

    rounds(tf.constant(11))
    each.collect(tf.constant(11), tf.constant(11, tf.int64))
    tf.nest.map_structure(np.testing.assert_array_equal, expected, each.draws(11, 11))


def test_a_restored_replay_goes_on_exactly():
    each, other = (program("stack", way, prioritized=True) for way in ("graph", "xla"))
    script = [(3, "terminate"), (4, "truncate")]
    for x in (each, other):
        x.load([script] * 2, list(range(20)), [True] * 7 + [False] + [True] * 12)
    run(each, 8)
    for mine, saved in zip(other.variables(), each.variables(), strict=True):
        mine.assign(saved)
    tf.nest.map_structure(np.testing.assert_array_equal, run(each, 8), run(other, 8))


@pytest.mark.parametrize("name", ["head", "filled", "size"])
@pytest.mark.parametrize("value", [-1, 10**9])
def test_saved_positions_outside_the_storage_are_refused(name, value):
    replay = build()
    named = replay.named_variables().items()
    numbers = {key: x.numpy() for key, x in named if not x.shape.rank}
    replay.check_numbers(numbers)
    with pytest.raises(ValueError, match=f"{name} is {value}; expected 0 to"):
        replay.check_numbers(numbers | {name: value})


def test_after_an_interruption_no_window_crosses_to_the_new_steps():
    each = Program(CASES["plain"], "eager")
    slow = each.load([[(50, "terminate")]] * 2, [0, 1, 2, 60, 61], [True] * 5)
    for row in (0, 1, 2):
        each.collect(tf.constant(0), tf.constant(0, tf.int64))
        slow.collect(row, True)
    each.replay.interrupt()
    slow.collect(0, False)
    for row in (60, 61):
        each.collect(tf.constant(0), tf.constant(0, tf.int64))
        slow.collect(row, True)
    check_samples(slow, each, seeds=range(5))


@pytest.mark.parametrize("start", [0, 7, 100])
def test_updates_due_are_exact_whatever_a_collect_makes(start):
    ratio = Ratio(3, 7, start)
    steps, total = 0, 0
    for made in [1, 2, 8, 5, 0, 40, 3, 77, 13]:
        before, after = (tf.constant(x, tf.int64) for x in (steps, steps + made))
        total += int(ratio.due(tf.constant(start, tf.int64), before, after))
        steps += made
        assert total == max(0, (steps - start) * 3 // 7)


def test_no_update_is_due_while_a_postponed_replay_warms_up_again():
    each, step = Program(CASES["plain"], "eager"), tf.constant(100, tf.int64)
    each.load([[(9, "terminate")]] * 2, range(20), [True] * 20)
    assert each.replay.postpone(100) == 10  # the warm-up of its ratio
    updates = []
    while step < 120:
        collected = each.collect(tf.constant(0), step)
        step += collected.steps
        updates.append((int(step) > 110, int(collected.updates)))
    assert all(due or not made for due, made in updates)
    assert sum(made for _, made in updates) == (int(step) - 110) // 2 > 0


def test_observations_that_are_no_stacks_stop_the_run_and_are_named():
    each = Program(CASES["stack"], "eager")
    each.load([[(9, "terminate")]] * 2, range(5), [True] * 5)
    wrong = each.script._rows[0]
    wrong.assign(wrong[:, :, ::-1])  # the newest frame first
    found = [each.collect(tf.constant(0), tf.constant(0, tf.int64)) for _ in range(5)]
    assert not bool(found[-1].ok) and int(found[-1].updates) == 0
    with pytest.raises(UserError, match="oldest frame first"):
        each.replay.check()


def build(case=CASES["plain"], like=lambda x: x, **options):
    script = Script(case)
    config = {"capacity": case.capacity, "steps": case.k, "stack": case.stack} | options
    like = like(outline(script))
    recorded = 160 if case.state else 0
    wanted = Windows(N, case.window, Ratio(1, 1, 0), recorded=recorded)
    return Replay(script, ReplaySettings(**config), like, wanted)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stack": 7, "capacity": 99}, "observations have shape"),
        ({"prioritized": True}, "its length is not set"),
        (
            {"like": lambda x: x._replace(behavior={"state": x.action})},
            "recurrent networks",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(options, message):
    with pytest.raises(UserError, match=message):
        build(**options)
