"""Training contenders of ours, and what they have in common with peers'."""

import dataclasses
import sys
from contextlib import nullcontext

import pytest

from benchmarks import duel, process, results, rows, throughput
from benchmarks.contenders import CONTENDERS
from benchmarks.contenders import ppo_ours as ours
from benchmarks.inside import session
from benchmarks.process import Failure
from benchmarks.stepping import Stepping
from benchmarks.training import Training, last_mean

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


def test_ours_counts_the_transitions_it_trained_on_and_their_returns(trained):
    count = trained["count"]
    assert count["compile"] == 0  # nothing is trained before the warm-up
    assert 0 < count["warm_up"] <= TINY.batch
    assert 2 * TINY.batch < count["steady"] <= 3 * TINY.batch
    assert trained["value"] == pytest.approx(
        count["steady"] / trained["phases"]["steady"]
    )
    assert 1 <= trained["returns"] <= 500


def test_ours_says_what_work_it_did(trained):
    same = trained["same"]
    assert same["environment"]["wrappers"] == ["TimeLimit", "OrderEnforcing"]
    # Two towers 4 -> 4, with a head of two logits and one of the value.
    assert same["parameters"] == 2 * (4 * 4 + 4) + (4 * 2 + 2) + (4 + 1)
    assert same["gradient_steps_an_iteration"] == 2 * 64 // 16
    assert same["samples_a_gradient_step"] == 16


def test_ours_refuses_to_have_taken_other_gradient_steps():
    contender = ours.Train(TINY)
    try:
        good = {"grad/updates": 6.0, "grad/skipped": 0.0}
        contender._check(48, good)
        with pytest.raises(RuntimeError, match=r"^6 gradient steps.*expected 8"):
            contender._check(49, good)
        with pytest.raises(RuntimeError, match=r"a share of 0\.5 of them"):
            contender._check(48, {**good, "grad/skipped": 0.5})
    finally:
        contender.close()


class Counting:
    """Trains nothing; its return is the number of iterations."""

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


def test_a_run_goes_on_until_enough_is_timed_but_its_returns_do_not():
    work = dataclasses.replace(TINY, seconds=0.05)
    found = session.run(lambda: None, Counting, work)
    assert found["phases"]["steady"] >= 0.05
    assert found["count"]["steady"] > 10 * TINY.blocks
    assert found["returns"] == 1 + TINY.blocks  # warm-up included
    assert found["value"] == pytest.approx(
        found["count"]["steady"] / found["phases"]["steady"]
    )


def test_a_run_that_takes_longer_than_its_seconds_ends_with_its_steps():
    found = session.run(lambda: None, Counting, TINY)
    assert found["count"]["steady"] == 10 * TINY.blocks
    alone = Stepping("CartPole-v1", 2, seconds=100.0, blocks=3)
    assert session.run(lambda: None, Counting, alone)["count"]["steady"] == 30


def test_frames_in_bfloat16_are_declared_to_differ():
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


def test_ours_has_the_losses_of_the_peers():
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


def test_the_last_fifth_of_the_episodes_counts():
    assert last_mean([0.0] * 8 + [1.0, 3.0]) == 2
    assert last_mean([5.0]) == 5
    assert last_mean([]) is None


# ---- the command, with canned results


def canned(value, returns=100.0):
    return {
        "value": value,
        "unit": "env steps/s",
        "phases": {"steady": 1.0},
        "same": {"environment": "CartPole-v1"},
        "own": {"workers": 2},
        "versions": {},
        "returns": returns,
    }


@pytest.fixture
def runs(monkeypatch):
    """Contenders answer at once: ``{name: env steps a second}``; what was run."""
    speeds = {"ppo_ours": 40.0, "ppo_ours_update": 50.0, "ppo_sb3_cores": 20.0}
    ran = []
    names = {(x.module, str(x.options)): name for name, x in CONTENDERS.items()}

    def run(module, work, deadline, python, options):
        name = names[module, str(options)]
        ran.append((name, work["seed"], work["blocks"], python))
        if name == "ppo_sb3_subproc":
            return Failure(name, "did not end within 3 s", "")
        return canned(speeds.get(name, 1.0), 100.0 + work["seed"])

    monkeypatch.setattr(process, "run", run)
    return ran


