"""Asynchronous training: exact counts, failures of any thread, and the queue."""

import contextlib
import dataclasses
import os
import signal
import threading
import time
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.programs.test_program import PythonInside
from tests.support import growth, linear
from tests.support.counting import Counting
from tfagents_batch import algorithms
from tfagents_batch.algorithms import a2c
from tfagents_batch.devices.placement import HOST
from tfagents_batch.errors import EnvError, UserError
from tfagents_batch.nn import networks
from tfagents_batch.programs.host import HostProgram
from tfagents_batch.sources.bounded_queue import BoundedQueue, Stopping
from tfagents_batch.sources.predicting import PredictorChoice, PredictorNumbers
from tfagents_batch.sources.queue_settings import QueueSettings
from tfagents_batch.training.assembly import Experiment
from tfagents_batch.training.config import RunConfig, with_options

pytestmark = pytest.mark.usefixtures("linear")


def make(
    env=lambda: Counting(), algorithm="linear", predictors=1, network=None, **options
):
    """Return an experiment of predictors with 2 environments, each in a worker."""
    source = QueueSettings(
        6, predictors, rollouts_per_call=2, train_batch=10, capacity=40
    )
    count = 2 * predictors
    config = RunConfig(algorithm, "counting", source=source, num_envs=count)
    config = with_options(config, {"eval_every": 0, "compile": "off", **options})
    return Experiment(config, config.recipe(env), network=network)


def numbers(metrics):
    """Return the numbers that a call reports, see ``PredictorNumbers``."""
    return tuple(metrics[f"async/{name}"].sum for name in PredictorNumbers._fields)


def alive():
    return [
        t.name for t in threading.enumerate() if t.name.startswith("tfagents_batch-")
    ]


def recording(monkeypatch):
    """Keep every trajectory of an update; returns the list."""
    kept, update = [], linear.Linear.update

    def keep(observation, action, reward, mask, last):
        kept.append((observation, action, reward, mask, last))
        return np.float32(0)

    def recorded(self, trajectory, seed, step):
        steps = trajectory.steps
        parts = steps.observation, trajectory.action, trajectory.reward
        parts += trajectory.mask, steps.last
        zero = tf.numpy_function(keep, parts, tf.float32)
        zero.set_shape([])
        updated = update(self, trajectory, seed, step)
        total = updated.metrics["loss/total"] + zero
        return updated._replace(metrics=updated.metrics | {"loss/total": total})

    monkeypatch.setattr(linear.Linear, "update", recorded)
    return kept


def test_every_transition_is_learned_from_once_while_the_numbers_change(monkeypatch):
    kept, seen = recording(monkeypatch), set()
    queue = {"adjust": True, "adjust_seconds": 0.001}
    with make(predictors=2, queue=queue) as experiment:
        experiment.start(0)
        deadline = time.monotonic() + 60
        while len(seen) < 4 and time.monotonic() < deadline:
            seen.add(numbers(experiment.program(10**9, 10)))
        step, traces = experiment.program.step, experiment.program.traces()
    assert traces == 1 and len(seen) > 3
    rows = []
    for observation, action, reward, mask, last in kept:
        t, b = np.nonzero(mask)
        life, episode = observation[t, b].T
        np.testing.assert_array_equal(reward[t, b], 10 * life + action[t, b])
        np.testing.assert_array_equal(last[t + 1, b], episode == 4)  # of 5 steps
        rows += life.astype(int).tolist()
    # Each of the 4 environments was in every step of its life once.
    lives, counts = np.unique(rows, return_counts=True)
    assert step == len(rows) and counts.max() <= 4 and counts[0] == 4
    assert lives.tolist() == list(range(lives.size))
    assert np.all(np.diff(counts) <= 0)


def broken(*arguments):
    raise ZeroDivisionError


def test_an_exception_in_a_predictor_ends_the_run_with_it():
    with make() as experiment:
        experiment.start(0)
        experiment.program(10**9, 2)
        experiment.source._refresh[0] = broken
        with pytest.raises(ZeroDivisionError):
            experiment.program(10**9, 10**6)
        pids = experiment.source.parts[0].env.pids
    assert not alive()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_exception_while_fetching_ends_the_run_with_it():
    names = "start", "check", "report", "publish", "close"
    source = types.SimpleNamespace(fetch=broken)
    vars(source).update(dict.fromkeys(names, lambda *_: None))
    algorithm = types.SimpleNamespace(policy=None, update=broken)
    program = HostProgram(source, algorithm, "off", "", 0, 0, HOST)
    with contextlib.closing(program), pytest.raises(ZeroDivisionError):
        program(10**9, 10**6)
    assert not alive()


class Single(Counting):
    """Episodes of one step."""

    def step(self, action):
        observation, reward, *_ = super().step(action)
        return observation, reward, True, False, {}


