"""Our contenders that train on policy, and the loop around all contenders."""

import dataclasses
import os

import pytest

from benchmarks.contenders import ppo_ours as ours
from benchmarks.inside import session
from benchmarks.measure import duel, process, rows
from benchmarks.work.works import OBJECTIVE, Stepping, Training, last_mean

TINY = Training(
    "CartPole-v1",
    num_envs=2,
    rollout_length=32,
    epochs=2,
    minibatch_size=16,
    steps=256,
    hidden=(4,),
    num_workers=0,
    seconds=0.0,
    blocks=3,
)


def test_ours_reports_its_transitions_its_work_and_its_returns():
    trained = session.run(lambda: None, ours.start, TINY)
    count = trained["count"]
    assert count["compile"] == 0  # nothing is trained before the warm-up
    assert 0 < count["warm_up"] <= TINY.batch
    assert 2 * TINY.batch < count["steady"] <= 3 * TINY.batch
    rate = count["steady"] / trained["phases"]["steady"]
    assert trained["value"] == pytest.approx(rate)
    assert 1 <= trained["returns"] <= 500
    same = trained["same"]
    assert same["environment"]["wrappers"] == ["TimeLimit", "OrderEnforcing"]
    # Two towers 4 -> 4, with a head of two logits and a head of one value.
    assert same["parameters"] == 2 * (4 * 4 + 4) + (4 * 2 + 2) + (4 + 1)
    assert same["gradient_steps_an_iteration"] == 2 * 64 // 16
    assert same["samples_a_gradient_step"] == 16
    assert not trained["differs"]


PYTHONS = {"batch_ppo": os.environ.get("TFAGENTS_BATCH_BATCH_PPO_PYTHON", "")}
PRESET = dataclasses.replace(
    rows.TRAINING["ppo-batch-ppo-pendulum"].work,
    num_envs=2,
    rollout_length=20,
    epochs=2,
    minibatch_size=10,
    chunk_length=5,
    hidden=(6, 5),
    num_workers=0,
    seconds=0.0,
    blocks=2,
)


@pytest.fixture(scope="module")
def preset_trained():
    return session.run(lambda: None, ours.start, PRESET)


@pytest.mark.parametrize("name", ["ppo_batch_ppo", "ppo_batch_ppo_parallel_one"])
def test_batch_ppo_does_the_same_work_if_it_is_installed(preset_trained, name):
    if process.python_of("batch_ppo", PYTHONS) is None:
        pytest.skip("no batch-ppo (benchmarks.make_environments --batch_ppo)")
    theirs = process.run_contender(name, PRESET, 250, PYTHONS)
    assert not isinstance(theirs, process.Failure), str(theirs)
    assert theirs["count"]["steady"] == PRESET.blocks * PRESET.batch
    assert theirs["own"]["workers"] == (2 if "parallel" in name else 0)
    duel._same(name, preset_trained, theirs)  # raises for undeclared differences
    assert theirs["returns"] == pytest.approx(theirs["returns"])  # not NaN


def test_ours_does_the_work_of_the_preset_or_declares_differences(preset_trained):
    same = preset_trained["same"]
    assert same["environment"]["wrappers"] == [
        *("ClipAction", "RangeNormalize"),
        *("LimitDuration", "TimeLimit", "OrderEnforcing"),
    ]
    # Two towers 3 -> 6 -> 5, a mean with its standard deviation, and a value.
    towers = 2 * ((3 * 6 + 6) + (6 * 5 + 5))
    assert same["parameters"] == towers + (5 + 1) + 1 + (5 + 1)
    assert same["gradient_steps_an_iteration"] == 2 * 40 // 10
    assert same["samples_a_gradient_step"] == 10
    assert same["objective"] == OBJECTIVE
    assert {*preset_trained["differs"]} == {"minibatches"}  # the approximation


def test_ours_refuses_a_wrong_number_of_gradient_steps():
    good = {"grad/updates": 6.0, "grad/skipped": 0.0}
    ours.check(TINY, 48, good)
    with pytest.raises(RuntimeError, match=r"^6 gradient steps.*expected 8"):
        ours.check(TINY, 49, good)
    with pytest.raises(RuntimeError, match=r"a fraction 0\.5 of them"):
        ours.check(TINY, 48, {**good, "grad/skipped": 0.5})


def test_ours_has_the_losses_of_the_peers():
    config = ours.config(TINY, "auto", "float32", False)
    settings = config.settings
    assert settings.value_scale == 2 * TINY.value_scale  # of half the squared error
    assert settings.normalize_advantage
    assert not settings.normalize_observation and not settings.normalize_return
    assert config.eval_every == 0 and not config.compile_cache


class Counting:
    """Session without training; its return is the number of iterations."""

    own, versions, same = {}, {}, {}
    returns = 0

    def __init__(self, work):
        pass

    def block(self):
        self.returns += 1
        return 10

    def close(self):
        pass


def test_a_run_continues_for_its_time_but_its_returns_do_not():
    work = dataclasses.replace(TINY, seconds=0.05)
    found = session.run(lambda: None, Counting, work)
    assert found["phases"]["steady"] >= 0.05
    assert found["count"]["steady"] > 10 * TINY.blocks
    assert found["returns"] == 1 + TINY.blocks  # warm-up included
    rate = found["count"]["steady"] / found["phases"]["steady"]
    assert found["value"] == pytest.approx(rate)


def test_a_run_longer_than_its_seconds_ends_with_its_steps():
    for work in (TINY, Stepping("CartPole-v1", 2, seconds=0.0, blocks=3)):
        found = session.run(lambda: None, Counting, work)
        assert found["count"]["steady"] == 10 * 3


def test_only_the_last_fifth_of_the_episodes_counts():
    assert last_mean([0.0] * 8 + [1.0, 3.0]) == 2
    assert last_mean([5.0]) == 5
    assert last_mean([]) is None
