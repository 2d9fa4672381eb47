"""New runs that start with the agent of another run."""

import contextlib
import dataclasses
import pathlib
import shutil

import gymnasium
import numpy as np
import pytest

import tfagents_batch as tfb
from tests.support.brief import QUICK
from tests.support.lines import saved
from tfagents_batch.algorithms import REGISTRY
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import train as script
from tfagents_batch.training import starting_runs, training_run
from tfagents_batch.training.assembly import Experiment
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.log import curves
from tfagents_batch.training.log.logger import read_events
from tfagents_batch.training.run_folder import checkpoint, config_file, runs

SMALL = QUICK | {"steps": 200}
SETTINGS = {"epochs": 1, "minibatch_size": None, "learning_rate": 1e-2}
SETTINGS |= {"histograms": False, "network.hidden": (4,)}  # less to trace
STILL = {"learning_rate": 1e-30}  # less than the last bit of any weight
STILL_FLAG = {"algorithm.learning_rate": 1e-30}
WEIGHTS = "policy/weights"  # of ``linear``


@pytest.fixture(scope="module")
def ppo_run(tmp_path_factory):
    logdir = tmp_path_factory.mktemp("logs")
    return tfb.train(env="CartPole-v1", logdir=logdir, settings=SETTINGS, **SMALL)


@pytest.fixture(scope="module")
def linear_run(linear, tmp_path_factory):
    """A run of a quicker algorithm with a checkpoint every 50 steps."""
    options = {"logdir": tmp_path_factory.mktemp("logs"), "keep_every": 50}
    return tfb.train(linear, env="CartPole-v1", **options, **SMALL)


def begin(run, logdir, **options):
    """Train a run that starts with another run's agent and hardly learns."""
    options = {"env": "CartPole-v1", "init_from": run, "logdir": logdir} | options
    return tfb.train("linear", **SMALL | options, settings=STILL)


def values(logdir, which="newest"):
    """Return all values in a checkpoint, by name."""
    run = runs.open_run(logdir)
    config, _ = config_file.from_text(run.config_text)
    with Experiment(config, config.recipe()) as experiment:
        named = experiment.named_variables()
        checkpoint.load(run.folder, named, which)
        return {name: np.asarray(x) for name, x in named.items()}


@pytest.mark.parametrize("name", ["dqn", "sac", "td3"])
@pytest.mark.parametrize(
    ("settings", "acts"),
    [
        ({}, "policy"),
        ({"warmup": "random"}, "random"),
        ({"warmup": "policy"}, "policy"),
    ],
)
def test_the_copied_policy_acts_in_the_warm_up(
    linear_run, tmp_path, monkeypatch, name, settings, acts
):
    resolved = []

    def stop(config, passed):
        resolved.append(config)
        raise UserError("before anything is built")

    monkeypatch.setattr(starting_runs, "_experiment", stop)
    for origin in ({}, {"init_from": linear_run.logdir}):
        with pytest.raises(UserError, match="before anything is built"):
            tfb.train(
                name, "tf/Pendulum-v1", logdir=tmp_path, settings=settings, **origin
            )
    new, copied = (config.settings.warmup for config in resolved)
    assert (new, copied) == (settings.get("warmup", "auto"), acts)


def test_a_new_run_starts_with_the_weights_and_a_new_optimizer(ppo_run, tmp_path):
    new = tfb.train(
        env="CartPole-v1",
        logdir=tmp_path,
        init_from=ppo_run.logdir,
        settings=SETTINGS | STILL | {"entropy_scale": 0.0},
        **SMALL | {"seed": 1, "steps": 50},
    )
    before, after = values(ppo_run.logdir), values(new.logdir)
    weights = [name for name in before if name.startswith("policy/")]
    assert weights
    for name in weights:
        np.testing.assert_allclose(after[name], before[name], atol=1e-12, err_msg=name)
    count = next(name for name in before if "observations/" in name and "count" in name)
    assert after[count] > before[count] + new.step  # first observations count, too
    assert new.step < 100 and ppo_run.step >= SMALL["steps"]
    (event,) = [x for x in read_events(new.logdir) if x["event"] == "started_from"]
    assert event["checkpoint"] == ppo_run.step
    assert ppo_run.logdir.endswith(event["run"])
    own = [name for name in before if name.startswith("learner/optimizer/")]
    (count,) = [name for name in own if before[name].dtype.kind == "i"]
    assert before[count] == 3  # one for each iteration
    assert after[count] == 1
    # Plots do not group it with runs that started from random weights.
    groups = curves.group([new.logdir, ppo_run.logdir])
    origins = {group.name.partition(" --init_from=")[2] for group in groups}
    run = pathlib.Path(ppo_run.logdir).name
    flags = [f"{run} --init_checkpoint={ppo_run.step}", "none --init_checkpoint=none"]
    assert origins == {*flags}


