"""A new run that begins with what another one has learned."""

import pathlib
import shutil

import gymnasium
import numpy as np
import pytest

import tfagents_batch as tfb
from tests.support.lines import saved
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import train as script
from tfagents_batch.training.analysis import curves
from tfagents_batch.training.experiment import Experiment
from tfagents_batch.training.log.logger import read_events
from tfagents_batch.training.run_folder import checkpoint, config_file, runs

SMALL = {
    "steps": 200,
    "num_envs": 2,
    "num_workers": 0,
    "rollout_length": 50,
    "eval_every": 0,
    "compile": "off",
    "compile_cache": False,
}
SETTINGS = {"epochs": 2, "minibatch_size": 50, "learning_rate": 1e-2}
SETTINGS |= {"histograms": False, "network.hidden": (4,)}  # less to trace
STILL = {"learning_rate": 1e-30}  # less than the last bit of any weight
WEIGHTS = "network/weights"  # of ``linear``


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    logdir = tmp_path_factory.mktemp("logs")
    return tfb.train(env="CartPole-v1", logdir=logdir, settings=SETTINGS, **SMALL)


@pytest.fixture(scope="module")
def kept(linear, tmp_path_factory):
    """A run of a quicker algorithm with a checkpoint every 50 steps."""
    options = {"logdir": tmp_path_factory.mktemp("logs"), "keep_every": 50}
    return tfb.train(linear, env="CartPole-v1", **options, **SMALL)


def begin(run, logdir, **options):
    """A run that begins with another one and hardly learns."""
    options = {"env": "CartPole-v1", "init_from": run, "logdir": logdir} | options
    return tfb.train("linear", **SMALL | options, settings=STILL)


def values(logdir, which="newest"):
    """Of everything in a checkpoint, by name."""
    run = runs.open_run(logdir)
    config, _ = config_file.from_text(run.config_text)
    with Experiment(config) as experiment:
        named = experiment.named_variables()
        checkpoint.load(run.folder, named, which)
        return {name: np.asarray(x) for name, x in named.items()}


def test_it_begins_with_weights_and_statistics_and_all_else_anew(learned, tmp_path):
    new = tfb.train(
        env="CartPole-v1",
        logdir=tmp_path,
        init_from=learned.logdir,
        settings=SETTINGS | STILL | {"entropy_scale": 0.0},
        **SMALL | {"seed": 1, "steps": 50},
    )
    before, after = values(learned.logdir), values(new.logdir)
    weights = [name for name in before if name.startswith("network/")]
    assert weights
    for name in weights:
        np.testing.assert_allclose(after[name], before[name], atol=1e-12, err_msg=name)
    count = next(name for name in before if "observations/" in name and "count" in name)
    assert after[count] > before[count] + new.step  # openings were seen, too
    assert after["algorithm/step"] == new.step < 100
    assert before["algorithm/step"] >= SMALL["steps"]
    (event,) = [x for x in read_events(new.logdir) if x["event"] == "started_from"]
    assert event["checkpoint"] == learned.step
    assert learned.logdir.endswith(event["run"])
    own = [name for name in before if name.startswith("optimizer/")]
    (count,) = [name for name in own if before[name].dtype.kind == "i"]
    assert before[count] == 12  # three iterations of two epochs of two minibatches
    assert after[count] == 4
    # Nor is it a run like those that began at random.
    groups = curves.group([new.logdir, learned.logdir])
    origins = [group.name.rpartition("init_from=")[2] for group in groups]
    run = pathlib.Path(learned.logdir).name
    assert sorted(origins) == sorted([f"{run} at {learned.step}", "None"])


def test_one_of_its_checkpoints_can_be_chosen(kept, tmp_path):
    first, *_ = saved(kept.logdir)
    assert first < kept.step
    new = begin(kept.logdir, tmp_path, steps=100, init_checkpoint=first)
    older, after = values(kept.logdir, first), values(new.logdir)
    np.testing.assert_allclose(after[WEIGHTS], older[WEIGHTS], atol=1e-12)


