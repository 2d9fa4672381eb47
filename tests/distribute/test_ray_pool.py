"""A pool of real actors of Ray, some of which are killed or stopped while they work."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from unittest import mock

import psutil
import pytest

from tests.install import extras
from tests.support import python
from tfagents_batch.distribute import ray_session, wire
from tfagents_batch.distribute.ray_pool import RayPool
from tfagents_batch.distribute.ray_workers import RayWorkers
from tfagents_batch.errors import UserError

extras.skip_without("ray")

# Environments are stepped in a process below the actor.
FAULTS = """
import json, os, signal, sys
import gymnasium
import tfagents_batch as tfb
from tfagents_batch.algorithms import ppo

folder = sys.argv[1]

class Fault(gymnasium.Wrapper):
    count = 0

    def step(self, action):
        self.count += 1
        for steps, number in ((40, signal.SIGKILL), (90, signal.SIGSTOP)):
            mark = os.path.join(folder, str(int(number)))
            if self.count == steps:
                try:
                    os.mkdir(mark)
                except FileExistsError:
                    continue
                os.kill(os.getppid(), number)
        return super().step(action)

class Mine(ppo.PPO):  # an algorithm of this program
    Config = ppo.PPOConfig

def make():
    return Fault(gymnasium.make("CartPole-v1"))

if __name__ == "__main__":
    pool = tfb.RayPool(workers=2, answer_seconds=8, start_seconds=400)
    run = tfb.train(
        Mine, env=make, steps=1024, num_envs=4, pool=pool, logdir=folder + "/logs",
        rollout={"length": 32}, eval_every=0, settings={"network": {"hidden": [8]}},
        log_every=128,
    )
    lines = [json.loads(x) for x in open(run.logdir + "/metrics.jsonl")]
    events = [x for x in lines if x.get("event") == "pool_worker_restarted"]
    found = {"step": run.step, "events": events, "lag": run.metrics["pool/lag"]}
    print(json.dumps(found))
"""


@pytest.fixture
def folder():
    """Return a folder for temporary files whose name is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="t") as found:
        yield found


@pytest.mark.timeout(600)  # Ray takes minutes to start on a machine that is busy
def test_actors_that_are_killed_or_stopped_are_replaced(folder, tmp_path):
    (tmp_path / "marks").mkdir()
    begin = time.time()
    env = os.environ | {"TMPDIR": folder}
    done = python.run(FAULTS, tmp_path / "marks", timeout=540, env=env)
    assert os.listdir(folder) == []  # nothing of Ray is left
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["step"] >= 1024 and found["lag"] == 0
    reasons = sorted(event["reason"] for event in found["events"])
    assert len(reasons) == 2, reasons
    assert "did not answer" in " ".join(reasons)
    assert {x.name for x in (tmp_path / "marks").iterdir()} >= {"9", "19"}
    marker = str(tmp_path / "marks")
    for process in psutil.process_iter(["cmdline", "name", "create_time"]):
        assert marker not in " ".join(process.info["cmdline"] or ())
        if process.info["create_time"] > begin:
            assert process.info["name"] not in ("raylet", "gcs_server")


STARTED = """
import json, sys
import psutil
from tfagents_batch.distribute import ray_session

with ray_session.session(None, 1) as ray:
    class Actor:
        def alive(self):
            return True

    actor = ray.remote(Actor).remote()
    ray.get(actor.alive.remote())
    children = psutil.Process().children(recursive=True)
    print(json.dumps({x.pid: x.name() for x in children}), flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_nothing_of_a_local_ray_outlives_a_killed_learner(folder):
    command = [sys.executable, "-c", STARTED]
    env = os.environ | {"TMPDIR": folder}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=env, **pipes) as learner:
        names = json.loads(learner.stdout.readline())
        processes = [psutil.Process(int(x)) for x in names]
        assert os.listdir(folder)
        learner.kill()
    assert {"raylet", "ray::Actor", "ray::DashboardAgent"} <= {*names.values()}
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert not alive, [names[str(x.pid)] for x in alive]
    assert os.listdir(folder) == []


@pytest.mark.slow
def test_an_actor_collects_what_a_rollout_of_this_process_collects():
    code = """
