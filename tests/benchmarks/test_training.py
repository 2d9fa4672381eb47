"""Training contenders of ours, and what they have in common with peers'."""

import ast
import dataclasses
import pathlib
import sys

import pytest

import benchmarks.contenders
from benchmarks import duel, plots, process, results, rows, throughput
from benchmarks.contenders import CONTENDERS
from benchmarks.contenders import ppo_ours as ours
from benchmarks.inside import session
from benchmarks.process import Failure
from benchmarks.stepping import Stepping
from benchmarks.training import Training, last_mean
from tfagents_batch.errors import UserError

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
FOLDER = pathlib.Path(benchmarks.contenders.__file__).parent
HEAVY = {
    *("torch", "stable_baselines3", "tensorflow", "tf_agents", "jax", "sbx"),
    *("agents", "tensorflow_probability"),
}


@pytest.fixture(scope="module")
def trained():
    return session.run(lambda: None, ours.Train, TINY)


def test_ours_counts_the_transitions_it_trained_on(trained):
    count = trained["count"]
    assert count["compile"] == 0  # nothing is trained before the warm-up
    assert 0 < count["warm_up"] <= TINY.batch
    assert 2 * TINY.batch < count["steady"] <= 3 * TINY.batch
    assert trained["value"] == pytest.approx(
        count["steady"] / trained["phases"]["steady"]
    )


def test_ours_says_what_work_it_did(trained):
    same = trained["same"]
    assert same["environment"]["wrappers"] == ["TimeLimit", "OrderEnforcing"]
    # Two towers 4 -> 4, with a head of two logits and one of the value.
    assert same["parameters"] == 2 * (4 * 4 + 4) + (4 * 2 + 2) + (4 + 1)
    assert same["gradient_steps_an_iteration"] == 2 * 64 // 16
    assert same["samples_a_gradient_step"] == 16


def test_ours_has_the_return_of_its_last_episodes(trained):
    assert 1 <= trained["returns"] <= 500


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


def test_blocks_of_environments_alone_replace_seconds():
    work = Stepping("CartPole-v1", 2, seconds=100.0, blocks=3)
    assert session.run(lambda: None, Counting, work)["count"]["steady"] == 30


def test_ours_declares_another_precision():
    contender = CONTENDERS["ppo_ours_bfloat16"]
    frames = rows.TRAINING["ppo-pong-bfloat16"].work
    config = ours._config(frames, **contender.options)
    assert config.precision == "mixed_bfloat16"
    assert ours._config(frames).precision == "float32"


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


@pytest.mark.parametrize("mode", ["auto", "update", "off"])
def test_every_compile_mode_of_ours_is_a_contender(mode):
    name = "ppo_ours" if mode == "auto" else f"ppo_ours_{mode}"
    assert CONTENDERS[name].options["compile"] == mode
    row = rows.TRAINING["ppo-cartpole-p1"]
    assert name in (row.subject, *row.rivals)
    assert ours._config(TINY, **CONTENDERS[name].options).compile == mode


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


MODULES = {CONTENDERS[name].module for name in rows.contenders(rows.TRAINING)}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_contender_is_heavy_only_when_it_loads(name):
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    imports = [x for x in tree.body if isinstance(x, (ast.Import, ast.ImportFrom))]
    names = [getattr(x, "module", None) or x.names[0].name for x in imports]
    assert not {each.partition(".")[0] for each in names} & HEAVY
    assert "Training" in ast.unparse(tree.body[-1])


def test_releases_that_an_environment_is_not_made_of_are_no_difference():
    found = TINY.same(TINY.constructor(), 1, 1, 1)["versions"]
    assert {*found} == {"python", "gymnasium", "numpy"}


def test_frames_are_those_of_our_preprocessing():
    pytest.importorskip("ale_py")
    pytest.importorskip("cv2")
    work = rows.TRAINING["ppo-pong"].work
    env = work.constructor()()
    try:
        assert env.observation_space.shape == (84, 84, 4)
    finally:
        env.close()
    assert "ale-py" in work.same(work.constructor(), 1, 1, 1)["versions"]


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


def test_a_row_that_is_lost_is_named_and_the_others_stay(
    runs, tmp_path, monkeypatch, capsys
):
    run = process.run

    def other_work(module, work, *rest, **named):
        found = run(module, work, *rest, **named)
        if work["env"] == "Pendulum-v1" and module == "ppo_sb3":
            return found | {"same": {}} if isinstance(found, dict) else found
        return found

    monkeypatch.setattr(process, "run", other_work)
    flag = "--row=ppo-cartpole-p1,ppo-pendulum-p1,ppo-halfcheetah-p1"
    lines = play(tmp_path, flag, "--pairs=1")
    assert {x["row"] for x in lines} == {"ppo-cartpole-p1", "ppo-halfcheetah-p1"}
    assert "row ppo-pendulum-p1 ends here, incomplete" in capsys.readouterr().err


def test_a_row_that_is_interrupted_is_named_and_those_before_it_stay(
    runs, tmp_path, monkeypatch, capsys
):
    run = process.run

    def interrupted(module, work, *rest, **named):
        if work["env"] == "Pendulum-v1":
            raise KeyboardInterrupt
        return run(module, work, *rest, **named)

    monkeypatch.setattr(process, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        play(tmp_path, "--row=ppo-cartpole-p1,ppo-pendulum-p1", "--pairs=1")
    lines = results.read(tmp_path / "training.jsonl")
    assert {x["row"] for x in lines} == {"ppo-cartpole-p1"}
    assert "row ppo-pendulum-p1 ends here" in capsys.readouterr().err


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


def test_bars_are_drawn_of_the_newest_results(runs, tmp_path):
    pytest.importorskip("matplotlib")
    play(tmp_path, "--row=ppo-cartpole-p1,ppo-pendulum-p1", "--pairs=1")
    path, out = tmp_path / "training.jsonl", tmp_path / "images/bars.png"
    assert plots.main([f"--results={path}", f"--out={out}"]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    bars = plots.bars(results.read(path))
    assert len(bars) == 2
    assert bars["PPO, CartPole-v1, P1 (ppo-cartpole-p1)"] == {
        "tfagents_batch, compile=auto": (40.0, True),
        "tfagents_batch, compile=update": (50.0, True),
        "Stable-Baselines3, DummyVecEnv, a thread per core": (20.0, False),
    }


def test_nothing_to_draw_is_said(tmp_path):
    with pytest.raises(UserError, match="has no results to draw"):
        plots.main([f"--results={tmp_path / 'none.jsonl'}"])


def test_training_rows_are_of_training_contenders():
    for row in rows.TRAINING.values():
        assert all(name.startswith("ppo_") for name in (row.subject, *row.rivals))
        assert {CONTENDERS[x].interpreter for x in row.rivals} <= {
            *("ours", "peers", "tf_agents", "batch_ppo")
        }
