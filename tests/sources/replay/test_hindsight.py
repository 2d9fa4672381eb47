"""Goals of HER, compared with lists of rows, and what has no goals."""

import collections
import functools

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tfagents_batch as tfb
from tests.algorithms import cases
from tests.sources.cases import outline
from tests.sources.replay import bit_flip
from tests.sources.replay.scripted import Case, Script, Slow, stream, uid
from tests.sources.replay.test_replay import N, plans
from tfagents_batch import seeds
from tfagents_batch.clocks import Ratio
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.errors import UserError
from tfagents_batch.sources import hindsight
from tfagents_batch.sources.hindsight import Hindsight
from tfagents_batch.sources.replay import Replay
from tfagents_batch.sources.replay_settings import ReplaySettings
from tfagents_batch.types import Windows

LONGEST = 7  # transitions of an episode of ``plans``


def reward_of(achieved, desired):
    return (2 * achieved - 3 * desired)[..., 0]


class Program:
    """A replay over a script with goals, and its functions."""

    def __init__(self, strategy, window, goals=4, way="graph"):
        self.case = Case(batch=2, k=3, window=window, capacity=30, goals=True)
        self.script = Script(self.case)
        config = ReplaySettings(self.case.capacity, self.case.k)
        wanted = Windows(N, window, Ratio(1, 2, 10))
        chosen = Hindsight(strategy, goals, reward_of, LONGEST, True)
        like = outline(self.script)
        self.replay = Replay(self.script, config, like, wanted, hindsight=chosen)
        self._start = [x.numpy() for x in self.variables()]
        jit = {"jit_compile": way == "xla", "autograph": False}
        self.collect = tf.function(self._collect, **jit)
        self._draw = tf.function(self._sample, **jit)

    def _collect(self, seed, step):
        return self.replay.store(self.replay.collect(seed, step), step)

    def _sample(self, seed):
        return self.replay.sample((), seed, tf.constant(0, tf.int64))

    def variables(self):
        return list(self.replay.named_variables().values())

    def load(self, scripts, begin, ok):
        for variable, value in zip(self.variables(), self._start, strict=True):
            variable.assign(value)
        streams = [stream(script, self.script.size) for script in scripts]
        return Slow(self.case, self.script.load(streams, begin, ok))

    def draws(self, seed):
        return tf.nest.map_structure(np.asarray, self._draw(tf.constant(seed)))


@functools.cache
def program(strategy, window, **options):
    return Program(strategy, window, **options)


def reached(slow, env, index):
    """Return the goals that an episode has reached after a row, by a loop."""
    flags, rows = slow.flags(env), slow.rows[env]
    found = []
    for i in range(index, len(rows) - 1):
        if flags[i][1] or flags[i][2] or flags[i + 1][0]:
            break
        found.append(1000 * env + rows[i + 1][0])
    return found


def check(slow, window, n, env, index, strategy):
    """Check a window against the lists; return how far its goal is, 0 for its own."""
    steps = slow.table[0]
    size = slow.case.window
    rows = [t for t, _ in slow.rows[env][index : index + size]]
    seen = window.steps.observation
    desired = seen["desired_goal"][:, n, 0]
    own = steps.observation["desired_goal"][rows, env, 0]
    achieved = seen["achieved_goal"][:, n, 0]
    np.testing.assert_array_equal(
        achieved, steps.observation["achieved_goal"][rows, env, 0]
    )
    reward = window.steps.reward[:, n]
    stored = steps.reward[rows, env]
    if (desired == own).all():
        np.testing.assert_array_equal(reward, stored)
        return 0
    assert len({*desired}) == 1
    goals = reached(slow, env, index)
    assert desired[0] in goals
    if strategy == "final":
        assert desired[0] == goals[-1]
    assert reward[0] == stored[0]
    first = np.asarray(window.steps.first)[:, n]
    for i in range(1, size):
        expected = stored[i] if first[i] else 2 * achieved[i] - 3 * desired[i]
        assert reward[i] == expected
    return 1 + goals.index(desired[0])


@pytest.mark.parametrize(
    ("strategy", "window"), [("future", 2), ("future", 4), ("final", 2), ("final", 4)]
)
@given(data=st.data())
@settings(deadline=None, max_examples=5, phases=[Phase.explicit, Phase.generate])
def test_goals_and_rewards_are_those_of_a_loop_over_episodes(strategy, window, data):
    each = program(strategy, window)
    scripts, begin, ok = data.draw(plans(each.case))
    slow = each.load(scripts, begin, ok)
    for i, (row, fine) in enumerate(zip(begin, ok, strict=True)):
        each.collect(tf.constant(i), tf.constant(0, tf.int64))
        slow.collect(row, fine)
    places = {1000 * env + slow.rows[env][i][0]: (env, i) for env, i in slow.starts()}
    relabeled = 0
    for seed in range(6):
        windows = each.draws(seed)
        if places:
            for n, number in enumerate(uid(windows)):
                found = check(slow, windows, n, *places[number], strategy)
                relabeled += found > 0
        else:
            assert not np.asarray(windows.mask).any()
    assert not places or relabeled > 20  # of 60


def test_goals_are_uniform_and_the_share_is_right():
    each = program("future", 2)
    slow = each.load([[(5, "terminate")]] * 2, list(range(0, 30, 3)), [True] * 10)
    for row in range(0, 30, 3):
        each.collect(tf.constant(0), tf.constant(0, tf.int64))
        slow.collect(row, True)
    places = {1000 * env + slow.rows[env][i][0]: (env, i) for env, i in slow.starts()}
    found = collections.Counter()
    for seed in range(400):
        windows = each.draws(seed)
        for n, number in enumerate(uid(windows)):
            env, index = places[number]
            distance = check(slow, windows, n, env, index, "future")
            found[len(reached(slow, env, index)), distance] += 1
    total = sum(found.values())
    kept = sum(count for (_, distance), count in found.items() if not distance)
    assert abs(kept / total - 0.2) < 4 * (0.16 / total) ** 0.5
    for most in range(1, 6):
        counts = [found[most, distance] for distance in range(1, most + 1)]
        expected = sum(counts) / most
        assert all(abs(x - expected) < 4.5 * expected**0.5 for x in counts)


