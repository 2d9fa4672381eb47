"""Whole episodes from real tasks of Spark: the same for any number of partitions."""

import os
import pathlib
import socket
import sys

import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.distribute import episode_env
from tests.install import extras
from tests.support import brief
from tfagents_batch import algorithms
from tfagents_batch.distribute import spark_workers, wire
from tfagents_batch.distribute.spark_pool import SparkPool
from tfagents_batch.distribute.wire import Order
from tfagents_batch.distribute.worker import Job
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.errors import EnvError, UserError
from tfagents_batch.offline.reading import session
from tfagents_batch.sources.episodes import Episodes
from tfagents_batch.training.assembly import create_algorithm
from tfagents_batch.training.config import RunConfig

extras.skip_without("spark")
# PySpark warns about versions of pandas.
pytestmark = pytest.mark.filterwarnings("ignore")
EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/reinforce_on_spark.py"
SETTINGS = {"network": {"hidden": [8]}}


@pytest.fixture
def spark(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with session.started("local[2,4]") as found:
        yield found


def job_of(num_envs):
    """Return a job of REINFORCE on CartPole; a task plays an episode of each env."""
    config = RunConfig(algorithm="reinforce", num_envs=num_envs, num_workers=0)
    kind = algorithms.REGISTRY["reinforce"][0]
    return Job(EnvRecipe("CartPole-v1"), config, kind, None, 0, num_envs)


@pytest.mark.slow
def test_partitions_change_nothing_and_equal_episodes_alone(spark):
    job = job_of(2)
    with job.recipe.make(2, num_workers=1) as env:
        policy = create_algorithm(job.config, env.spec).policy
        collect = tf.function(
            Episodes(env, policy, 2).collect, jit_compile=True, autograph=False
        )
        alone = [
            wire.pack(collect(tf.constant(seed), tf.constant(0, tf.int64)).trajectory)
            for seed in range(3)
        ]
    found = []
    for partitions in (1, 2):
        workers, _ = spark_workers.start(SparkPool(workers=partitions, tasks=3), job)
        for task in range(3):
            order = Order(task, seed=task, start=0, step=0, version=1)
            workers.submit(task, order, wire.weights(policy))
        pieces = {}
        while not pieces:
            pieces = dict(workers.wait(1.0))
        workers.close()
        found.append([pieces[task].arrays for task in range(3)])
    for one, two, mine in zip(*found, alone, strict=True):
        for name, x in one.items():
            np.testing.assert_array_equal(x, two[name], name)
            # One value differed in its last bit from that of this process.
            np.testing.assert_allclose(x, mine[name], 1e-5, 1e-6, err_msg=name)


@pytest.mark.slow
def test_a_task_whose_environment_fails_is_not_tried_again(tmp_path):
    (tmp_path / "marks").mkdir()
    with pytest.raises(EnvError, match="broken on purpose"):
        tfb.train(
            "reinforce",
            episode_env.maker(tmp_path / "marks", fails=True),
            pool=SparkPool(workers=1),
            steps=100,
            num_envs=1,
            eval_every=0,
            rollout={"episodes": 1},
            settings=SETTINGS,
            logdir=tmp_path / "logs",
        )
    assert len([*(tmp_path / "marks").iterdir()]) == 1


@pytest.mark.slow
def test_the_example_trains_on_spark(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = EXAMPLE.read_text().replace("PERFECT = 498", "PERFECT = 1")
    brief.run(code, tmp_path)
    first, _ = capsys.readouterr().out.splitlines()
    assert "1 jobs, mean return" in first


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
    workers, _ = spark_workers.start(SparkPool(workers=1, tasks=1), job_of(1))
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
