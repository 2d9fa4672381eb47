"""Normalization in algorithms with a replay, and in PQN."""

import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.algorithms import cases
from tests.algorithms.cases import RUNS, collect, experience, named
from tests.nn.cases import ACTIONS
from tfagents_batch import config, nest
from tfagents_batch.algorithms import REGISTRY
from tfagents_batch.algorithms.shared import roles
from tfagents_batch.nn.normalizers import FLOOR
from tfagents_batch.training.assembly import Experiment
from tfagents_batch.training.config import RunConfig, with_options
from tfagents_batch.types import VERSION

ON = {"normalize_observation": True, "normalize_return": True}
# Algorithms, and their actions.
AGENTS = [
    *(("dqn", "discrete"), ("sac", "box"), ("sac", "discrete")),
    *(("td3", "box"), ("ddpg", "box"), ("pqn", "discrete")),
]
STEP = tf.constant(5000, tf.int64)


def make(name, kind=None, **settings):
    action = None if kind is None else ACTIONS[kind]
    return cases.make(name, action, gamma=0.9, histograms=False, **settings)


def piece(trajectory, begin, end):
    """Return the steps from ``begin`` to ``end``, and the actions between them."""
    steps = nest.map(lambda x: x[begin : end + 1], trajectory.steps)
    action = nest.map(lambda x: x[begin:end], trajectory.action)
    return trajectory._replace(steps=steps, action=action, behavior={})


def with_failure(trajectory, row):
    """Return a trajectory in which all environments failed in a row.

    It is the first one of a run: before its first step nothing was earned.
    """
    steps, rows = trajectory.steps, np.arange(trajectory.steps.first.shape[0])
    failed, unpaid = (x[:, np.newaxis] for x in (rows == row, rows % row == 0))
    return trajectory._replace(
        steps=steps._replace(
            reward=tf.where(unpaid, 0.0, steps.reward),
            first=steps.first | failed,
            truncated=steps.truncated | failed,
        )
    )


def reference(trajectory, gamma=0.9):
    """Return the observations and running returns of a trajectory, by slow loops."""
    steps = nest.map(lambda x: x.numpy(), trajectory.steps)
    seen, reached, last = [], [], []
    for stream in range(steps.first.shape[1]):
        total = 0.0
        for t in range(len(steps.first)):
            first, ended = steps.first[t, stream], steps.last[t, stream]
            total = 0.0 if first else gamma * total + float(steps.reward[t, stream])
            follows = t > 0 and not (first or steps.last[t - 1, stream])
            if follows:
                reached.append(total)
            if t < len(steps.first) - 1 and not (first and ended):
                seen.append(steps.observation[t, stream])
        last.append(total)
    return np.array(seen), np.array(reached), np.array(last)


