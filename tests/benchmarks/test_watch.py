"""The clock, the evaluations and the end of a run up to a threshold."""

import dataclasses

import gymnasium
import numpy as np
import pytest

from benchmarks.inside import watch
from benchmarks.work.works import Learning

WORK = Learning("CartPole-v1", "cartpole", 475, 1000, 100, 3, 600.0, launched=99.0)


class Time:
    """A clock that is set by hand."""

    def __init__(self, monkeypatch, now=100.0):
        self.now = now
        monkeypatch.setattr(watch.time, "time", lambda: self.now)
        monkeypatch.setattr(watch.time, "perf_counter", lambda: self.now)


@pytest.fixture
def time(monkeypatch):
    return Time(monkeypatch)


@pytest.fixture
def evaluated(monkeypatch, time):
    """Return the list of evaluation results to use; each evaluation takes 50 s."""
    answers = []

    class EvaluationEnvs:
        def __init__(self, env, seeds):
            self.seeds = seeds

        def returns(self, act):
            time.now += 50
            return [answers.pop(0)] * len(self.seeds)

        def close(self):
            pass

    monkeypatch.setattr(watch, "EvaluationEnvs", EvaluationEnvs)
    return answers


def test_a_run_at_its_deadline_ends_and_has_not_reached_the_threshold(time, evaluated):
    watched = watch.Watch(dataclasses.replace(WORK, launched=90.0, deadline=100.0))
    evaluated += [20.0, 30.0]
    time.now += 30
    assert not watched.iteration(100, None)  # at 40 s; the evaluation takes 50 more
    time.now += 10
    assert watched.iteration(150, None)  # at 100 s on the wall
    result = watched.result()
    assert not result["reached"]
    assert result["seconds"] == 50  # on its clock, a lower bound of the time
    assert result["curve"][-1][0] == 150


def test_evaluations_take_no_time_and_the_threshold_ends_the_run(time, evaluated):
    evaluated += [100.0, 475.0]
    watched = watch.Watch(WORK)
    watched.phase("import")
    time.now += 3
    assert not watched.iteration(60, None)  # too early for an evaluation
    for steps, ends in ((120, False), (180, False), (240, True)):
        time.now += 1
        assert watched.iteration(steps, None) is ends
    result = watched.result()
    assert result["reached"] and result["steps"] == 240
    assert result["seconds"] == 1 + 3 + 3
    assert result["curve"] == [(120, 5, 100.0), (240, 7, 475.0)]
    assert result["phases"] == {"import": 1, "first_iteration": 3, "training": 3}
    # After 60 steps in 4 s, 60 steps a second: 940 more would take 15.7 s.
    assert result["value"] == pytest.approx(1000 / (4 + 940 / 60))
    other = dataclasses.replace(WORK, seed=2)
    assert not {*WORK.episode_seeds()} & {*other.episode_seeds()}


def test_evaluations_play_whole_episodes_with_the_same_seeds():
    games = watch.EvaluationEnvs("CartPole-v1", [1, 2])
    totals = games.returns(lambda observations: np.ones(2, int))
    np.testing.assert_array_equal(totals, games.returns(lambda _: np.ones(2, int)))
    games.close()
    for seed, total in zip([1, 2], totals, strict=True):
        with gymnasium.make("CartPole-v1") as env:
            env.reset(seed=seed)
            steps = 1
            while not env.step(1)[2]:
                steps += 1
        assert total == steps
