"""Whole episodes from real tasks of Spark: the same for any number of partitions."""

import os
import socket
import sys

import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.distribute import episode_env
from tests.install import extras
from tfagents_batch import algorithms, seeds
from tfagents_batch.distribute import spark_workers, wire
from tfagents_batch.distribute.agents import DistributedAgents, SampledTrajs
from tfagents_batch.distribute.spark_pool import SparkPool
from tfagents_batch.distribute.worker import Job
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.errors import EnvError, UserError
from tfagents_batch.offline.engines import session
from tfagents_batch.sources.episodes import Episodes
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.experiment import create_algorithm

extras.skip_without("spark")
# PySpark warns about versions of pandas.
pytestmark = pytest.mark.filterwarnings("ignore")
SETTINGS = {"network": {"hidden": [8]}}


@pytest.fixture
def spark(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with session.started("local[2,4]") as found:
        yield found


def policy_of(env="CartPole-v1"):
    config = RunConfig(algorithm="reinforce", num_envs=2, num_workers=0)
    with EnvRecipe(env).make(2, num_workers=0) as made:
        return create_algorithm(config, made.spec).policy


@pytest.mark.slow
def test_partitions_change_nothing_and_equal_episodes_alone(spark, tmp_path):
    policy, found = policy_of(), []
    for partitions in (1, 2):
        agents = DistributedAgents(spark, "CartPole-v1", partitions, num_envs=2)
        found.append(agents.sample(policy, episodes=6, seed=4))
    one, two = (each.trajectories() for each in found)
    assert one.keys() == two.keys() and one["action"].shape == (500, 6)
    for name, x in one.items():
        np.testing.assert_array_equal(x, two[name], err_msg=name)
    with EnvRecipe("CartPole-v1").make(2, num_workers=1) as env:
        collect = tf.function(Episodes(env, policy, 2).collect, jit_compile=True)
        for task in range(3):
            seed = tf.constant(seeds.iteration_seed(4, task, "pool/actions"))
            alone = collect(seed, tf.constant(0, tf.int64)).trajectory
            for name, x in wire.pack(alone).items():
                np.testing.assert_array_equal(x, part(one[name], name, task), name)
    returns = found[0].returns().toPandas().sort_values("episode")
    assert [*returns["episode"]] == [*range(6)]
    lengths = (one["steps/reward"][1:] != 0).sum(0)
    np.testing.assert_array_equal(returns["return"], lengths)
    stats = found[1].statistics()
    assert stats.episodes == 6 and stats.steps == lengths.sum()
    np.testing.assert_allclose(
        [stats.mean, stats.std, stats.least, stats.most],
        [lengths.mean(), lengths.std(ddof=1), lengths.min(), lengths.max()],
    )
    none = SampledTrajs(spark, spark.sparkContext.parallelize([], 1), None)
    assert none.statistics() == (0, None, 0.0, None, None, 0)

    make = episode_env.maker(tmp_path, fails=True)  # and nothing is tried again
    agents = DistributedAgents(spark, make, 1)
    with pytest.raises(Exception, match="broken on purpose"):
        agents.sample(policy_of(make), episodes=1, seed=1).trajectories()
    assert len([*tmp_path.iterdir()]) == 1


def part(x, name, task):
    """Return what two environments of a task played."""
    columns = slice(2 * task, 2 * task + 2)
    return x[columns] if name.startswith("state") else x[:, columns]


def test_a_run_that_needs_episodes_says_so(tmp_path):
    with pytest.raises(UserError, match=r"set --rollout.episodes, or use --pool=ray"):
        tfb.train("ppo", "CartPole-v1", pool="spark", steps=10, logdir=tmp_path)


def test_a_master_that_does_not_answer_is_refused_at_once():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        spark_workers.check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    text = "nothing answers at Spark's address 127.*such as spark://10.0.0.1:7077"
    with pytest.raises(UserError, match=text):
        spark_workers.check_master(f"spark://127.0.0.1:{port}")


@pytest.mark.slow
def test_the_python_of_sparks_workers_is_not_left_in_the_environment(monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    config = RunConfig(algorithm="reinforce", num_envs=1, num_workers=0)
    kind = algorithms.REGISTRY["reinforce"][0]
    job = Job(EnvRecipe("CartPole-v1"), config, kind, None, 0, 1)
    workers, _ = spark_workers.start(SparkPool(workers=1, tasks=1), job)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    workers.close()
    assert "PYSPARK_PYTHON" not in os.environ


def test_tasks_are_a_divisor_that_few_workers_share():
    tasks = [SparkPool(workers=n).check(12).tasks for n in (1, 2, 4, 5, 12)]
    assert tasks == [4, 4, 4, 6, 12]
    with pytest.raises(
        UserError, match=r"pool.tasks is 5; expected a divisor of the 12"
    ):
        SparkPool(tasks=5).check(12)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_is_the_same_for_any_workers_and_if_an_executor_is_killed(tmp_path):
    make = episode_env.maker(tmp_path / "marks", kills=True)
    losses = []
    for pool in (
        SparkPool(workers=1),
        SparkPool(workers=4),
        SparkPool(workers=2, master="local-cluster[2,1,1024]"),
    ):
        if pool.master:
            (tmp_path / "marks").mkdir()
        run = tfb.train(
            "ppo",
            make,
            pool=pool,
            steps=600,
            num_envs=4,
            rollout={"episodes": 8},
            eval_every=0,
            settings=SETTINGS,
            logdir=tmp_path / "logs",
        )
        losses.append(run.metrics["loss/total"])
    assert losses[0] == losses[1] == losses[2]
    assert len([*(tmp_path / "marks").iterdir()]) == 1  # an executor was killed


@pytest.mark.slow
def test_a_job_that_takes_too_long_is_an_error(tmp_path):
    pool = SparkPool(workers=1, job_seconds=60.0)
    make = episode_env.maker(tmp_path, hangs=True)
    with pytest.raises(EnvError, match=r"takes longer than 60 s"):
        tfb.train(
            "reinforce",
            make,
            pool=pool,
            steps=100,
            num_envs=1,
            eval_every=0,
            rollout={"episodes": 1},
            settings=SETTINGS,
            logdir=tmp_path / "logs",
            env_options={"step_seconds": 600},
        )
