"""A pool with workers in this process: what is collected, in which order, and when."""

import dataclasses
import json
import pathlib

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.distribute import local_workers
from tests.distribute.local_workers import LocalWorkers
from tests.support.counting import Counting
from tfagents_batch import algorithms, nest
from tfagents_batch.algorithms import dqn
from tfagents_batch.devices import machine
from tfagents_batch.distribute import (
    pool,
    pools,
    ray_workers,
    resources,
    spark_workers,
    wire,
    worker,
)
from tfagents_batch.distribute.ray_pool import RayPool
from tfagents_batch.distribute.spark_pool import SparkPool
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.errors import Stopped, UserError
from tfagents_batch.offline.reading import session
from tfagents_batch.sources.episodes import Episodes
from tfagents_batch.sources.replay import Replay
from tfagents_batch.sources.replay_settings import ReplaySettings
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.training.assembly import create_algorithm
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.log.logger import read_metrics
from tfagents_batch.types import VERSION, RemotePlan

SMALL = {"network": {"hidden": [8]}, "histograms": False}


def counting(length=6):
    return gymnasium.wrappers.TimeLimit(Counting(), length)


def job(algorithm="a2c", length=5, episodes=None, env=counting, **options):
    config = RunConfig(algorithm=algorithm, num_workers=0, **{"num_envs": 2} | options)
    kind = algorithms.REGISTRY[algorithm][0]
    return worker.Job(EnvRecipe(env), config, kind, None, length, episodes)


def first_order(**changes):
    return wire.Order(0, seed=7, start=3, step=0, version=1)._replace(**changes)


@pytest.mark.parametrize("episodes", [None, 4])
def test_a_worker_collects_what_its_source_collects_alone(episodes):
    made = worker.RolloutWorker(job(episodes=episodes))
    with EnvRecipe(counting).make(2, num_workers=0) as env:
        config = dataclasses.replace(job().config, seed=11)  # other weights at first
        policy = create_algorithm(config, env.spec).policy
        if episodes is None:
            source = Rollout(env, policy, 5, seed=3)
        else:
            source = Episodes(env, policy, episodes)
        for number, sent in ((7, wire.weights(policy)), (8, None)):
            piece = made.collect(first_order(seed=number), sent)
            alone = source.collect(number, tf.constant(0, tf.int64)).trajectory
            like = nest.map(lambda x: tf.TensorSpec(x.shape, x.dtype), alone)
            found = wire.unpack(like, piece.arrays, "worker 0")
            nest.map(np.testing.assert_array_equal, found, alone)
    made.close()


def test_no_two_workers_play_the_same_episodes():
    starts = [worker.start_seed(0, index) for index in range(50)]
    again = [worker.replaced_seed(seed, n) for seed in starts for n in (1, 2, 3)]
    assert len({*starts, *again}) == 200


def test_one_fetch_has_one_version_of_the_weights():
    source, algorithm, workers = pooled(RemotePlan("ahead", 2, 5, 2))
    source.publish(algorithm.policy)
    submit = workers.submit

    def publishing(*arguments):  # an update ends between two orders
        submit(*arguments)
        algorithm.policy.version.assign_add(1)
        source.publish(algorithm.policy)

    workers.submit = publishing
    source.fetch(0)
    source.fetch(20)
    assert [order.version for _, order in workers.given] == [0, 0, 2, 2]
    source.close()


def test_what_does_not_fit_is_refused_with_its_name():
    like = {"a": tf.TensorSpec([2]), "b": tf.TensorSpec([1], tf.int32)}
    good = {"a": np.zeros(2, np.float32), "b": np.zeros(1, np.int32)}
    assert wire.unpack(like, good, "worker 0").keys() == like.keys()
    wrong = [
        ({"a": good["a"]}, "which differ in b"),
        (good | {"a": np.zeros(3, np.float32)}, r"sent a as float32 \[3\]"),
        (good | {"b": np.zeros(1)}, r"sent b as float64 \[1\]; expected int32"),
    ]
    for arrays, text in wrong:
        with pytest.raises(UserError, match=text):
            wire.unpack(like, arrays, "worker 0")


def test_other_versions_are_refused():
    mine = wire.versions()
    wire.check_versions(mine, mine)
    for name in mine:
        with pytest.raises(UserError, match=f"has {name} .* the run has 0.0"):
            wire.check_versions(mine | {name: "0.0"}, mine)