def test_what_does_not_fit_is_told_before_there_is_a_folder(learned, tmp_path):
    old = {"logdir": tmp_path, "init_from": learned.logdir}
    with pytest.raises(UserError, match=r"acts in Discrete\(2\).*takes Discrete\(3\)"):
        tfb.train(env="Acrobot-v1", **old, **SMALL)
    smaller = {"network.hidden": (8, 8)}
    with pytest.raises(UserError, match=r"does not fit: network/.* in the checkpoint"):
        tfb.train(env="CartPole-v1", settings=smaller, **old, **SMALL)
    new = {"logdir": tmp_path, "init_from": tmp_path / "none"}
    with pytest.raises(UserError, match="does not exist"):
        tfb.train(env="CartPole-v1", **new, **SMALL)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "settings",
    [{"normalize_observation": False}, {"network.activation": "relu"}],
)
def test_settings_that_would_make_it_another_agent_are_refused(learned, settings):
    (name,) = settings
    with pytest.raises(UserError, match=f"has {name}=.*--algorithm.{name}"):
        tfb.train(
            env="CartPole-v1", init_from=learned.logdir, settings=settings, **SMALL
        )


def stronger():
    """Takes twice the torque."""
    env = gymnasium.make("Pendulum-v1")
    return gymnasium.wrappers.RescaleAction(env, np.float32(-4), np.float32(4))


def test_other_bounds_of_actions_are_refused(linear, tmp_path):
    options = SMALL | {"steps": 50, "logdir": tmp_path}
    run = tfb.train(linear, env="Pendulum-v1", **options)
    with pytest.raises(UserError, match=r"acts in Box\(-2.0.*takes Box\(-4.0"):
        begin(run.logdir, tmp_path, env=stronger)


def test_a_damaged_checkpoint_is_passed_over_and_told(kept, tmp_path, capsys):
    run = shutil.copytree(kept.logdir, tmp_path / "damaged")
    *_, older, newest = saved(run)
    (state,) = run.glob(f"checkpoints/*{newest}/state.json")
    state.write_text("{}")
    new = begin(run, tmp_path, steps=50)
    (event,) = [x for x in read_events(new.logdir) if x["event"] == "started_from"]
    assert event["checkpoint"] == older
    assert list(event["damaged"]) == [str(newest)]
    assert f"step {newest} of" in capsys.readouterr().err


def test_it_is_evaluated_and_resumed_like_any_other(kept, tmp_path):
    options = {"steps": 50, "overlap": True, "eval_every": 50, "eval_episodes": 2}
    new = begin(kept.logdir, tmp_path, **options)
    on = tfb.train(resume=new.logdir, steps=150)
    assert on.step >= 150
    before, after = values(kept.logdir), values(on.logdir)
    np.testing.assert_allclose(after[WEIGHTS], before[WEIGHTS], atol=1e-12)


def test_it_contradicts_a_resume_and_needs_a_run(kept):
    with pytest.raises(UserError, match="pass only one of them"):
        tfb.train(resume=kept.logdir, init_from=kept.logdir)
    with pytest.raises(UserError, match="'best', but init_from is not given"):
        tfb.train(resume=kept.logdir, init_checkpoint="best")
    with pytest.raises(UserError, match="'best', but init_from is not given"):
        tfb.train(env="CartPole-v1", init_checkpoint="best", **SMALL)


def test_it_is_a_flag(kept, tmp_path, capsys):
    flags = [f"--{name}={value}" for name, value in SMALL.items() if name != "steps"]
    flags += [f"--init_from={kept.logdir}", f"--logdir={tmp_path}", "--steps=50"]
    assert script.main(["--env=CartPole-v1", "--algorithm=linear", *flags]) == 0
    name = kept.logdir.rpartition("/")[2]
    assert f"agent of {name} after {kept.step} steps" in capsys.readouterr().err
