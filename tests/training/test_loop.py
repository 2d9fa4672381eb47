import dataclasses
import itertools

import numpy as np
import pytest

from tfagents_batch.algorithms import ppo
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import EnvError
from tfagents_batch.training.experiment import Config, Experiment
from tfagents_batch.training.loop import Interval, Loop

BASE = Config(
    env="counting",
    steps=400,
    num_envs=2,
    num_workers=0,
    rollout_length=25,
    eval_every=150,
    eval_episodes=2,
    log_every=100,
    compile="off",
    settings=ppo.Config(minibatch_size=25, epochs=1),
)


class Asked:
    """Interrupts of a test: asked to stop, or to save, at given iterations."""

    def __init__(self, stop_at=None, save_at=()):
        self._stop_at, self._save_at, self._count = stop_at, save_at, 0

    @property
    def requested(self):
        self._count += 1
        return self._stop_at is not None and self._count > self._stop_at

    @property
    def checkpoint_requested(self):
        return self._count in self._save_at


class Records:
    def __init__(self):
        self.lines, self.saved, self.progress = [], [], []

    def write(self, metrics, step):
        self.lines.append((step, metrics))

    def save(self, step, state, metadata):
        self.saved.append((step, state, metadata))
        return True

    def run(self, config=BASE, interrupts=None, state=None, make=CountingEnv):
        with Experiment(config, env=make) as experiment:
            loop = Loop(
                experiment,
                interrupts or Asked(),
                self.write,
                self.save,
                lambda step, latest: self.progress.append(step),
                state,
            )
            self.finished = loop.run()
            return loop


def test_it_ends_after_the_first_iteration_that_reaches_the_steps():
    records = Records()
    loop = records.run()
    per_iteration = records.progress[0]
    assert 40 <= per_iteration <= 50  # 2 x 25 less the restarts
    assert records.finished
    assert loop.step >= 400
    assert records.progress[-2] < 400
    assert records.progress[-1] == loop.step


def test_lines_come_on_their_clock_and_at_the_end():
    records = Records()
    records.run()
    trained = [step for step, line in records.lines if "loss/total" in line]
    assert trained[-1] == records.progress[-1]
    assert all(b - a >= 100 for a, b in itertools.pairwise(trained[:-1]))
    line = records.lines[0][1]
    assert line["episode/return_mean"] == 15
    assert line["episode/length_mean"] == 5
    assert line["time/env_steps_per_second"] > 0


def test_evaluations_come_on_their_clock_and_at_the_end():
    records = Records()
    records.run()
    steps = [step for step, line in records.lines if "eval/return_mean" in line]
    assert len(steps) == 3
    assert steps[-1] == records.progress[-1]
    line = next(line for _, line in records.lines if "eval/return_mean" in line)
    assert line["eval/return_mean"] == 15
    assert line["eval/episodes"] == 2


def test_zero_means_no_evaluation():
    records = Records()
    records.run(dataclasses.replace(BASE, eval_every=0))
    assert not any("eval/return_mean" in line for _, line in records.lines)


def test_a_stop_is_seen_between_iterations_and_saves():
    records = Records()
    loop = records.run(interrupts=Asked(stop_at=3))
    assert not records.finished
    assert len(records.progress) == 3
    assert records.saved[-1][0] == loop.step


def test_a_checkpoint_that_is_asked_for_is_written_and_training_goes_on():
    records = Records()
    records.run(dataclasses.replace(BASE, eval_every=0), interrupts=Asked(save_at=(2,)))
    assert records.finished
    assert [step for step, *_ in records.saved] == [
        records.progress[1],
        records.progress[-1],
    ]


def test_an_evaluation_that_is_better_is_saved_as_best():
    records = Records()
    records.run()
    best = [step for step, _, metadata in records.saved if metadata["best"]]
    evaluated = [step for step, line in records.lines if "eval/return_mean" in line]
    assert best == evaluated[:1]  # the counting environment always returns the same


def test_a_resumed_loop_goes_on_with_step_and_clocks():
    first = Records()
    first.run(dataclasses.replace(BASE, steps=200))
    step, state, _ = first.saved[-1]
    second = Records()
    with Experiment(BASE, env=CountingEnv) as experiment:
        experiment.algorithm.step.assign(step)
        loop = Loop(
            experiment,
            Asked(),
            second.write,
            second.save,
            lambda step, latest: second.progress.append(step),
            state,
        )
        assert loop.step == step
        loop.run()
    assert second.progress[0] > step
    assert second.lines[0][0] - state["log"]["last"] >= 100
    assert second.lines[0][1]["time/elapsed_seconds"] > state["trained_seconds"]


def test_a_fault_saves_what_was_trained_before_and_raises():
    class Breaks(CountingEnv):
        steps = 0

        def step(self, action):
            Breaks.steps += 1
            if Breaks.steps > 200:
                raise OSError("simulator gone")
            return super().step(action)

    records = Records()
    config = dataclasses.replace(BASE, eval_every=0)
    with pytest.raises(EnvError, match="simulator gone"):
        records.run(config, make=Breaks)
    assert records.saved[-1][0] == records.progress[-1]


def test_episodes_of_an_interval_weigh_alike_in_its_means():
    interval = Interval()
    interval.add(
        {"episode/count": 1.0, "episode/return_sum": 10.0, "episode/length_sum": 1.0}
    )
    interval.add(
        {"episode/count": 3.0, "episode/return_sum": 60.0, "episode/length_sum": 3.0}
    )
    summary = interval.summary()
    assert summary["episode/return_mean"] == pytest.approx(70 / 4)
    assert not any(name.endswith("_sum") for name in summary)


def test_an_interval_without_an_episode_says_nothing_of_returns():
    interval = Interval()
    interval.add(
        {"episode/count": 0.0, "episode/return_sum": 0.0, "episode/length_sum": 0.0}
    )
    interval.add({"policy/action": np.ones(3), "loss/total": 2.0})
    interval.add({"policy/action": np.zeros(3), "loss/total": 4.0})
    summary = interval.summary()
    assert "episode/return_mean" not in summary
    assert summary["loss/total"] == 3
    np.testing.assert_array_equal(summary["policy/action"], 0)