import numpy as np
import tensorflow as tf
from tfagents_batch import algorithms, seeds
from tfagents_batch.distribute import ray_workers, wire, worker
from tfagents_batch.distribute.ray_pool import RayPool
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.assembly import create_algorithm

recipe = EnvRecipe("CartPole-v1")
config = RunConfig(algorithm="ppo", num_envs=4, num_workers=1)
job = worker.Job(recipe, config, algorithms.REGISTRY["ppo"][0], None, 64, None)
workers, facts = ray_workers.start(RayPool(workers=1), job)
with recipe.make(4, num_workers=1) as env:
    policy = create_algorithm(config, env.spec).policy
    alone = tf.function(Rollout(env, policy, 64, seed=3).collect, jit_compile=True)
    for number in range(5):
        order = wire.Order(number, seed=number + 7, start=3, step=0, version=1)
        workers.submit(0, order, wire.weights(policy))
        pieces = []
        while not pieces:
            pieces = [piece for _, piece in workers.wait(1.0)]
        step = tf.constant(0, tf.int64)
        mine = wire.pack(alone(tf.constant(number + 7), step).trajectory)
        for name, x in pieces[0].arrays.items():
            np.testing.assert_array_equal(x, mine[name], name)
workers.close()
print(len(mine), "arrays are equal")
"""
    assert "arrays are equal" in python.run(code, timeout=240).stdout


def test_an_address_where_nothing_answers_is_refused_at_once():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for address, text in (
        (f"127.0.0.1:{port}", "nothing answers at Ray's address"),
        ("10.0.0.1", "expected host:port"),
    ):
        with pytest.raises(UserError, match=text):
            ray_session.check_address(address)


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (RuntimeError("Version mismatch: Ray 2.1, Python 3.9"), "the same versions"),
        (ConnectionError("Failed to connect"), "set RAY_AUTH_TOKEN"),
    ],
)
def test_a_cluster_that_refuses_says_what_to_do(monkeypatch, error, advice):
    ray = ray_session.require()

    def init(**_):
        raise error

    monkeypatch.setattr(ray, "init", init)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(UserError, match=advice),
        ray_session.session(f"127.0.0.1:{server.getsockname()[1]}", 1),
    ):
        pass


def test_a_local_ray_that_does_not_start_is_one_line(monkeypatch, folder):
    ray = ray_session.require()
    monkeypatch.setattr(tempfile, "tempdir", folder)

    def init(**_):
        raise RuntimeError("The current node timed out during startup.\nSee logs")

    monkeypatch.setattr(ray, "init", init)
    text = r"^Ray does not start on this machine \(.*The current.*startup\.\); see .*$"
    with (
        pytest.raises(UserError, match=text),
        ray_session.session(None, 1),
    ):
        pass
    assert os.listdir(folder) == []


def test_a_full_memory_of_ray_is_one_line():
    ray = mock.MagicMock(exceptions=ray_session.require().exceptions)
    ray.put.side_effect = ray.exceptions.ObjectStoreFullError("full\nof arrays")
    workers = RayWorkers(ray, RayPool(workers=1), b"")
    order = wire.Order(0, seed=7, start=3, step=0, version=1)
    with pytest.raises(UserError, match=r"^weights .*give Ray more memory.*$"):
        workers.submit(0, order, {})


def test_workers_with_other_environments_are_refused():
    ray = mock.MagicMock(exceptions=ray_session.require().exceptions)
    ray.wait.side_effect = lambda refs, **_: (refs, [])
    ray.get.side_effect = [{"max_episode_steps": 500}, {"max_episode_steps": 200}]
    workers = RayWorkers(ray, RayPool(workers=2), b"")
    with pytest.raises(UserError, match=r"worker 1 .*: 200.*worker 0 .*: 500"):
        workers.facts()


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(UserError, match=r'pip install "tfagents_batch\[ray\]"'):
        ray_session.require()
