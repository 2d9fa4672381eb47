"""Tests of the flags of a sweep's trainings, and of its command."""

import json
import sys

import pytest

from tests.algorithms.cases import OF_ROWS
from tfagents_batch.configs import searches
from tfagents_batch.configs.searches import SEARCHES
from tfagents_batch.distribute import sweep_loop, sweep_results
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import sweep


@pytest.mark.parametrize("name", [x for x in SEARCHES if x not in OF_ROWS])
def test_the_usual_search_space_can_be_trained(name, tmp_path, monkeypatch):
    plans = []

    def fake(plan, *_):
        plans.append(plan)
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep_loop, "run", fake)
    argv = [f"--algorithm={name}", "--env=tf/CartPole-v1", f"--logdir={tmp_path}"]
    with pytest.raises(KeyboardInterrupt):
        sweep.main(argv)
    assert plans[0].search == searches.usual(name, rows=False)


def test_the_usual_search_space_of_rows_leaves_their_rewards_alone():
    assert set(searches.usual("dqn", rows=True)) == {
        f"algorithm.{name}" for name in ("learning_rate", "batch_size", "target_tau")
    }
    for name in OF_ROWS & {*SEARCHES}:
        assert searches.usual(name, rows=True) == SEARCHES[name]


CARTPOLE = "--config=cartpole"


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["--config=cartpol"], "did you mean 'cartpole'?"),
        ([CARTPOLE, "--steps=many"], "--steps=many"),
        ([CARTPOLE, "--trails=3"], "unknown flag --trails; did you mean --trials?"),
        ([CARTPOLE, "--trials=0"], "--trials is 0; expected at least 1"),
        ([CARTPOLE, "--jobs=0"], "--jobs is 0; expected at least 1"),
        ([CARTPOLE, "--resume=x"], "unknown flag --resume"),
        (
            [CARTPOLE, "--search=algorithm.learning_rat=1,2"],
            "there is no flag --algorithm.learning_rat with ppo; did you mean "
            "--algorithm.learning_rate?",
        ),
        (
            ["--algorithm=dqn", "--search=rollout.length=8,16"],
            "there is no flag --rollout.length with dqn",
        ),
        ([CARTPOLE, "--search=seed=1,2"], "--seed cannot be searched; train the best"),
        (["--search=config=cartpole,pendulum"], "--config cannot be searched; start a"),
        (["--search=algorithm=ppo,dqn"], "--algorithm cannot be searched; start a swe"),
        ([CARTPOLE, "--on=ray"], "unknown flag --on; "),
        ([CARTPOLE, "--seeds_per_trial=3"], "unknown flag --seeds_per_trial; "),
        ([CARTPOLE, "--search=num_envs=8,16", "--num_envs=8"], "given and searched"),
        ([CARTPOLE, "--search=num_envs=0,16"], "0 is out of bounds; expected at leas"),
        (["--search=num_envs=8,16"], "no evaluations in an environment; pass --env"),
        ([CARTPOLE, "--eval_every=0"], "there are no evaluations in an environment"),
        (
            [CARTPOLE, "--num_workers=1", "--envs_per_worker=2"],
            "num_workers is 1 and envs_per_worker is 2",
        ),
        (["--env=CartPole-v7"], "'CartPole-v7' does not exist"),
        (["--env=tf/CartPol-v1"], "did you mean"),
    ],
)
def test_a_wrong_command_line_is_refused_before_a_folder_is_made(
    argv, error, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        sweep.main([*argv, "--logdir=sweep"])
    assert error in str(caught.value)
    assert not [*tmp_path.iterdir()]


def test_the_folder_is_required():
    with pytest.raises(UserError, match="no folder is given"):
        sweep.main([CARTPOLE])


def test_an_algorithm_without_a_usual_search_space_needs_one(monkeypatch):
    monkeypatch.delitem(SEARCHES, "ppo")
    with pytest.raises(UserError, match="no usual search space for 'ppo'"):
        sweep.main([CARTPOLE, "--logdir=sweep"])


def test_the_command_shows_results(tmp_path, monkeypatch, capsys):
    def fake(plan, study, folder, trials, jobs, report):
        assert (trials, jobs) == (3, 2)
        assert plan.fixed == {"config": "cartpole"}
        for value in range(trials):
            trial = study.ask(plan.space)
            report(study.tell(trial, value))

    monkeypatch.setattr(sweep_loop, "run", fake)
    argv = ["--config=cartpole", "--trials=3", "--jobs=2", f"--logdir={tmp_path}"]
    assert sweep.main([*argv, "--search=num_envs=8,16"]) == 0
    out, err = capsys.readouterr()
    assert "3 of 3 trials completed" in out
    assert "train the best again: tfagents-batch train --config=cartpole --num" in out
    assert out.splitlines()[-1] == str(tmp_path / sweep_results.FILE)
    assert "trial 2: 2 in 0 s; 3 of 3, best 2 (trial 2)" in err


@pytest.mark.slow
def test_a_sweep_trains(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["sweep"])
    argv = ["--config=cartpole", "--trials=3", "--jobs=2", f"--logdir={tmp_path}"]
    argv += ["--search=algorithm.learning_rate=log:1e-4:1e-2", "--steps=4000"]
    assert sweep.main([*argv, "--quiet"]) == 0
    text = (tmp_path / sweep_results.FILE).read_text()
    assert text.count(",complete,") == 3


def test_code_that_a_file_names_is_not_imported(tmp_path):
    (tmp_path / "payload.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    settings = {"algorithm": "ppo", "env": f"{tmp_path}/payload.py:X"}
    (tmp_path / "evil.json").write_text(json.dumps(settings))
    flags_given = f"--config={tmp_path}/evil.json", "--search=num_envs=8,16"
    with pytest.raises(UserError, match=r"your own code.*pass it again"):
        sweep.main([*flags_given, f"--logdir={tmp_path}/logs"])
    assert not (tmp_path / "ran").exists()