AGENTS = {
    "ppo": "CartPole-v1",
    "dqn": "CartPole-v1",
    "sac": "Pendulum-v1",
    "td3": "Pendulum-v1",
}


@contextlib.contextmanager
def untrained(algorithm, seed):
    _, kind = REGISTRY[algorithm]
    settings = kind()
    network = dataclasses.replace(settings.network, hidden=(4,))
    options = {"num_envs": 1, "num_workers": 0, "eval_every": 0, "seed": seed}
    options |= {"settings": dataclasses.replace(settings, network=network)}
    config = RunConfig(algorithm, AGENTS[algorithm], compile_cache=False, **options)
    with Experiment(config, config.recipe()) as experiment:
        yield experiment


def as_run(experiment, logdir, variables):
    """Return the folder of a run with some variables as its checkpoint."""
    text = config_file.to_text(experiment.config, experiment.config.env, None)
    facts = training_run.facts(experiment.algorithm, experiment.spec)
    folder = runs.create(logdir, "old", 0, text, facts=facts)
    checkpoint.save(folder, 100, variables, {})
    return folder


@pytest.mark.parametrize("algorithm", AGENTS)
def test_all_but_the_optimizer_is_loaded(algorithm, tmp_path):
    with untrained(algorithm, 0) as old:
        named = old.named_variables()
        for name, variable in named.items():
            variable.assign(np.full(variable.shape, 2 + len(name) % 7))
        folder = as_run(old, tmp_path, named)
        saved = {name: np.asarray(x).copy() for name, x in named.items()}
    with untrained(algorithm, 1) as new:
        named = new.named_variables()
        before = {name: np.asarray(x).copy() for name, x in named.items()}
        origin = starting_runs.take_agent(new, folder, "newest")
        assert origin["not_loaded"] == ["learner/optimizer"]
        for name, variable in named.items():
            fresh = name.startswith("learner/optimizer/")
            expected = (before if fresh else saved)[name]
            np.testing.assert_array_equal(variable, expected, err_msg=name)


def test_what_only_one_of_two_runs_learns_is_named(tmp_path):
    with untrained("dqn", 0) as old:
        named = old.named_variables()
        moved = {
            f"{name}_old" if "/target/" in name else name: x
            for name, x in named.items()
        }
        folder = as_run(old, tmp_path, moved)
    with untrained("dqn", 1) as new:
        target = [x for name, x in new.named_variables().items() if "/target/" in name]
        before = [np.asarray(x).copy() for x in target]
        origin = starting_runs.take_agent(new, folder, "newest")
        np.testing.assert_equal(list(map(np.asarray, target)), before)
    assert origin["not_loaded"] == ["learner/optimizer", "learner/target"]


def test_a_checkpoint_can_be_chosen_by_flags(linear_run, tmp_path, capsys):
    first, *_ = saved(linear_run.logdir)
    assert first < linear_run.step
    options = SMALL | STILL_FLAG | {"env": "CartPole-v1", "algorithm": "linear"}
    options |= {"init_from": linear_run.logdir, "init_checkpoint": first}
    options |= {"logdir": tmp_path, "steps": 50}
    assert script.main([f"--{name}={value}" for name, value in options.items()]) == 0
    name = linear_run.logdir.rpartition("/")[2]
    assert f"agent of {name} after {first} steps" in capsys.readouterr().err
    (new,) = tmp_path.iterdir()
    older, after = values(linear_run.logdir, first), values(new)
    np.testing.assert_allclose(after[WEIGHTS], older[WEIGHTS], atol=1e-12)


