import pytest

from tfagents_batch.errors import UserError
from tfagents_batch.scripts import check

FAULTY = "--env=tests.support.fault_env:FaultEnv"


def test_a_healthy_environment_is_status_zero_and_prints_nothing(capsys):
    assert check.main(["--env=CartPole-v1", "--steps=50"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    first, *facts = err.splitlines()
    assert first.endswith("CartPole-v1: no defects")
    assert "  action_space: Discrete(2)" in facts and "  steps: 50" in facts
    assert "  reward: (1.0, 1.0)" in facts
    (longest,) = [x for x in facts if x.startswith("  longest_episode: ")]
    assert 8 < int(longest.split()[-1]) < 51


def test_a_warning_is_printed_and_is_not_a_failure(capsys):
    kwargs = '--env_kwargs={"length": 1000}'
    name = "tfagents_batch.envs.testing:CountingEnv"
    assert check.main([f"--env={name}", kwargs, "--steps=50"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("warning: no episode ended in 50 steps")


@pytest.mark.parametrize("mode", ["shape", "flag_int", "exc"])
def test_a_defect_is_one_line_and_status_65(capsys, mode):
    kwargs = f'--env_kwargs={{"mode": "{mode}"}}'
    assert check.main([FAULTY, kwargs, "--steps=50"]) == 65
    out, err = capsys.readouterr()
    (line,) = out.splitlines()
    assert line.startswith("defect: ")
    assert "step() at step 3 of episode 0" in line
    assert "1 defect" in err


def test_debug_shows_the_traceback_of_a_finding(capsys):
    kwargs = '--env_kwargs={"mode": "exc"}'
    assert check.main([FAULTY, kwargs, "--steps=50", "--debug"]) == 65
    assert "Traceback" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no environment is given; pass --env"),
        (["--env=CartPol-v1"], "did you mean 'CartPole-v1'"),
        (["--env=CartPole-v1", "--step=3"], "unknown flag --step; did you mean"),
        (["--env=CartPole-v1", "--env_kwargs=3"], "env_kwargs"),
    ],
)
def test_a_bad_flag_is_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        check.main(arguments)