def pooled(plan, count=2, order=None, **options):
    """Return a pool of workers with two environments each, and its algorithm."""
    made = job(length=plan.length, **options)
    workers = LocalWorkers(count, made, order)
    facts = workers._workers[0].facts()
    spec = worker.to_spec(facts, 2 * count)
    algorithm = create_algorithm(made.config, spec)
    envs = pool.RemoteEnvs(workers, spec)
    return pool.RemoteRollouts(envs, algorithm, plan, seed=5), algorithm, workers


def test_in_turn_every_rollout_has_the_newest_weights():
    source, algorithm, workers = pooled(RemotePlan("in turn", 2, 5, 2))
    source.publish(algorithm.policy)
    for update in range(3):
        batch = source.fetch(20 * update)
        assert batch.trajectory.action.shape == (1, 5, 4)
        assert np.all(batch.trajectory.behavior[VERSION] == update)
        algorithm.policy.version.assign_add(1)
        source.publish(algorithm.policy)
    assert [order.version for _, order in workers.given] == [0, 0, 1, 1, 2, 2]
    assert len({order.seed for _, order in workers.given}) == 6
    source.close()
    assert workers.closed


def test_free_workers_are_taken_as_they_come():
    source, algorithm, workers = pooled(RemotePlan("free", 1, 5, 2), order=[1])
    source.publish(algorithm.policy)
    versions = []
    for _ in range(3):  # worker 0 is never ready, and holds up nobody
        batch = source.fetch(0)
        versions += np.unique(batch.trajectory.behavior[VERSION]).tolist()
        algorithm.policy.version.assign_add(1)
        source.publish(algorithm.policy)
    assert versions == [0, 0, 1]  # its next order is given when one is taken
    assert [index for index, _ in workers.given] == [0, 1, 1, 1, 1]
    source.close()


def test_closing_ends_a_fetch_that_waits():
    source, algorithm, _ = pooled(RemotePlan("in turn", 2, 5, 2), order=[7])
    source.publish(algorithm.policy)
    source._envs.stop()
    with pytest.raises(Stopped):
        source.fetch(0)
    source.close()


def test_windows_of_a_replay_end_where_a_worker_was_replaced():
    plan = RemotePlan("ahead", 2, 3, 2, marks=True)
    settings = dqn.DQNConfig(n_step=3, batch_size=64)
    source, algorithm, workers = pooled(plan, algorithm="dqn", settings=settings)
    like = pools.without_marks(source.outline())
    wanted = algorithm.config.accepts()["windows"]
    replay = Replay(source, ReplaySettings(400, steps=3), like, wanted)
    stored = pools.StoringPool(source, replay)
    stored.publish(algorithm.policy)
    for fetch in range(12):
        if fetch in (4, 9):
            workers.lost.add(fetch % 2)
        batch = stored.fetch(12 * fetch)
        trajectory = nest.map(lambda x: tf.constant(x[0]), batch.trajectory)
        stored.store(
            batch._replace(
                steps=tf.constant(batch.steps, tf.int64),
                ok=tf.constant(True),
                trajectory=trajectory,
            ),
            tf.constant(12 * fetch, tf.int64),
        )
    found = stored.sample(None, tf.constant(1), tf.constant(144, tf.int64))
    life, step = (found.steps.observation[..., i].numpy() for i in (0, 1))
    mask = found.mask.numpy()
    assert mask.sum() > 100
    for counter in (life, step):  # one more after each step that happened
        np.testing.assert_array_equal((counter[1:] - counter[:-1])[mask], 1)
    source.close()


@pytest.fixture
def local(monkeypatch):
    """Start workers of this process instead of Ray's; return them."""
    made = []
    monkeypatch.setattr(pools, "start", local_workers.starter(made))
    return made


CASES = {
    "ppo": {"rollout": {"length": 16}},
    "a2c": {"overlap": True},
    "ga3c": {},
    "reinforce": {"rollout": {"episodes": 4}},
    "dqn": {
        "settings": SMALL
        | {"warmup_steps": 40, "batch_size": 8}
        | {"normalize_observation": True, "normalize_return": True}
    },
}


