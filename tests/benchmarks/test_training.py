"""Our contenders that train on policy, and the loop around all contenders."""

import dataclasses
import os

import pytest

from benchmarks.contenders import ppo_ours as ours
from benchmarks.inside import session
from benchmarks.measure import duel, process, rows
from benchmarks.work.works import OBJECTIVE, Training, last_mean

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
PYTHONS = {"batch_ppo": os.environ.get("TFAGENTS_BATCH_BATCH_PPO_PYTHON", "")}
PRESET = dataclasses.replace(
    rows.ROWS["ppo-batch-ppo-pendulum"].work,
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


def test_ours_reports_its_transitions_its_work_and_its_returns():
    result = session.run(lambda: None, ours.start, TINY)
    count = result["count"]
    assert 0 < count["warm_up"] <= TINY.batch
    assert 2 * TINY.batch < count["steady"] <= 3 * TINY.batch
    rate = count["steady"] / result["phases"]["steady"]
    assert result["value"] == pytest.approx(rate)
    assert 1 <= result["returns"] <= 500
    same = result["same"]
    assert same["environment"]["wrappers"] == ["TimeLimit", "OrderEnforcing"]
    # Two towers 4 -> 4, with a head of two logits and a head of one value.
    assert same["parameters"] == 2 * (4 * 4 + 4) + (4 * 2 + 2) + (4 + 1)
    assert same["gradient_steps_an_iteration"] == 2 * 64 // 16
    assert same["samples_a_gradient_step"] == 16
    assert not result["differs"]


@pytest.mark.slow
def test_batch_ppo_does_the_work_of_our_contender():
    result = session.run(lambda: None, ours.start, PRESET)
    same = result["same"]
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
    assert {*result["differs"]} == {"minibatches"}  # the approximation
    if process.python_of("batch_ppo", PYTHONS) is None:
        pytest.skip("no batch-ppo (benchmarks.make_environments --name=batch_ppo)")
    theirs = process.run_contender("ppo_batch_ppo", PRESET, 250, PYTHONS)
    assert not isinstance(theirs, process.Failure), str(theirs)
    assert theirs["count"]["steady"] == PRESET.blocks * PRESET.batch
    duel._check_same("ppo_batch_ppo", result, theirs)
    assert theirs["returns"] == pytest.approx(theirs["returns"])  # not NaN


def test_ours_refuses_a_wrong_number_of_gradient_steps():
    good = {"grad/updates": 6.0, "grad/skipped": 0.0}
    ours.check(TINY, 48, good)
    with pytest.raises(RuntimeError, match=r"^6 gradient steps.*expected 8"):
        ours.check(TINY, 49, good)
    with pytest.raises(RuntimeError, match=r"a fraction 0\.5 of them"):
        ours.check(TINY, 48, {**good, "grad/skipped": 0.5})


def test_ours_has_the_losses_of_the_peers():
    config = ours.config(TINY, "float32", False)
    settings = config.settings
    assert settings.value_scale == 2 * TINY.value_scale  # of half the squared error
    assert settings.normalize_advantage
    assert not settings.normalize_observation and not settings.normalize_return
    assert config.eval_every == 0 and not config.compile_cache
    preset = ours.config(PRESET, "float32", False).settings
    assert preset.objective == "kl" and preset.kl.target == PRESET.kl_target
    a2c = ours.config(rows.ROWS["a2c-cartpole"].work, "float32", False).settings
    assert a2c.optimizer_epsilon == TINY.adam_epsilon


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


@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_a_run_continues_for_its_time_but_its_returns_do_not(seconds):
    work = dataclasses.replace(TINY, seconds=seconds)
    result = session.run(lambda: None, Counting, work)
    steady = result["count"]["steady"]
    assert result["phases"]["steady"] >= seconds
    assert steady > 10 * TINY.blocks if seconds else steady == 10 * TINY.blocks
    assert result["returns"] == 1 + TINY.blocks  # warm-up included
    assert result["value"] == pytest.approx(steady / result["phases"]["steady"])


def test_only_the_last_fifth_of_the_episodes_counts():
    assert last_mean([0.0] * 8 + [1.0, 3.0]) == 2
    assert last_mean([5.0]) == 5
    assert last_mean([]) is None