def play(tmp_path, *flags):
    path = tmp_path / "training.jsonl"
    throughput.main([f"--results={path}", *flags])
    return results.read(path)


def test_only_the_best_settings_play_and_every_round_has_its_seed(runs, tmp_path):
    play(tmp_path, "--row=ppo-cartpole-p1", "--pairs=2", "--peer_python=/peer")
    # Seven settings twice, but for the one that failed at once.
    probes, played = runs[:13], runs[13:]
    assert [x[2] for x in probes] == [None] * 13
    order = ["ppo_ours", "ppo_ours_update", "ppo_sb3_cores"]
    assert [x[0] for x in played] == order + order[::-1]
    assert [x[1] for x in played] == [1, 1, 1, 2, 2, 2]
    assert {x[2] for x in played} == {29}  # of 30 iterations, after the warm-up
    assert {x[3] for x in played} == {sys.executable, "/peer"}


def test_ours_is_compared_by_default_and_at_its_best(runs, tmp_path):
    lines = play(tmp_path, "--row=ppo-cartpole-p1", "--pairs=2")
    assert [x["subject"] for x in lines] == ["ppo_ours", "ppo_ours_update"]
    assert [x["ratio"]["median"] for x in lines] == [2.0, 2.5]
    assert {x["rival"] for x in lines} == {"ppo_sb3_cores"}
    assert lines[0]["probes"]["ppo_sb3"] == 1.0
    assert lines[0]["probes_failed"] == {"ppo_sb3_subproc": "did not end within 3 s"}
    assert lines[0]["seeds"] == [1, 2]
    assert lines[0]["subject_returns"] == [101.0, 102.0]
    assert lines[0]["parity"] is True
    assert (lines[0]["goal"], lines[0]["pairs"]) == (10, 2)


def test_a_peer_without_interpreter_fails_and_the_others_go_on(
    runs, tmp_path, monkeypatch
):
    monkeypatch.setattr(process, "ROOT", tmp_path)
    sbx, tf_agents, *_ = play(tmp_path, "--row=ppo-cartpole-p1-peers", "--pairs=1")
    assert "--tf_agents_python" in tf_agents["failed"]["reason"]
    assert (sbx["goal"], sbx["ratio"]["median"]) == (6, 40)


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_row_that_is_lost_is_named_and_those_before_it_stay(
    runs, tmp_path, monkeypatch, capsys, interrupted
):
    run = process.run

    def lost(module, work, *rest, **named):
        if work["env"] != "Pendulum-v1" or module != "ppo_sb3":
            return run(module, work, *rest, **named)
        if interrupted:
            raise KeyboardInterrupt
        return canned(1.0) | {"same": {}}  # other work

    monkeypatch.setattr(process, "run", lost)
    names = ("ppo-cartpole-p1", "ppo-pendulum-p1", "ppo-halfcheetah-p1")
    ends = pytest.raises(KeyboardInterrupt) if interrupted else nullcontext()
    with ends:
        play(tmp_path, f"--row={','.join(names)}", "--pairs=1")
    lines = results.read(tmp_path / "training.jsonl")
    kept = {names[0]} if interrupted else {names[0], names[2]}
    assert {x["row"] for x in lines} == kept
    assert "row ppo-pendulum-p1 ends here, incomplete" in capsys.readouterr().err


def test_runs_of_an_episode_are_not_compared_by_their_returns(runs, tmp_path):
    line, *_ = play(tmp_path, "--row=ppo-pong", "--pairs=2")
    assert line["parity"] is None and "subject_return" not in line
    assert line["subject_returns"] == [101.0, 102.0]


def test_a_failed_subject_leaves_no_other_mode_behind():
    row = rows.TRAINING["ppo-cartpole-p1"]._replace(
        rivals=("ppo_ours_update", "ppo_sb3")
    )
    failure = Failure("ppo_ours", "ended with status 1", "")
    played = duel.Played({"ppo_ours": []}, {"ppo_ours": failure})
    (line,) = throughput.lines("x", row, duel.Probed(row, {}, {}), played, [1])
    assert line["failed"] == failure._asdict()