@pytest.mark.parametrize("algorithm", CASES)
def test_every_kind_of_experience_trains_from_a_pool(local, algorithm, tmp_path):
    options = {"settings": SMALL} | CASES[algorithm]
    options |= {"num_envs": 4, "num_workers": 0, "eval_every": 0, "steps": 200}
    options |= {"env": counting, "logdir": tmp_path}
    one = tfb.train(algorithm, pool=RayPool(workers=2), **options)
    assert 200 <= one.step < 260 and one.metrics["grad/updates"] > 0
    in_turn = algorithm in ("ppo", "reinforce")
    lines = read_metrics(one.logdir)
    lags = [line["pool/lag"] for line in lines if "pool/lag" in line]
    assert (max(lags) == 0) == in_turn
    if in_turn:  # then nothing depends on threads
        two = tfb.train(algorithm, pool=RayPool(workers=2), **options)
        assert one.metrics["loss/total"] == two.metrics["loss/total"]
    saved = json.loads((pathlib.Path(one.logdir) / "config.json").read_text())
    assert saved["config"]["pool"] == "ray" and saved["config"]["pool_workers"] == 2


def test_a_resumed_run_plays_other_episodes(local, linear, tmp_path):
    options = {"num_envs": 4, "num_workers": 0, "eval_every": 0}
    options |= {"rollout": {"length": 16}, "steps": 128, "logdir": tmp_path}
    run = tfb.train(linear, env="CartPole-v1", pool="ray", pool_workers=2, **options)
    more = tfb.train(resume=run.logdir, steps=256)
    assert run.step < more.step < 400
    starts = [{order.start for _, order in each.given} for each in local]
    assert len(starts) == 2 and not starts[0] & starts[1]


WRONG = {
    "a divisor of the 8 environments": {"pool": RayPool(workers=3)},
    "did you mean 'pool.cpus'": {"pool": "ray", "pool_options": {"cpu": 2}},
    "pool_workers is 4, but pool is none": {"pool_workers": 4},
    "both given": {"pool": RayPool(workers=2), "pool_workers": 2},
    "the pool has 3 workers": {
        "pool": "ray",
        "pool_workers": 3,
        "pool_options": {"workers": 2},
    },
    "create their own": {"env": gymnasium.make("CartPole-v1")},
    "env is a list": {"env": [counting] * 8},
    "rollout.wait_for is 2": {"rollout": {"wait_for": 2}},
    "queue.predictors is 2": {"algorithm": "ga3c", "queue": {"predictors": 2}},
    "leave one of them out": {"profile": True},
    "pool is 'mesos'": {"pool": "mesos"},
    "max_restarts": {"pool": "ray", "pool_options": {"max_restarts": -1}},
}


@pytest.mark.parametrize("pool", [SparkPool(workers=1), RayPool(workers=1)])
def test_episodes_without_a_time_limit_are_refused_before_the_engine_starts(
    local, pool, tmp_path
):
    options = {"rollout": {"episodes": 2}, "num_envs": 2, "eval_every": 0, "steps": 9}
    with pytest.raises(UserError, match=r"no common time limit.*give them one"):
        tfb.train("ppo", env=Counting, pool=pool, logdir=tmp_path, **options)
    assert not local


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_is_said_before_anything_starts(local, text, tmp_path):
    options = {"algorithm": "ppo", "env": counting, "eval_every": 0} | WRONG[text]
    options = {"pool": RayPool(workers=2)} | options
    if text.startswith("pool_workers"):
        del options["pool"]
    with pytest.raises(UserError, match=text):
        tfb.train(steps=100, logdir=tmp_path, **options)
    assert not local and not list(tmp_path.iterdir())


def test_a_master_beside_the_session_of_spark_submit_is_refused(monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(machine, "available_bytes", lambda: 0)
    with pytest.raises(UserError, match=r"has a session of Spark.*leave master out"):
        spark_workers.start(SparkPool(workers=16, master="spark://a:7077"), job())


@pytest.mark.parametrize(
    ("start", "settings", "text"),
    [
        (ray_workers.start, RayPool(workers=6), "6 workers of 762.9 MiB"),
        (ray_workers.start, RayPool(workers=3, memory=2**31), "3 workers of 2.00 GiB"),
        (spark_workers.start, SparkPool(workers=6), "6 workers of 762.9 MiB"),
    ],
)
def test_more_workers_than_memory_are_refused(monkeypatch, start, settings, text):
    monkeypatch.setattr(machine, "available_bytes", lambda: 4 * 2**30)
    # Other tests of this process may share a session of Spark.
    monkeypatch.setattr(session, "is_given", lambda: False)
    resources.check_memory(5)
    with pytest.raises(UserError, match=f"{text} need more than the 4.00 GiB of free"):
        start(settings, job())