def assert_moments(variables, prefix, samples):
    """Check that saved statistics are those of samples."""
    found = {k: variables[f"{prefix}/{k}"] for k in ("count", "mean", "sum_of_squares")}
    assert found["count"] == len(samples)
    np.testing.assert_allclose(found["mean"], samples.mean(0), rtol=1e-5, atol=1e-6)
    variance = found["sum_of_squares"] / (len(samples) - 1)
    np.testing.assert_allclose(variance, samples.var(0, ddof=1), rtol=1e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_statistics_are_those_of_all_collected_steps(compiled):
    agent = make("dqn", **ON)
    trajectory = with_failure(collect(agent, length=4), 7)
    observe = tf.function(agent.learner.observe, jit_compile=compiled, autograph=False)
    for begin, end in ((0, 1), (1, 2), (2, 8), (8, 12)):
        observe(piece(trajectory, begin, end), tf.constant(True))
        observe(piece(trajectory, begin, end), tf.constant(False))  # void
    seen, reached, last = reference(trajectory)
    variables = named(agent)
    assert_moments(variables, "statistics/observations/0", seen)
    assert_moments(variables, "statistics/returns", reached)
    np.testing.assert_allclose(variables["run/return"], last, rtol=1e-5, atol=1e-6)


def test_statistics_of_rewards_alone_need_no_running_return():
    agent = make("sac", normalize_return="per_step")
    trajectory = collect(agent)
    agent.learner.observe(piece(trajectory, 0, 12))
    reward = trajectory.reward.numpy()[trajectory.mask.numpy()]
    assert_moments(named(agent), "statistics/returns", reward)
    assert "run/return" not in named(agent)


def test_the_running_return_of_pqn_is_recorded_when_it_acts():
    agent = make("pqn", **ON)
    trajectory = collect(agent)
    agent.update(trajectory, 0, STEP)
    seen, reached, _ = reference(trajectory)
    assert_moments(named(agent), "statistics/observations/0", seen)
    assert_moments(named(agent), "statistics/returns", reached)


def by_hand(trajectory, variables, clip=10.0, reward_clip=10.0):
    """Return a trajectory that is normalized by slow loops."""
    count = variables["statistics/observations/0/count"]
    mean = variables["statistics/observations/0/mean"]
    square = variables["statistics/observations/0/sum_of_squares"]
    seen = np.array(trajectory.steps.observation, np.float64)
    for entry in range(seen.shape[-1]):
        std = max(np.sqrt(square[entry] / (count - 1)), FLOOR)
        scaled = (seen[..., entry] - mean[entry]) / std
        seen[..., entry] = np.minimum(np.maximum(scaled, -clip), clip)
    count = variables["statistics/returns/count"]
    std = np.sqrt(variables["statistics/returns/sum_of_squares"] / (count - 1))
    reward = trajectory.steps.reward.numpy() / std
    reward = np.minimum(np.maximum(reward, -reward_clip), reward_clip)
    steps = trajectory.steps._replace(
        observation=tf.constant(seen, tf.float32),
        reward=tf.constant(reward, tf.float32),
    )
    return trajectory._replace(steps=steps)


@pytest.mark.parametrize(("name", "kind"), AGENTS)
def test_an_update_is_that_on_observations_and_rewards_normalized_by_hand(name, kind):
    clips = {"observation_clip": 1.5, "reward_clip": 0.4}
    more = {} if name == "pqn" else {"n_step": 3}
    agent, plain = make(name, kind, **ON, **clips, **more), make(name, kind, **more)
    trajectory = collect(agent)
    if name == "pqn":
        windows = trajectory
    else:
        agent.learner.observe(piece(trajectory, 0, 12))
        windows = experience(agent, seed=1)
    found = agent.update(windows, 0, STEP)  # PQN observes here
    scaled = by_hand(windows, named(agent), *clips.values())
    assert np.max(np.abs(scaled.steps.reward)) == pytest.approx(0.4)
    expected = plain.update(scaled, 0, STEP)
    after, wanted = named(agent), named(plain)
    assert {*after} - {*wanted} == {k for k in after if k.startswith(("stat", "run/"))}
    for key, value in wanted.items():
        np.testing.assert_allclose(after[key], value, atol=1e-5, err_msg=key)
    for key, value in expected.metrics.items():
        np.testing.assert_allclose(
            *map(mean, (found.metrics[key], value)), rtol=1e-4, atol=1e-5, err_msg=key
        )
    assert "normalize/reward_std" in found.metrics


def mean(metric):
    """Return the number of a metric, also of a weighted one."""
    return getattr(metric, "total", metric)


@pytest.mark.parametrize(("name", "kind"), AGENTS)
def test_a_policy_acts_by_normalized_observations(name, kind):
    options = {"exploration": "gaussian"} if name == "td3" else {}
    agent, plain = make(name, kind, **ON, **options), make(name, kind, **options)
    trajectory = collect(agent)
    agent.learner.observe(trajectory)
    scaled = by_hand(trajectory, named(agent))
    size = trajectory.steps.first.shape[1]
    results = []
    for policy, steps in ((agent.policy, trajectory), (plain.policy, scaled)):
        step = nest.map(lambda x: x[3], steps.steps)
        state = policy.initial_state(size)
        noise = nest.map(lambda x: x[0], policy.noise((1, size), 0))
        taken = [policy.act(step, state, noise, STEP, x)[0] for x in (True, False)]
        memory = policy.memory(size, False)
        taken.append(policy.decide(step, memory, STEP).action)
        if kind == "discrete":
            taken.append(policy.probabilities(step, state, STEP))
        elif name != "ddpg":
            taken.append(policy.log_density(step, state, taken[0], STEP))
        if name == "sac" and kind == "box":
            normal = tf.ones([size, policy.bounds.size])
            sampled = policy.decide(step, policy.memory(size, True), STEP, normal)
            taken += [sampled.action, sampled.log_density]
        results.append(taken)
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "kind"), AGENTS)
def test_without_it_nothing_is_added(name, kind):
    agent = make(name, kind)
    assert agent.policy.observations is None
    assert not [k for k in named(agent) if k.startswith(("statistics/", "run/"))]
    trajectory = collect(agent)
    assert not trajectory.behavior

    def begin(trajectory):
        agent.learner.observe(trajectory)
        taken, _ = agent.learner.begin(trajectory, STEP)
        assert taken is trajectory

    graph = tf.function(begin, autograph=False).get_concrete_function(trajectory).graph
    rate = agent.learner.set_learning_rate
    usual = tf.function(lambda _: rate(STEP) and None, autograph=False)
    usual = usual.get_concrete_function(trajectory).graph
    kinds = [[x.type for x in g.get_operations()] for g in (graph, usual)]
    assert kinds[0] == kinds[1]