def test_episodes_of_one_step_are_learned_from():
    with make(env=lambda: Single()) as experiment:
        experiment.start(0)
        metrics = experiment.program(10**9, 20)
        assert metrics["episode/count"].value == experiment.program.step > 0
        length = metrics["episode/length_mean"]
        assert length.sum == length.count == metrics["episode/count"].value


class Endless(Counting):
    """Creates a file when it starts, and has no end."""

    def __init__(self, path):
        super().__init__(seconds=0.005)
        self._path = path

    def reset(self, **arguments):
        self._path.touch()
        return super().reset(**arguments)

    def step(self, action):
        observation, reward, *_ = super().step(action)
        return observation, reward, False, False, {}


class Failing(Counting):
    """Fails when a file exists."""

    def __init__(self, path):
        super().__init__()
        self._path = path

    def step(self, action):
        if self._path.exists():
            raise ZeroDivisionError("during an evaluation")
        return super().step(action)


def test_a_failure_beside_an_evaluation_ends_the_run(tmp_path):
    path = tmp_path / "evaluating"
    options = {"num_envs": 2, "eval_episodes": 1, "eval_every": 100, "compile": "off"}
    with pytest.raises(EnvError, match="during an evaluation"):
        tfb.train(
            "linear",
            source=QueueSettings(),
            env=lambda: Failing(path),
            eval_env=lambda: Endless(path),
            steps=10_000,
            logdir=tmp_path / "logs",
            **options,
        )
    assert not alive()


def test_an_operation_that_xla_refuses_is_named():
    def build(observations, actions):
        return keras.Sequential([keras.layers.Dense(4), PythonInside()])

    with make(algorithm="ga3c", network=build, compile="auto") as experiment:
        experiment.start(0)
        text = r"XLA cannot compile .*PyFunc.*compile=off"
        with pytest.raises(UserError, match=text):
            experiment.program(10**9, 10)
    assert not alive()


def test_a_killed_worker_ends_the_run_even_while_the_queue_is_full():
    with make() as experiment:
        experiment.start(0)
        program, deadline = experiment.program, time.monotonic() + 60
        program(10**9, 2)
        while experiment.source._queue.size < 30:  # of 40; predictors wait for room
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(experiment.source.parts[0].env.pids[0], signal.SIGKILL)
        deadline = time.monotonic() + 5
        while not program.failed:  # without a call, as during an evaluation
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with pytest.raises(EnvError, match="worker"):
            program(10**9, 1)
    assert not alive()


def test_a_killed_worker_is_replaced():
    with make(predictors=2, on_fault="restart") as experiment:
        experiment.start(0)
        experiment.program(10**9, 2)
        os.kill(experiment.source.parts[1].env.pids[0], signal.SIGKILL)
        deadline, events = time.monotonic() + 60, []
        while not events and time.monotonic() < deadline:
            experiment.program(10**9, 20)
            events = experiment.events()
        assert events and all(i in (2, 3) for i in events[0]["envs"])
        experiment.program(10**9, 20)
    assert not alive()


class Queued(linear.Config):
    source = "queue", {}


def test_a_run_stops_resumes_and_evaluates_as_any_other(tmp_path, monkeypatch):
    monkeypatch.setitem(algorithms.REGISTRY, "linear", (linear.Linear, Queued))
    options = {"num_envs": 2, "logdir": tmp_path, "eval_episodes": 2}
    options["queue"] = {"length": 8, "train_batch": 16, "capacity": 32}
    options |= {"steps": 400, "eval_every": 200, "compile": "off"}
    run = tfb.train("linear", env="CartPole-v1", **options)
    assert run.step >= 400 and run.metrics["eval/return_mean"] > 0
    assert not alive()
    resumed = tfb.train(resume=run.logdir, steps=600, eval_every=0)
    assert resumed.step >= 600 and resumed.metrics["system/traces"] == 1
    agent = tfb.load(run.logdir)
    assert agent.predict(np.zeros(4, np.float32))[0] in (0, 1)


@pytest.fixture(scope="class")
def running():
    """Return an experiment whose predictors have traced all their programs."""
    network = networks.NetworkConfig(hidden=(8,))
    settings = a2c.GA3CConfig(network=network, histograms=False)
    with make(algorithm="ga3c", settings=settings) as experiment:
        experiment.start(0)
        while not experiment.source._warm:
            experiment.program(2**62, 10)
        yield experiment


