"""Asynchronous training: exact counts, failures of any thread, and the queue."""

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
from tests.sources.test_async_rollout import Counting
from tests.support import growth
from tests.training.programs.test_program import PythonInside
from tfagents_batch.algorithms import ga3c
from tfagents_batch.errors import EnvError, UserError
from tfagents_batch.sources import queue
from tfagents_batch.training.experiment import Experiment
from tfagents_batch.training.programs import asynchronous, in_pieces
from tfagents_batch.training.programs.adjusting import Adjusting, Numbers
from tfagents_batch.training.programs.bounded import Bounded, Stopping
from tfagents_batch.training.run_flags import Config, with_options


def make(env=lambda: Counting(), **options):
    """Return an experiment with 4 environments in 4 workers of 2 predictors."""
    settings = ga3c.Config(histograms=False)
    config = Config("ga3c", "counting", settings=settings, num_envs=4, eval_every=0)
    own = {"predictors": 2, "length": 6, "train_rows": 10, "capacity": 40}
    own["program_pieces"] = 2
    options = {"queue": own | options.pop("queue", {}), "compile": "off", **options}
    return Experiment(with_options(config, options), env=env)


NUMBERS = {f"async/{name}" for name in Numbers._fields}


def alive():
    return [
        t.name for t in threading.enumerate() if t.name.startswith("tfagents_batch-")
    ]


def recording(monkeypatch):
    """Keep every trajectory of an update; returns the list."""
    kept, update = [], ga3c.GA3C.update

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

    monkeypatch.setattr(ga3c.GA3C, "update", recorded)
    return kept


@pytest.mark.parametrize("adjust", [False, True])
def test_every_transition_is_learned_from_once_and_the_terminal_one_too(
    adjust, monkeypatch
):
    kept, seen = recording(monkeypatch), set()
    own = {"adjust": adjust, "adjust_seconds": 0.05}
    with make(queue=own) as experiment:
        experiment.start(0)
        deadline = time.monotonic() + 60
        for _ in range(400 if adjust else 3):
            metrics = experiment.program(10**9, 10)
            numbers = {k: x for k, x in metrics.items() if k in NUMBERS}
            seen.add(tuple(sorted(numbers.items())))
            if len(seen) > 4 or time.monotonic() > deadline:
                break
        step, traces = experiment.program.step, experiment.program.traces()
    assert traces == 1 and (len(seen) > 3) == adjust
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


def fail_in(name, monkeypatch):
    """Let a method of the program fail at its third call."""
    original, calls = getattr(asynchronous.Asynchronous, name), []

    def failing(self, *arguments):
        calls.append(name)
        if len(calls) == 3:
            raise ZeroDivisionError(f"in {name}")
        return original(self, *arguments)

    monkeypatch.setattr(asynchronous.Asynchronous, name, failing)


@pytest.mark.parametrize("thread", ["predictor", "trainer"])
def test_an_exception_in_a_thread_ends_the_run_with_it(thread, monkeypatch):
    with make() as experiment:
        experiment.start(0)
        experiment.program(10**9, 2)
        part = experiment.source.parts[0]
        if thread == "trainer":
            fail_in("_batch", monkeypatch)
        else:

            def broken():
                raise ZeroDivisionError("in a predictor")

            experiment.program._refresh[0] = broken
        begin = time.monotonic()
        with pytest.raises(ZeroDivisionError):
            experiment.program(10**9, 10**6)
        assert time.monotonic() - begin < 5
        pids = part.env._pool.pids
    assert not alive()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


class Single(Counting):
    """Episodes of one step."""

    def step(self, action):
        observation, reward, *_ = super().step(action)
        return observation, reward, True, False, {}


