"""A new run that begins with what another one has learned."""

import numpy as np
import pytest

import tfagents_batch as tfb
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import train as script
from tfagents_batch.training import checkpoint, runs, stored
from tfagents_batch.training.experiment import Experiment
from tfagents_batch.training.logger import read_events

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
# Less than the last bit of any weight.
STILL = SETTINGS | {"learning_rate": 1e-30, "entropy_scale": 0.0}


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    logdir = tmp_path_factory.mktemp("logs")
    return tfb.train(env="CartPole-v1", logdir=logdir, settings=SETTINGS, **SMALL)


def values(logdir, which="newest"):
    """Of everything in a checkpoint, by name."""
    run = runs.open_run(logdir)
    config, _ = stored.from_text(run.config_text)
    with Experiment(config) as experiment:
        named = experiment.named_variables()
        checkpoint.load(run.folder, named, which)
        return {name: np.asarray(x) for name, x in named.items()}


def test_it_begins_with_weights_and_statistics_and_counts_its_own_steps(
    learned, tmp_path
):
    new = tfb.train(
        env="CartPole-v1",
        logdir=tmp_path,
        init_from=learned.logdir,
        settings=STILL,
        **SMALL | {"seed": 1},
    )
    before, after = values(learned.logdir), values(new.logdir)
    weights = [name for name in before if name.startswith("network/")]
    assert weights
    for name in weights:
        np.testing.assert_allclose(after[name], before[name], atol=1e-12, err_msg=name)
    count = next(name for name in before if "observations/" in name and "count" in name)
    assert after[count] > before[count] + new.step  # openings were seen, too
    assert after["algorithm/step"] == new.step < 2 * SMALL["steps"]
    events = read_events(new.logdir)
    (told,) = [each for each in events if each["event"] == "started_from"]
    assert told["checkpoint"] == learned.step
    assert learned.logdir.endswith(told["run"])


def test_the_optimizer_begins_anew(learned, tmp_path):
    options = SMALL | {"steps": 50, "logdir": tmp_path, "init_from": learned.logdir}
    new = tfb.train(env="CartPole-v1", settings=STILL, **options)
    before, after = values(learned.logdir), values(new.logdir)
    own = [name for name in before if name.startswith("optimizer/")]
    (count,) = [name for name in own if before[name].dtype.kind == "i"]
    assert before[count] == 12  # three iterations of two epochs of two minibatches
    assert after[count] == 4


def test_one_of_its_checkpoints_can_be_chosen(tmp_path):
    options = SMALL | {"keep_every": 50, "logdir": tmp_path}
    run = tfb.train(env="CartPole-v1", settings=SETTINGS, **options)
    first, *_ = checkpoint.list_steps(run.logdir)
    assert first < run.step
    options |= {"steps": 100, "init_from": run.logdir, "init_checkpoint": first}
    new = tfb.train(env="CartPole-v1", settings=STILL, **options)
    older, after = values(run.logdir, first), values(new.logdir)
    kernel = next(name for name in older if name.startswith("network/"))
    np.testing.assert_allclose(after[kernel], older[kernel], atol=1e-12)


def test_what_does_not_fit_is_told_before_there_is_a_folder(learned, tmp_path):
    with pytest.raises(UserError, match=r"does not fit: network/.* in the checkpoint"):
        tfb.train(env="Acrobot-v1", init_from=learned.logdir, logdir=tmp_path, **SMALL)
    with pytest.raises(UserError, match="does not exist"):
        tfb.train(env="CartPole-v1", init_from=tmp_path / "none", **SMALL)
    assert not list(tmp_path.iterdir())


def test_it_contradicts_a_resume_and_needs_a_run(learned):
    with pytest.raises(UserError, match="leave one of them out"):
        tfb.train(resume=learned.logdir, init_from=learned.logdir)
    with pytest.raises(UserError, match="init_checkpoint is 'best', but no run"):
        tfb.train(env="CartPole-v1", init_checkpoint="best", **SMALL)


def test_it_is_a_flag(learned, tmp_path, capsys):
    flags = [f"--{name}={value}" for name, value in SMALL.items()]
    flags += [f"--init_from={learned.logdir}", f"--logdir={tmp_path}"]
    assert script.main(["--env=CartPole-v1", *flags]) == 0
    assert f"had learned after {learned.step} steps" in capsys.readouterr().err


def test_several_seeds_begin_with_weights_of_their_own(learned):
    flags = ["--env=tf/CartPole-v1", "--seeds=2", f"--init_from={learned.logdir}"]
    with pytest.raises(UserError, match="--init_from is not for several seeds"):
        script.main(flags)