def test_xla_draws_the_same_goals():
    two = program("future", 4), program("future", 4, way="xla")
    for each in two:
        each.load([[(4, "truncate")]] * 2, list(range(0, 30, 3)), [True] * 10)
        for _ in range(8):
            each.collect(tf.constant(0), tf.constant(0, tf.int64))
    one, other = (tf.nest.flatten(each.draws(3)) for each in two)
    for x, y in zip(one, other, strict=True):
        np.testing.assert_array_equal(x, y)


class InTheGraph:
    """``BitFlip`` in TensorFlow."""

    max_episode_steps = 4
    observation_space = bit_flip.BitFlip(4).observation_space
    action_space = gs.Discrete(4)

    def reset(self, key):
        bits, goal = tf.unstack(tf.round(seeds.uniform([2, 4], key)))
        return (bits, goal), self._observe(bits, goal)

    def step(self, state, action, key):
        bits, goal = state
        bits = tf.abs(bits - tf.one_hot(action, 4))
        reward = self.compute_reward(bits, goal)
        return (bits, goal), self._observe(bits, goal), reward, reward == 0

    def compute_reward(self, achieved, desired):
        return -tf.cast(tf.reduce_any(achieved != desired, -1), tf.float32)

    def _observe(self, bits, goal):
        return {"observation": bits, "achieved_goal": bits, "desired_goal": goal}


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [("dqn", {"n_step": 3}), ("sac", {"normalize_observation": True})],
)
def test_an_environment_in_the_graph_is_one_program(algorithm, settings, tmp_path):
    settings = {"warmup_steps": 64, "network.hidden": (8,)} | settings
    run = tfb.train(
        algorithm,
        InTheGraph(),
        **{"num_envs": 4, "steps": 160, "eval_every": 0, "progress": False},
        replay={"her": "final", "prioritized": True, "capacity": 400},
        settings=settings | {"histograms": False, "batch_size": 16},
        compile="full",
        logdir=tmp_path,
    )
    assert np.isfinite(run.metrics["value/td_error"])


class NoRewards(bit_flip.BitFlip):
    compute_reward = None

    def step(self, action):
        raise AssertionError


class OneAtATime(bit_flip.BitFlip):
    def compute_reward(self, achieved, desired, info):
        return -float((achieved != desired).any())


class NoGoals(bit_flip.BitFlip):
    def __init__(self):
        super().__init__()
        self.observation_space = gs.Box(0, 1, (6,), np.float32)


@pytest.mark.parametrize(
    ("kind", "limit", "text"),
    [
        (NoRewards, 6, r"nor a wrapper has a method compute_reward\(achieved_goal"),
        (OneAtATime, 6, r"gives \(\); expected an array \[3\]"),
        (NoGoals, 6, "expected a Dict with achieved_goal, desired_goal, observation"),
        (bit_flip.BitFlip, None, "no time limit"),
    ],
)
def test_environments_without_goals_are_refused(kind, limit, text):
    def make():
        return kind() if limit is None else gymnasium.wrappers.TimeLimit(kind(), limit)

    with (
        ProcessEnv([make], 0) as env,
        pytest.raises(UserError, match=text),
    ):
        hindsight.of("future", 4, env)


def test_options_that_exclude_each_other_are_refused():
    options = {"env": bit_flip.make, "num_envs": 2, "steps": 2000}
    replay = {"her": "future", "stack": 2}
    with pytest.raises(UserError, match=r"not possible with replay.stack"):
        tfb.train("dqn", **options, replay=replay)


def train(env, tmp_path, **options):
    settings = {
        **{"warmup_steps": 100, "network": {"hidden": (8,), "core": "gru"}},
        **{"stored_state": False, "sequence_length": 6, "burn_in": 2},
        **{"batch_size": 8, "train_every": 4, "histograms": False},
    }
    return tfb.train(
        *("sac", env),
        **{"num_envs": 2, "eval_every": 0, "progress": False, "compile": "off"},
        **{"replay": {"her": "future", "capacity": 400}, "settings": settings},
        logdir=tmp_path,
        **options,
    )


def test_an_agent_trains_with_rewards_of_python(tmp_path):
    options = {
        "env": bit_flip.make,
        "num_envs": 2,
        "num_workers": 1,
        "eval_every": 0,
        "progress": False,
        "log_info": ("is_success",),
        "replay": {"her": "future", "capacity": 400},
        "settings": {"warmup_steps": 100, "network.hidden": (8,), "histograms": False},
    }
    run = tfb.train("dqn", steps=160, logdir=tmp_path, **options)
    assert np.isfinite(run.metrics["loss/td"])


def test_an_agent_with_memory_trains_with_rewards_of_python(tmp_path):
    run = train(bit_flip.make, tmp_path, steps=140, num_workers=1)
    assert np.isfinite(run.metrics["loss/critics"])


def test_a_stopped_and_resumed_run_equals_a_straight_one(tmp_path):
    straight = train(InTheGraph(), tmp_path / "straight", steps=160)
    stopped = train(InTheGraph(), tmp_path / "stopped", steps=120)
    resumed = tfb.train(resume=stopped.logdir, steps=160, env=InTheGraph())
    assert resumed.step == straight.step > stopped.step
    cases.assert_equal(cases.variables(resumed), cases.variables(straight))
