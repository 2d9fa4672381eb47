"""Our training contenders, and the parts that they share with the peers'."""

import dataclasses

import pytest

from benchmarks import throughput
from benchmarks.contenders import CONTENDERS
from benchmarks.contenders import ppo_ours as ours
from benchmarks.inside import session
from benchmarks.measure import rows
from benchmarks.work.stepping import Stepping
from benchmarks.work.training import Training, last_mean

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


@pytest.fixture(scope="module")
def trained():
    return session.run(lambda: None, ours.Train, TINY)


def test_our_contender_reports_its_transitions_and_returns(trained):
    count = trained["count"]
    assert count["compile"] == 0  # nothing is trained before the warm-up
    assert 0 < count["warm_up"] <= TINY.batch
    assert 2 * TINY.batch < count["steady"] <= 3 * TINY.batch
    assert trained["value"] == pytest.approx(
        count["steady"] / trained["phases"]["steady"]
    )
    assert 1 <= trained["returns"] <= 500


def test_our_contender_reports_its_work(trained):
    same = trained["same"]
    assert same["environment"]["wrappers"] == ["TimeLimit", "OrderEnforcing"]
    # Two towers 4 -> 4, with a head of two logits and a head of one value.
    assert same["parameters"] == 2 * (4 * 4 + 4) + (4 * 2 + 2) + (4 + 1)
    assert same["gradient_steps_an_iteration"] == 2 * 64 // 16
    assert same["samples_a_gradient_step"] == 16


def test_our_contender_refuses_a_wrong_number_of_gradient_steps():
    contender = ours.Train(TINY)
    try:
        good = {"grad/updates": 6.0, "grad/skipped": 0.0}
        contender._check(48, good)
        with pytest.raises(RuntimeError, match=r"^6 gradient steps.*expected 8"):
            contender._check(49, good)
        with pytest.raises(RuntimeError, match=r"a fraction 0\.5 of them"):
            contender._check(48, {**good, "grad/skipped": 0.5})
    finally:
        contender.close()


class Counting:
    """Session without training; its return is the number of iterations."""

    unit = "env steps"
    own, versions, same = {}, {}, {}

    def __init__(self, work):
        self.iterations = 0

    @property
    def returns(self):
        return self.iterations

    def compile(self):
        return 0

    def measure(self, seconds, blocks):
        def block():
            self.iterations += 1
            return 10

        return session.repeat(block, seconds, blocks)

    def close(self):
        pass


def test_a_run_continues_for_its_time_but_its_returns_do_not():
    work = dataclasses.replace(TINY, seconds=0.05)
    found = session.run(lambda: None, Counting, work)
    assert found["phases"]["steady"] >= 0.05
    assert found["count"]["steady"] > 10 * TINY.blocks
    assert found["returns"] == 1 + TINY.blocks  # warm-up included
    assert found["value"] == pytest.approx(
        found["count"]["steady"] / found["phases"]["steady"]
    )


def test_a_run_longer_than_its_seconds_ends_with_its_steps():
    found = session.run(lambda: None, Counting, TINY)
    assert found["count"]["steady"] == 10 * TINY.blocks
    alone = Stepping("CartPole-v1", 2, seconds=100.0, blocks=3)
    assert session.run(lambda: None, Counting, alone)["count"]["steady"] == 30


def test_bfloat16_is_declared_as_a_difference():
    pytest.importorskip("ale_py")
    pytest.importorskip("cv2")
    work = dataclasses.replace(
        rows.TRAINING["ppo-pong-bfloat16"].work, num_envs=2, num_workers=0
    )
    options = CONTENDERS["ppo_ours_bfloat16_off"].options
    contender = ours.Train(work, **options)
    try:
        assert contender.same["precision"] == "mixed_bfloat16"
        assert {*contender.differs} == {"precision"}
    finally:
        contender.close()


def test_our_contender_has_the_losses_of_the_peers():
    config = ours._config(TINY, "auto")
    settings = config.settings
    assert settings.value_scale == 2 * TINY.value_scale  # of half the squared error
    assert settings.normalize_advantage
    assert not settings.normalize_observation and not settings.normalize_return
    assert config.eval_every == 0 and not config.compile_cache


def test_a_run_ends_with_the_iteration_that_completes_its_steps():
    work = dataclasses.replace(TINY, steps=TINY.batch + 1)
    assert work.iterations == 2
    flags = dataclasses.replace(throughput.Command(), steps=10 * TINY.batch)
    assert throughput._work(TINY, flags).blocks == 9  # after the warm-up


def test_only_the_last_fifth_of_the_episodes_counts():
    assert last_mean([0.0] * 8 + [1.0, 3.0]) == 2
    assert last_mean([5.0]) == 5
    assert last_mean([]) is None
