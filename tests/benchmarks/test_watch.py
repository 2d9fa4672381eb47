"""The clock, the evaluations and the end of a run up to a threshold."""

import dataclasses
import types

import gymnasium
import numpy as np
import pytest

from benchmarks.inside import watch
from benchmarks.work.works import Learning

WORK = Learning("CartPole-v1", "cartpole", 475, 1000, 100, 3, 600.0, launched=99.0)


@pytest.fixture
def time(monkeypatch):
    """Return a clock that is set by hand, and on which an evaluation takes 50 s.

    Its ``returns`` are the mean returns of the next evaluations.
    """
    clock = types.SimpleNamespace(now=100.0, returns=[])

    def returns(envs, act):
        clock.now += 50
        return [clock.returns.pop(0)]

    monkeypatch.setattr(watch.time, "time", lambda: clock.now)
    monkeypatch.setattr(watch.time, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(watch.EvaluationEnvs, "returns", returns)
    return clock


def test_a_run_at_its_deadline_ends_and_has_not_reached_the_threshold(time):
    watched = watch.Watch(dataclasses.replace(WORK, launched=90.0, deadline=100.0))
    time.returns += [20.0, 30.0]
    time.now += 30
    assert not watched.iteration(100, None)  # at 40 s; the evaluation takes 50 more
    time.now += 10
    assert watched.iteration(150, None)  # at 100 s on the wall
    result = watched.result()
    assert not result["reached"]
    assert result["seconds"] == 50  # on its clock, a lower bound of the time
    assert result["curve"][-1][0] == 150


def test_evaluations_take_no_time_and_the_threshold_ends_the_run(time):
    time.returns += [100.0, 475.0]
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