def test_episodes_of_one_step_are_learned_from():
    with make(env=lambda: Single()) as experiment:
        experiment.start(0)
        metrics = experiment.program(10**9, 20)
        assert metrics["episode/count"] == experiment.program.step > 0
        assert metrics["episode/length_sum"] == metrics["episode/count"]


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
    options["settings"] = {"histograms": False}
    begin = time.monotonic()
    with pytest.raises(EnvError, match="during an evaluation"):
        tfb.train(
            "ga3c",
            env=lambda: Failing(path),
            eval_env=lambda: Endless(path),
            steps=10_000,
            logdir=tmp_path / "logs",
            **options,
        )
    assert time.monotonic() - begin < 60  # an evaluation would take longer
    assert not alive()


def test_an_operation_that_xla_refuses_is_named():
    def build(observations, actions):
        return keras.Sequential([keras.layers.Dense(4), PythonInside()])

    config = Config(algorithm="ga3c", env="counting", num_envs=2, eval_every=0)
    with Experiment(config, env=lambda: Counting(), network=build) as experiment:
        experiment.start(0)
        with pytest.raises(
            UserError, match=r"XLA cannot compile .*PyFunc.*compile=off"
        ):
            experiment.program(10**9, 10)
    assert not alive()


def test_a_worker_that_dies_while_the_queue_is_full_is_noticed():
    with make() as experiment:
        experiment.start(0)
        program, deadline = experiment.program, time.monotonic() + 60
        program(10**9, 2)
        while program._pieces.size < 30:  # of 40; predictors wait for room
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(experiment.source.parts[0].env._pool.pids[0], signal.SIGKILL)
        deadline = time.monotonic() + 5
        while not program.failed:  # without a call, as during an evaluation
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with pytest.raises(EnvError, match="worker"):
            program(10**9, 1)
    assert not alive()


def test_rates_are_those_of_a_call_whatever_went_before(monkeypatch):
    clock, past = time.perf_counter, [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + past[0])
    with make() as experiment:
        experiment.start(0)
        experiment.program(10**9, 20)
        past[0] = 10_000.0  # an evaluation
        found = experiment.program(10**9, 20)
    each = found["async/predictions_per_second"] / found["async/updates_per_second"]
    assert each > 1  # at least 10 transitions of an update, less those in the queue


def test_a_killed_worker_ends_the_run_or_is_replaced():
    for on_fault, compile in (("raise", "full"), ("restart", "off")):
        with make(on_fault=on_fault, compile=compile) as experiment:
            experiment.start(0)
            experiment.program(10**9, 2)
            os.kill(experiment.source.parts[1].env._pool.pids[0], signal.SIGKILL)
            if on_fault == "raise":
                begin = time.monotonic()
                with pytest.raises(EnvError, match="worker"):
                    experiment.program(10**9, 10**6)
                assert time.monotonic() - begin < 5
                continue
            deadline, found = time.monotonic() + 60, []
            while not found and time.monotonic() < deadline:
                experiment.program(10**9, 20)
                found = experiment.events()
            assert found and all(i in (2, 3) for i in found[0]["envs"])
            experiment.program(10**9, 20)
        assert not alive()


def test_a_run_stops_resumes_and_evaluates_as_any_other(tmp_path):
    options = {"num_envs": 4, "logdir": tmp_path, "eval_episodes": 4}
    options |= {"queue": {"length": 8, "train_rows": 16, "capacity": 32}}
    options |= {"compile": "off", "settings": {"histograms": False}}
    run = tfb.train("ga3c", env="CartPole-v1", steps=600, eval_every=300, **options)
    assert run.step >= 600 and run.metrics["eval/return_mean"] > 0
    assert not alive()
    resumed = tfb.train(resume=run.logdir, steps=1000)
    assert resumed.step >= 1000
    metrics = resumed.metrics
    assert metrics["system/traces"] == 1
    assert 0 <= metrics["lag/updates"] <= metrics["lag/max"]
    # Programs in work, waiting, joined, ready and learned from, of 8 updates each.
    assert metrics["lag/max"] <= 5 * 8
    assert metrics["async/updates_per_second"] > 0
    agent = tfb.load(run.logdir)
    assert agent.predict(np.zeros(4, np.float32))[0] in (0, 1)