def test_an_agent_that_does_not_fit_is_refused_early(ppo_run, tmp_path):
    old = {"logdir": tmp_path, "init_from": ppo_run.logdir}
    with pytest.raises(UserError, match=r"space Discrete\(2\).*has Discrete\(3\)"):
        tfb.train(env="Acrobot-v1", **old, **SMALL)
    smaller = {"network.hidden": (8, 8)}
    with pytest.raises(
        UserError, match=r"does not fit: policy/network/.* in the checkpoint"
    ):
        tfb.train(env="CartPole-v1", settings=smaller, **old, **SMALL)
    new = {"logdir": tmp_path, "init_from": tmp_path / "none"}
    with pytest.raises(UserError, match="does not exist"):
        tfb.train(env="CartPole-v1", **new, **SMALL)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "settings",
    [{"normalize_observation": False}, {"network.activation": "relu"}],
)
def test_settings_that_change_the_agent_are_refused(ppo_run, settings):
    (name,) = settings
    with pytest.raises(UserError, match=f"has {name}=.*--algorithm.{name}"):
        tfb.train(
            env="CartPole-v1", init_from=ppo_run.logdir, settings=settings, **SMALL
        )


def test_critics_with_other_layers_are_refused(tmp_path):
    with untrained("td3", 0) as old:
        folder = pathlib.Path(as_run(old, tmp_path, old.named_variables()))
    path = folder / "config.json"
    text = path.read_text()
    assert text.count('"layer_norm": false') == 1
    path.write_text(text.replace('"layer_norm": false', '"layer_norm": true'))
    error = pytest.raises(UserError, match=r"critic\.layer_norm")
    with untrained("td3", 1) as new, error:
        starting_runs.take_agent(new, folder, "newest")


def test_a_changed_source_of_the_users_own_is_refused_by_its_text(linear_run):
    class Own:
        fingerprint = "of other data"

        def __str__(self):
            return "my rows"

    folder = pathlib.Path(linear_run.logdir)
    facts = runs.facts(folder) | {"source_fingerprint": "of the first data"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "facts", lambda _: facts)
        with pytest.raises(UserError, match="my rows was made again"):
            training_run.check_source(folder, Own())


def stronger():
    """Return a Pendulum that takes twice the torque."""
    env = gymnasium.make("Pendulum-v1")
    return gymnasium.wrappers.RescaleAction(env, np.float32(-4), np.float32(4))


def test_different_action_bounds_are_refused(tmp_path):
    with untrained("sac", 0) as old:
        folder = as_run(old, tmp_path, old.named_variables())
    options = SMALL | {"settings": {"network.hidden": (4,)}}
    options |= {"steps": 2000}
    del options["rollout.length"]
    with pytest.raises(UserError, match=r"space Box\(-2.0.*has Box\(-4.0"):
        tfb.train("sac", env=stronger, init_from=folder, **options)


def test_a_damaged_checkpoint_is_skipped_and_reported(linear_run, tmp_path, capsys):
    run = shutil.copytree(linear_run.logdir, tmp_path / "damaged")
    *_, older, newest = saved(run)
    (state,) = run.glob(f"checkpoints/*{newest}/state.json")
    state.write_text("{}")
    new = begin(run, tmp_path, steps=50)
    (event,) = [x for x in read_events(new.logdir) if x["event"] == "started_from"]
    assert event["checkpoint"] == older
    assert list(event["damaged"]) == [str(newest)]
    assert f"step {newest} of" in capsys.readouterr().err


def test_the_new_run_is_evaluated_and_resumed(linear_run, tmp_path):
    options = {"steps": 50, "overlap": True, "eval_every": 50, "eval_episodes": 2}
    new = begin(linear_run.logdir, tmp_path, **options)
    resumed = tfb.train(resume=new.logdir, steps=150)
    assert resumed.step >= 150
    before, after = values(linear_run.logdir), values(resumed.logdir)
    np.testing.assert_allclose(after[WEIGHTS], before[WEIGHTS], atol=1e-12)


def test_init_from_contradicts_resume_and_init_checkpoint_needs_it(linear_run):
    with pytest.raises(UserError, match="pass only one of them"):
        tfb.train(resume=linear_run.logdir, init_from=linear_run.logdir)
    with pytest.raises(UserError, match="'best', but init_from is not given"):
        tfb.train(resume=linear_run.logdir, init_checkpoint="best")
    with pytest.raises(UserError, match="'best', but init_from is not given"):
        tfb.train(env="CartPole-v1", init_checkpoint="best", **SMALL)
