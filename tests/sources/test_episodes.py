"""Whole episodes compared with a slow search in plain Python."""

from __future__ import annotations

import functools
import itertools

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfagents_batch as tfb
from tests.sources.cases import Counter, collect
from tests.support.fault_env import fault_envs
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import UserError
from tfagents_batch.metrics import Mean
from tfagents_batch.sources import metrics
from tfagents_batch.sources.episodes import Episodes
from tfagents_batch.types import EnvSpec, TimeStep, Trajectory

ENDS = {
    "terminate": (True, False),
    "truncate": (False, True),
    "both": (True, True),
}
FAIL = "fail"


class Table:
    """Environment that replays a table and ignores actions.

    Attributes:
      steps: number of calls of ``step`` in eager code.
      table: f32 ``[S, B, 8]``: episode, step, reward, first, terminated,
        truncated, return, length.
    """

    compilable = True

    def __init__(self, batch, limit):
        self.spec = EnvSpec(
            batch,
            gymnasium.spaces.Box(0, np.inf, (2,), np.float32),
            gymnasium.spaces.Discrete(2),
            {"episode_return": "float32", "episode_length": "int32"},
            limit,
        )
        self.table = None
        self.steps = 0

    def init(self, seed):
        return tf.constant(0), self._row(0)

    def step(self, state, action):
        self.steps += 1
        return state + 1, self._row(state + 1)

    def ok(self, state):
        return tf.constant(True)

    def _row(self, t):
        columns = tf.unstack(self.table[t], axis=-1)
        flags = [x > 0 for x in columns[3:6]]
        info = {"episode_return": columns[6]}
        info["episode_length"] = tf.cast(columns[7], tf.int32)
        observation = tf.stack(columns[:2], -1)
        return TimeStep(observation, columns[2], *flags, info)


def play(script, rows):
    """Return the rows of one environment, restart rows included.

    Args:
      script: steps, kind of end and (for "fail") number of failed rows of each
        episode; the script repeats.
      rows: number of rows.
    """
    found = []
    for episode, (steps, how, failed) in enumerate(itertools.cycle(script)):
        if len(found) >= rows:
            return found[:rows]
        return_ = 0.0
        good = steps if how == FAIL else steps + 1
        for step in range(good):
            reward = float(step * (episode % 7 + 1))
            return_ += reward
            ends = ENDS[how] if step == steps else (False, False)
            row = (episode, step, reward, step == 0, *ends, return_, step)
            found.append(row)
        for _ in range(failed if how == FAIL else 0):
            found.append((episode, max(good - 1, 0), 0.0, True, False, True, 0.0, 0))