def test_of_maxima_the_largest_is_kept():
    names = ["lag/max", "loss/total"]
    sums = in_pieces.join(names, tf.constant([3.0, 1.0]), tf.constant([2.0, 5.0]))
    assert sums.numpy().tolist() == [3, 6]


def test_pieces_that_are_too_old_are_dropped_and_counted():
    with make(queue={"max_lag": 0, "capacity": 400, "train_rows": 20}) as experiment:
        experiment.start(0)
        found = [experiment.program(10**9, 20) for _ in range(3)]
    assert sum(x["async/dropped"] for x in found) > 0
    assert all(x["lag/updates/sum"] <= 4 * x["lag/updates/count"] for x in found)


@pytest.mark.parametrize(
    "options, text",
    [
        ({"env": "tf/CartPole-v1"}, "written in TensorFlow"),
        ({"queue": {"predictors": 3}}, "expected a divisor of the 4"),
        ({"queue": {"capacity": 8}}, "at least queue.train_rows"),
        ({"queue": {"program_pieces": 3}}, "expected a power of two"),
        ({"rollout_length": 8}, "rollout_length is a setting of.*'rollout'.*queue"),
        ({"overlap": True}, "overlap is true"),
        ({"num_workers": 0}, "cannot share 0 worker processes"),
        ({"queue": {"predict_rows": 8}}, "queue.predict_rows is 8; expected .*up to 4"),
        (
            {"env": "Pendulum-v1", "settings": {"correction": "log_floor"}},
            "correction is log_floor, but the action space is Box",
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
    bounded = Bounded(10, stopping)
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
    """A piece has the rows of at least agents - predict_rows + size environments."""
    part = types.SimpleNamespace(batch=16, wait_for=8, size=size, length=5)
    config = queue.Config(train_rows=40, length=5, adjust=True)
    source = types.SimpleNamespace(parts=[part], config=config, joined=1)
    adjusting = Adjusting(source, 0)
    for agents in adjusting.choices["agents"]:
        for rows in adjusting.choices["predict_rows"]:
            chosen = {"agents": agents, "predict_rows": rows}
            chosen |= {"predictors": 1, "trainers": 1, "update_pieces": 1}
            adjusting._tuner = types.SimpleNamespace(settings=chosen)
            found = adjusting.numbers
            assert found.predict_rows <= found.agents == agents
            full = found.agents - found.predict_rows + size
            assert found.update_pieces * full * 5 >= 40
            # and no more pieces than needed
            assert found.update_pieces == 1 or found.update_pieces // 2 * full * 5 < 40


def test_each_predictor_has_its_own_part_of_a_list_of_environments():
    config = Config(algorithm="ga3c", env="counting", num_envs=4, eval_every=0)
    config = with_options(config, {"queue": {"predictors": 2}, "envs_per_worker": 2})
    makes = [lambda i=i: Counting(life=100 * i) for i in range(4)]
    with Experiment(config, env=makes) as experiment:
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

    for algorithm, options in (("ga3c", {}), ("a2c", {"rollout.lag": 1})):
        shared.clear()
        config = Config(algorithm=algorithm, env="counting", num_envs=2, eval_every=0)
        config = with_options(config, options)
        with (
            Experiment(config, env=lambda: Counting(), network=build) as experiment,
            pytest.raises(UserError, match=r"shares .* with the model of an earlier"),
        ):
            experiment.start(0)


def test_a_long_run_keeps_no_memory_of_its_updates():
    # The queue may fill meanwhile, so it is as short as possible.
    with make(queue={"capacity": 10}) as experiment:
        experiment.start(0)
        assert growth.kept(lambda: experiment.program(2**62, 1)) < 0.5