def test_alarms_of_values_allow_for_the_largest_scaled_reward():
    for name, usual in (("dqn", 10), ("pqn", 10), ("sac", 100), ("td3", 100)):
        for clip, largest in ((usual / 2, usual), (usual * 2, usual * 2)):
            config = make(name, normalize_return=True, reward_clip=clip).config
            (limit,) = (x for x in config.alarms() if x.name == "values_diverge")
            assert limit.above == pytest.approx(largest / (1 - 0.9))


def test_agents_of_rows_need_raw_observations_and_with_critics_raw_rewards():
    on = make("sac", **ON).config
    for name, wrong in (("bc", {"normalize_observation"}), ("iql", {*ON})):
        action = {"action": ACTIONS["box"]}
        old = cases.make(name, **action).config
        found = roles.differences(old, on, box=True)
        assert {k for k in found if k.startswith("normalize")} == wrong
        assert all(found[k] == (True, False) for k in wrong)


def test_marks_of_a_pool_do_not_change_the_statistics():
    one, other = (make("dqn", **ON) for _ in range(2))
    trajectory = piece(collect(one), 0, 12)
    marks = {VERSION: tf.zeros(trajectory.mask.shape, tf.int64)}
    one.learner.observe(trajectory)
    other.learner.observe(trajectory._replace(behavior=marks))
    cases.assert_same((one, other))


@pytest.mark.parametrize("compile", ["full", "off"])
def test_a_program_shows_the_learner_all_that_the_replay_stores(compile):
    options = dict(RUNS["dqn"])
    settings = config.replace(REGISTRY["dqn"][1](), options.pop("settings") | ON)
    run = RunConfig(algorithm="dqn", env="tf/CartPole-v1", num_envs=4, eval_every=0)
    off = {"steps": 300, "compile": compile, "compile_cache": False}
    run = with_options(run, options | off | {"settings": settings}).check()
    with Experiment(run, run.recipe()) as experiment:
        experiment.start(0)
        while experiment.program.step < 200:
            experiment.program(200, 10_000)
        source, variables = experiment.source, named(experiment.algorithm)
        sizes, count = source._sizes(), int(source._span.read().filled)
        begin = sizes.place(tf.range(4), tf.ones([4], tf.int32))  # row 0 is a gap
        steps = source._steps.read(begin, count).steps
    seen = steps.observation.numpy()[:-1].reshape(-1, 4)
    assert_moments(variables, "statistics/observations/0", seen)
    whole = piece(collect(make("dqn")), 0, 12)._replace(steps=steps)
    assert_moments(variables, "statistics/returns", reference(whole, 0.99)[1])


# A quick one, with a core, is in tests/algorithms/test_runs.py.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["dqn", "pqn", "sac", "td3"])
def test_a_stopped_and_resumed_run_equals_a_straight_one(name, tmp_path):
    options = {"settings": RUNS[name]["settings"] | ON, "compile": "off"}
    straight = cases.train(name, tmp_path / "straight", steps=300, **options)
    stopped = cases.train(name, tmp_path / "stopped", steps=200, **options)
    resumed = tfb.train(resume=stopped.logdir, steps=300)
    found, expected = map(cases.variables, (resumed, straight))
    cases.assert_equal(found, expected)
    assert found["statistics/observations/0/count"] > 200
    agent = tfb.load(resumed.logdir)  # in another number of environments
    raw = np.ones([3, *agent.observation_space.shape], np.float32)
    policy = agent._policy
    taken = policy.observations.moments[0].mean.numpy()
    action = agent.predict(raw)[0]
    policy.observations.moments[0].mean.assign(taken + 0.5)
    shifted = agent.predict(raw + 0.5)[0]
    np.testing.assert_allclose(action, shifted, rtol=1e-4, atol=1e-4)