def search(rows, rounds, length):
    """Return first and last row of the episode of every turn, or None."""
    first, over = ([bool(x) for x in column] for column in _flags(rows))
    found = [None] * rounds
    turn, t = -1, 0
    while t < rounds * (length + 1):
        if over[t] or not first[t]:
            t += 1
            continue
        turn = max(turn + 1, -(-t // (length + 1)))
        if turn >= rounds:
            break
        end = t + 1
        while not (first[end] or over[end]) and end - t < length:
            end += 1
        if not first[end]:
            found[turn] = (t, end)
        t = end
    return found


def _flags(rows):
    first = [row[3] for row in rows]
    return first, [row[4] or row[5] for row in rows]


@functools.cache
def program(batch, rounds, length, way):
    """Return a function of a table and a seed to what ``Episodes`` collects."""
    env = Table(batch, length)
    source = Episodes(env, Counter(), rounds * batch)

    def run(table, seed):
        env.table = table
        return collect(source, seed)

    if way == "eager":
        return run
    return tf.function(run, jit_compile=way == "xla", autograph=False)


def found_by(scripts, rounds, length, way="graph"):
    """Return trajectory and metrics as arrays, and the rows of every environment."""
    size = 2 * rounds * (length + 1) + 2
    rows = [play(script, size) for script in scripts]
    table = np.array(rows, np.float32).transpose(1, 0, 2)
    run = program(len(scripts), rounds, length, way)
    collected = run(tf.constant(table), tf.constant(3))
    assert bool(collected.ok)
    assert int(collected.steps) == collected.trajectory.mask.numpy().sum()
    return collected.trajectory, counters(collected), rows


def counters(collected):
    """Return the source's own counters of unused and missing steps."""
    names = "env/idle_steps", "env/missing_episodes"
    return {name: float(collected.metrics[name]) for name in names}


def compare(trajectory, rows, rounds, length):
    """Check that every stream is the episode of its turn."""
    mask, discount = trajectory.mask.numpy(), trajectory.discount(0.5).numpy()
    steps = tf.nest.map_structure(lambda x: x.numpy(), trajectory.steps)
    valid = trajectory.steps.valid.numpy()
    spans = [search(each, rounds, length) for each in rows]
    total = 0
    for stream in range(rounds * len(rows)):
        turn, env = divmod(stream, len(rows))
        span = spans[env][turn]
        if span is None:
            assert not mask[:, stream].any() and not valid[:, stream].any()
            continue
        begin, end = span
        size = end - begin
        total += size
        np.testing.assert_array_equal(mask[:, stream], np.arange(length) < size)
        np.testing.assert_array_equal(valid[:, stream], np.arange(length + 1) <= size)
        expected = np.array(rows[env][begin : end + 1], np.float32)
        np.testing.assert_array_equal(
            steps.observation[: size + 1, stream], expected[:, :2]
        )
        np.testing.assert_array_equal(steps.reward[: size + 1, stream], expected[:, 2])
        np.testing.assert_array_equal(
            steps.terminated[: size + 1, stream], expected[:, 4] > 0
        )
        over = expected[-1, 4] + expected[-1, 5] > 0
        assert steps.truncated[size, stream] == (expected[-1, 5] > 0 or not over)
        # After the end the last step is repeated.
        np.testing.assert_array_equal(
            steps.observation[size + 1 :, stream],
            np.broadcast_to(expected[-1, :2], (length - size, 2)),
        )
        assert not steps.reward[size + 1 :, stream].any()
        assert steps.info["episode_length"][size, stream] == size
        earned = np.where(mask, steps.reward[1:], 0)[:, stream].sum()
        assert earned == steps.info["episode_return"][size, stream]
        at_the_end = 0.0 if expected[-1, 4] else 0.5
        assert discount[size - 1, stream] == at_the_end
        assert (discount[: size - 1, stream] == 0.5).all()
        count = trajectory.behavior["count"].numpy()[:, stream]
        np.testing.assert_array_equal(count[:size], range(size))
    assert mask.sum() == total
    return spans


HEALTHY = st.sampled_from(sorted(ENDS))
SIZES = [(2, 3, 4), (1, 2, 1)]  # environments, rounds, length


def healthy(length):
    episode = st.tuples(st.integers(1, length), HEALTHY, st.just(0))
    return st.lists(episode, min_size=1, max_size=5)


def unhealthy(length):
    """Return scripts with failures and with episodes that are too long."""
    failed = st.tuples(st.integers(0, length), st.just(FAIL), st.integers(1, length))
    long = st.tuples(st.integers(1, 2 * length), HEALTHY, st.just(0))
    return st.lists(st.one_of(failed, long), min_size=1, max_size=6)


@pytest.mark.parametrize(("batch", "rounds", "length"), SIZES)
@given(data=st.data())
@settings(deadline=None, max_examples=25)
def test_the_first_episodes_of_every_environment_are_used(batch, rounds, length, data):
    scripts = [data.draw(healthy(length)) for _ in range(batch)]
    trajectory, logged, rows = found_by(scripts, rounds, length)
    spans = compare(trajectory, rows, rounds, length)
    flat = [span for each in spans for span in each]
    assert None not in flat and logged["env/missing_episodes"] == 0
    for each in spans:  # consecutive episodes from the first row
        assert each[0][0] == 0
        assert all(b[0] == a[1] + 1 for a, b in itertools.pairwise(each))
    done = [each[-1][1] for each in spans]
    assert logged["env/idle_steps"] == sum(max(done) - each for each in done)
    sums = metrics.episodes(trajectory)
    assert sums["episode/count"].value == rounds * batch
    assert sums["episode/length_mean"].sum == sum(end - begin for begin, end in flat)
    assert sums["episode/return_mean"].sum == sum(
        rows[env][end][6] for env, each in enumerate(spans) for _, end in each
    )


@pytest.mark.parametrize(("batch", "rounds", "length"), SIZES)
@given(data=st.data())
@settings(deadline=None, max_examples=25)
def test_a_failure_drops_only_the_episode_it_happens_in(batch, rounds, length, data):
    scripts = [data.draw(unhealthy(length)) for _ in range(batch)]
    trajectory, logged, rows = found_by(scripts, rounds, length)
    spans = compare(trajectory, rows, rounds, length)
    whole = [span for each in spans for span in each if span is not None]
    assert logged["env/missing_episodes"] == rounds * batch - len(whole)
    sums = metrics.episodes(trajectory)
    assert sums["episode/count"].value == len(whole)
    assert sums["episode/length_mean"].sum == sum(end - begin for begin, end in whole)
    for leaf in tf.nest.flatten(trajectory):
        assert np.isfinite(np.asarray(leaf, np.float64)).all()


@given(data=st.data())
@settings(deadline=None, max_examples=10)
def test_eager_code_graphs_and_compiled_programs_agree(data):
    scripts = [data.draw(unhealthy(3)) for _ in range(2)]
    scripts = [[*script, (2, "terminate", 0)] for script in scripts]
    found = {way: found_by(scripts, 2, 3, way)[:2] for way in ("eager", "graph", "xla")}
    for way in ("graph", "xla"):
        tf.nest.map_structure(np.testing.assert_array_equal, found["eager"], found[way])


def test_a_failed_episode_uses_up_its_turn():
    """The next episode takes the next turn, so results do not depend on lengths."""
    scripts = [[(2, FAIL, 1), (1, "terminate", 0)], [(4, "terminate", 0)]]
    trajectory, logged, _ = found_by(scripts, 1, 4)
    np.testing.assert_array_equal(trajectory.mask[:, 0], [0, 0, 0, 0])
    np.testing.assert_array_equal(trajectory.mask[:, 1], [1, 1, 1, 1])
    assert logged["env/missing_episodes"] == 1
    trajectory, logged, _ = found_by(scripts, 2, 4)
    lengths = trajectory.mask.numpy().sum(0)
    np.testing.assert_array_equal(lengths, [0, 4, 1, 4])


def test_an_episode_that_starts_late_gets_a_later_turn():
    # Rows 0 to 5 fail; turn 1 starts by row 5, turn 2 by row 10.
    scripts = [[(0, FAIL, 6), (1, "terminate", 0), (1, "terminate", 0)]]
    trajectory, logged, _ = found_by(scripts, 3, 4)
    np.testing.assert_array_equal(trajectory.mask.numpy().sum(0), [0, 0, 1])
    assert logged["env/missing_episodes"] == 2


@pytest.mark.parametrize(("rounds", "steps"), [(1, 0), (2, 5), (3, 10)])
def test_collection_ends_when_no_environment_can_complete_an_episode(rounds, steps):
    """All rows fail; the last turn starts by row ``steps``."""
    env = Table(1, 4)
    env.table = tf.constant([play([(0, FAIL, 100)], 40)], tf.float32)[0][:, tf.newaxis]
    source = Episodes(env, Counter(), rounds)
    collected = collect(source, 1)
    assert not collected.trajectory.mask.numpy().any()
    assert env.steps == steps
    assert collected.metrics["env/missing_episodes"] == rounds


# ---- real environments


def counting(lengths, limit):
    makers = [functools.partial(CountingEnv, length=length) for length in lengths]
    return limited(ProcessEnv(makers, num_workers=0), limit)


def limited(env, limit):
    """Return environments that are known to have a time limit."""
    env.spec = env.spec._replace(max_episode_steps=limit)
    return env


def numbers(x):
    return np.asarray(x).astype(int).tolist()


def traced(source):
    """Return what the traced collect of a source returns."""
    program = tf.function(functools.partial(collect, source), autograph=False)
    return program.get_concrete_function(tf.constant(0)).structured_outputs


def test_shapes_are_static_and_time_major():
    with counting((2, 3), 4) as env:
        source = Episodes(env, Counter(), 6)
        outputs = traced(source).trajectory
    assert isinstance(outputs, Trajectory)
    assert outputs.steps.observation.shape == (5, 6, 2)
    assert outputs.steps.first.shape == (5, 6)
    assert outputs.action.shape == (4, 6)
    assert outputs.behavior["count"].shape == (4, 6)
    assert outputs.state[0].shape == (6,)


def test_every_call_starts_new_episodes_from_its_seed():
    """So a resumed run needs only the number of its iteration."""
    options = {"num_envs": 2, "env_kwargs": {"max_episode_steps": 4}}

    def observations(*call_seeds):
        source = Episodes(tfb.make_env("tf/CartPole-v1", **options), Counter(), 4)
        found = [collect(source, seed).trajectory for seed in call_seeds]
        return [trajectory.steps.observation.numpy() for trajectory in found]

    one, two, again = observations(1, 2, 1)
    np.testing.assert_array_equal(one, again)
    assert not np.isin(one[0], two[0]).any()
    assert len(np.unique(one[0, :, 0])) == 4  # episodes differ
    np.testing.assert_array_equal(observations(2)[0], two)


def test_the_last_step_of_an_episode_has_behavior_data_too():
    """Its behavior data does not come from another step."""
    with counting((2, 4), 6) as env:
        source = Episodes(env, Counter(), 2)
        trajectory = collect(source, 1).trajectory
    count = trajectory.behavior["count"].numpy()
    np.testing.assert_array_equal(count[:, 0], [0, 1, 2, 2, 2, 2])
    np.testing.assert_array_equal(count[:, 1], [0, 1, 2, 3, 4, 4])


@pytest.mark.parametrize("episodes", [0, 3, 5, -2])
def test_a_number_of_episodes_that_is_not_a_multiple_is_refused(episodes):
    with counting((2, 2), 2) as env:
        text = rf"episodes is {episodes}; expected a multiple of the 2 env.*: \d or \d"
        with pytest.raises(UserError, match=text):
            Episodes(env, Counter(), episodes)


def test_environments_without_a_time_limit_are_refused():
    with (
        counting((2, 2), None) as env,
        pytest.raises(UserError, match=r"no common time limit"),
    ):
        Episodes(env, Counter(), 2)


# A function of this module would make workers import it, and so TensorFlow.
cartpole = functools.partial(gymnasium.make, "CartPole-v1", max_episode_steps=60)


def play_cartpole(env, **options):
    """Call a program twice; return both results."""
    source = Episodes(env, Counter(), 8)

    @tfb.function(envs=[env], autograph=False, **options)
    def run(seed):
        return collect(source, seed)

    return [run(tf.constant(seed)) for seed in (5, 6)]


@pytest.fixture(scope="module")
def expected():
    with ProcessEnv([cartpole] * 4, num_workers=0) as env:
        return play_cartpole(env)


def test_the_number_of_workers_changes_nothing(make_process_env, expected):
    env = make_process_env([cartpole] * 4, 4)
    tf.nest.map_structure(np.testing.assert_array_equal, play_cartpole(env), expected)
    first, _ = expected
    assert bool(first.ok) and first.metrics["env/idle_steps"] > 0
    observations = [each.trajectory.steps.observation for each in expected]
    assert np.any(observations[0] != observations[1])


@pytest.mark.xla
def test_worker_processes_are_stepped_by_a_compiled_program(library, expected):
    with ProcessEnv([cartpole] * 4, 2, backend="native") as env:
        found = play_cartpole(env, jit_compile=True)
    tf.nest.map_structure(np.testing.assert_array_equal, found, expected)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_restarted_environment_loses_one_episode(
    tmp_path, make_process_env, num_workers
):
    mark = str(tmp_path / "mark")
    envs = fault_envs("exc", length=6, step=3, mark=mark)
    env = limited(make_process_env(envs, num_workers, on_fault="restart"), 6)
    source = Episodes(env, Counter(), 4)
    collected = collect(source, 1)
    trajectory, logged = collected.trajectory, collected.metrics
    env.check()
    assert bool(collected.ok)
    lengths = tf.reduce_sum(tf.cast(trajectory.mask, tf.int32), 0)
    assert numbers(lengths) == [6, 0, 6, 6]
    assert logged["env/missing_episodes"] == 1
    sums = metrics.episodes(trajectory)
    assert sums["episode/length_mean"] == Mean(18, 3)
    mask = collect(source, 2).trajectory.mask
    assert numbers(tf.reduce_sum(tf.cast(mask, tf.int32), 0)) == [6] * 4


def test_a_crashed_worker_loses_whole_episodes(tmp_path, make_process_env):
    envs = fault_envs("kill", length=6, step=3, mark=str(tmp_path / "mark"))
    env = limited(make_process_env(envs, 2, on_fault="restart"), 6)
    source = Episodes(env, Counter(), 6)
    collected = collect(source, 1)
    trajectory = collected.trajectory
    env.check()
    lengths = numbers(tf.reduce_sum(tf.cast(trajectory.mask, tf.int32), 0))
    assert lengths[0::2] == [6, 6, 6]
    assert lengths[1] == 0 and set(lengths[1::2]) <= {0, 6}
    assert collected.metrics["env/missing_episodes"] == lengths.count(0)


def test_a_raised_failure_voids_the_trajectory(make_process_env):
    env = limited(make_process_env(fault_envs("exc", length=6, step=3), 1), 6)
    source = Episodes(env, Counter(), 2)

    @tf.function(autograph=False)
    def run(seed):
        return collect(source, seed)

    collected = run(tf.constant(1))
    assert not bool(collected.ok)
    assert int(collected.steps) == int(collected.updates) == 0
    assert not collected.trajectory.mask.numpy().any()
    with pytest.raises(tfb.EnvError):
        env.check()