class TestRunning:
    """Tests of one experiment, which continues from test to test."""

    def test_rates_are_those_of_a_call_whatever_went_before(self, running, monkeypatch):
        clock = time.perf_counter
        # An evaluation took 10,000 seconds.
        monkeypatch.setattr(time, "perf_counter", lambda: clock() + 10_000)
        metrics = running.program(2**62, 20)
        rates = [metrics[f"async/{x}_per_second"] for x in ("predictions", "updates")]
        # At least 10 transitions of an update, less those in the queue.
        assert rates[0].sum / rates[1].sum > 1
        assert metrics["lag/updates"].sum >= 0
        # Programs in work, two waiting, fetched and learned from, of 2 updates each.
        assert metrics["lag/max"].value <= 5 * 2

    def test_numbers_stay_unless_they_are_adjusted(self, running):
        assert len({numbers(running.program(2**62, 1)) for _ in range(20)}) == 1

    def test_rollouts_that_are_too_old_are_dropped_and_counted(
        self, running, monkeypatch
    ):
        config = dataclasses.replace(running.source._config, max_lag=0)
        monkeypatch.setattr(running.source, "_config", config)
        running.program(2**62, 2)  # of which one was fetched before
        calls = [running.program(2**62, 20) for _ in range(3)]
        assert sum(x["async/dropped"].sum for x in calls) > 0
        assert all(x["lag/updates"].sum <= 4 * x["lag/updates"].count for x in calls)

    def test_a_long_run_keeps_no_memory_of_its_updates(self, running):
        assert growth.kept(lambda: running.program(2**62, 1)) < 0.5


@pytest.mark.parametrize(
    "options, text",
    [
        ({"env": "tf/CartPole-v1"}, "written in TensorFlow"),
        ({"queue": {"predictors": 3}}, "expected a divisor of the 4"),
        ({"queue": {"capacity": 8}}, "at least queue.train_batch"),
        ({"queue": {"rollouts_per_call": 3}}, "expected a power of two"),
        ({"rollout.length": 8}, "rollout.length is a setting of.*'rollout'.*queue"),
        ({"overlap": True}, "overlap is true"),
        ({"num_workers": 0}, "cannot share 0 worker processes"),
        (
            {"queue": {"predict_batch": 8}},
            "queue.predict_batch is 8; expected .*up to 4",
        ),
        ({"num_workers": 3, "queue": {"predictors": 2}}, "multiple of the 2 predict"),
        ({"env_options": {"backend": "portable"}}, "native backend"),
    ],
)
def test_settings_that_cannot_work_are_refused(options, text, tmp_path):
    given = {"env": "CartPole-v1"} | options
    with pytest.raises(UserError, match=text):
        tfb.train("ga3c", steps=100, num_envs=4, logdir=tmp_path, **given)
    assert not list(tmp_path.iterdir())


def test_a_queue_is_bounded_in_order_and_stops():
    stopping = threading.Event()
    bounded = BoundedQueue(10, stopping)
    bounded.put("large", 50)  # fits, because the queue is empty
    done = []

    def put():
        for i in range(20):
            bounded.put(i, 4)
            done.append(bounded.size)

    thread = threading.Thread(target=put)
    thread.start()
    assert [bounded.get() for _ in range(21)] == ["large", *range(20)]
    thread.join(10)
    assert max(done) <= 10 and bounded.size == 0
    stopping.set()
    for blocked in (bounded.get, lambda: bounded.put(1)):
        with pytest.raises(Stopping):
            blocked()


@pytest.mark.parametrize("size", [1, 4])
def test_few_agents_still_make_updates_of_enough_rows(size):
    """A rollout has the rows of at least agents - predict_batch + size environments."""
    part = types.SimpleNamespace(batch=16, wait_for=8, size=size, length=5)
    config = QueueSettings(train_batch=40, length=5, adjust=True)
    choice = PredictorChoice(config, part, 1, seed=0)
    for agents in choice.values["agents"]:
        for rows in choice.values["predict_batch"]:
            chosen = PredictorNumbers(agents, rows, predictors=1, rollouts_per_update=1)
            choice.tuner = types.SimpleNamespace(numbers=chosen._asdict())
            found = choice.numbers
            assert found.predict_batch <= found.agents == agents
            full = (found.agents - found.predict_batch + size) * 5
            assert found.rollouts_per_update * full >= 40
            # and no more rollouts than needed
            fewer = found.rollouts_per_update // 2
            assert fewer == 0 or fewer * full < 40


def test_each_predictor_has_its_own_part_of_a_list_of_environments():
    makes = [lambda i=i: Counting(life=100 * i) for i in range(4)]
    with make(makes, predictors=2, envs_per_worker=2) as experiment:
        experiment.start(0)
        lives = [part.env.init(0)[1].observation for part in experiment.source.parts]
        workers = [part.env.num_workers for part in experiment.source.parts]
    np.testing.assert_array_equal(np.concatenate(lives)[:, 0], [0, 100, 200, 300])
    assert workers == [1, 1]


def test_a_model_that_is_returned_twice_is_refused():
    shared = []

    def build(observations, actions):
        if not shared:
            shared.append(keras.Sequential([keras.layers.Dense(4)]))
        return shared[0]

    config = RunConfig("a2c", "counting", num_envs=2, overlap=True, eval_every=0)
    recipe = config.recipe(lambda: Counting())
    text = r"shares .* with the model of an earlier"
    for start in (
        lambda: make(algorithm="ga3c", network=build),
        lambda: Experiment(config, recipe, network=build),
    ):
        shared.clear()
        with start() as experiment, pytest.raises(UserError, match=text):
            experiment.start(0)
