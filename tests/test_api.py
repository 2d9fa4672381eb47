import functools
import gc
import json
import os
import pathlib
import random
import shutil
import sys

import gymnasium
import keras
import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.support import linear, untrained
from tests.support.brief import QUICK
from tests.support.fault_env import fault_envs
from tests.support.lines import of_the_seed, saved
from tests.support.space_env import SpaceEnv
from tfagents_batch import api
from tfagents_batch.api import Run
from tfagents_batch.configs import named
from tfagents_batch.envs import registry
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import EnvError, UserError
from tfagents_batch.schedules import Constant
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.log.logger import Logger, read_events, read_metrics
from tfagents_batch.training.run_folder import runs

pytestmark = pytest.mark.usefixtures("linear")
# Options of the run that most tests share.
SHARED = QUICK | {"num_envs": 3, "eval_every": 300, "eval_episodes": 4}
SHARED |= {"env": "CartPole-v1", "settings": {"learning_rate": "linear(1e-3, 0)"}}


def graphs():
    """Return the number of graphs in memory; each takes tens of megabytes."""
    gc.collect()
    held = (x for x in gc.get_objects() if isinstance(x, tf.__internal__.FuncGraph))
    return sum(1 for _ in held)


@pytest.fixture(scope="module")
def trained(linear, tmp_path_factory):
    """Return a finished run, and how many graphs its training left in memory."""
    before, folder = graphs(), tmp_path_factory.mktemp("logs")
    run = tfb.train("linear", logdir=folder, **SHARED)
    return run, graphs() - before


@pytest.fixture(scope="module")
def shared_run(trained):
    return trained[0]


@pytest.fixture
def run(shared_run, tmp_path):
    """A finished run, which a test may change."""
    folder = tmp_path / pathlib.Path(shared_run.logdir).name
    shutil.copytree(shared_run.logdir, folder)
    return shared_run._replace(logdir=str(folder))


def read_config(run):
    path = pathlib.Path(run.logdir) / "config.json"
    return json.loads(path.read_text())["config"]


def edit_config(run, **changes):
    path = pathlib.Path(run.logdir) / "config.json"
    data = json.loads(path.read_text())
    data["config"] |= changes
    path.write_text(json.dumps(data))


def events_of(run, kind):
    return [event for event in read_events(run.logdir) if event["event"] == kind]


def test_train_creates_a_run_and_evaluate_plays_it_and_both_free_their_graphs(
    run, trained
):
    folder = pathlib.Path(run.logdir)
    assert run.finished
    assert run.step >= 300
    assert run.metrics["episode/return_mean"] > 5
    assert len(saved(folder)) == 2  # after the first iteration, too
    assert max(saved(folder)) == run.step
    assert [line["step"] for line in read_metrics(folder)][-1] == run.step
    assert list(folder.glob("events.out.tfevents*"))
    (event,) = events_of(run, "resources")
    assert event["num_workers"] == 0
    assert event["reason"]
    assert event["compile_cache"].startswith("off: ")
    before = graphs()
    result = tfb.evaluate(run, episodes=4)  # a run stands for its folder
    assert (trained[1], graphs() - before) == (0, 0)
    assert result.episodes == 4
    assert result.mean_return > 5


@pytest.mark.any_backend
def test_equal_seeds_give_equal_lines_for_any_number_of_workers(shared_run, capsys):
    folder = pathlib.Path(shared_run.logdir)
    random.seed(1)
    np.random.seed(1)
    expected = random.random(), np.random.random()
    random.seed(1)
    np.random.seed(1)
    options = {k: v for k, v in SHARED.items() if k != "num_workers"}
    options |= {"envs_per_worker": 2, "logdir": folder.parent}
    run = tfb.train("linear", **options)
    assert (random.random(), np.random.random()) == expected  # their seeds are kept
    assert pathlib.Path(run.logdir).parent == folder.parent
    assert run.logdir != shared_run.logdir
    assert "of TensorFlow on" in capsys.readouterr().err
    lines = of_the_seed(run)
    assert len(lines) >= 3
    assert lines == of_the_seed(shared_run)
    (event,) = events_of(run, "resources")
    assert (event["num_workers"], event["envs_per_worker"]) == (2, 2)
    more = tfb.train(resume=run.logdir, num_workers=1)  # replaces envs_per_worker
    assert events_of(more, "resources")[-1]["num_workers"] == 1
    assert read_config(more)["envs_per_worker"] is None


def test_another_seed_gives_other_lines_and_a_failed_profile_is_only_reported(
    shared_run, tmp_path, capsys, monkeypatch
):
    def fail(*_):
        raise EnvError("env 0 raised")

    monkeypatch.setattr("tfagents_batch.training.profile.run", fail)
    options = SHARED | {"logdir": tmp_path, "profile": True, "seed": 1}
    run = tfb.train("linear", **options)
    assert run.finished
    assert of_the_seed(run) != of_the_seed(shared_run)
    assert read_events(run.logdir)[-1]["event"] == "profile_failed"
    assert "there is no profile: env 0 raised" in capsys.readouterr().err


def test_a_run_is_resumed_from_its_newest_checkpoint_with_its_options(run, capsys):
    edit_config(run, eval_every=0)
    more = tfb.train(resume=run.logdir, steps=600)
    assert more.logdir == run.logdir
    assert more.step >= 600
    steps = [line["step"] for line in read_metrics(run.logdir)]
    assert steps == sorted(steps)
    assert steps[-1] == more.step
    events = read_events(run.logdir)
    kinds = [event["event"] for event in events]
    assert kinds.count("finished") == 2
    assert "resumed" in kinds
    changed = [event["changed"] for event in events if event["event"] == "options"]
    assert changed == [{"steps": [300, 600]}]
    assert read_config(run)["steps"] == 600
    capsys.readouterr()
    again = tfb.train(resume=run.logdir)  # ends at once
    assert again.finished and again.step == more.step
    assert again.metrics["episode/return_mean"] == more.metrics["episode/return_mean"]
    said = "the run has all its 600 steps; pass --steps=1200 for more\n"
    assert capsys.readouterr() == ("", said)
    assert read_events(run.logdir) == events


def test_the_config_is_saved_as_text_and_read_back(run):
    data = json.loads((pathlib.Path(run.logdir) / "config.json").read_text())
    assert data["config"]["env"] == "CartPole-v1"
    assert data["config"]["settings"]["learning_rate"] == "linear(0.001, 0)"
    user = {"env": None, "network": None, "eval_env": None, "source": None}
    user["worker_variables"] = []
    assert data["user_code"] == user


LEVELS = []


class Levels(CountingEnv):
    """Environment that draws a level at each reset; episodes return 15."""

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed)
        LEVELS.append(int(self.np_random.integers(2**62)))
        return result


def test_evaluate_plays_levels_that_training_never_used_if_given_the_environment(
    tmp_path,
):
    options = QUICK | {"num_envs": 5, "eval_every": 100, "eval_episodes": 5}
    LEVELS.clear()
    run = tfb.train("linear", env=Levels, logdir=tmp_path, **options)
    trained = set(LEVELS)
    assert len(trained) == len(LEVELS) > 50
    LEVELS.clear()
    with pytest.raises(UserError, match=r"your own code.*pass env"):
        tfb.evaluate(run.logdir)
    with pytest.raises(UserError, match=r"your own code.*pass env"):
        tfb.train(resume=run.logdir, steps=600)
    assert tfb.evaluate(run.logdir, 25, env=Levels).mean_return == 15
    assert len(LEVELS) >= 25
    assert not trained.intersection(LEVELS)
    assert tfb.train(resume=run.logdir, env=Levels).finished


def convolutions(units):
    def build(observation_space, action_space):
        layers = [keras.layers.Conv2D(2, 3), keras.layers.Flatten()]
        return keras.Sequential([*layers, keras.layers.Dense(units, "tanh")])

    return build


def test_a_network_of_the_user_in_bfloat16_trains_and_has_to_be_passed_again(tmp_path):
    def pixels():
        image = gymnasium.spaces.Box(0, 255, (8, 8, 3), np.uint8)
        return SpaceEnv(image, gymnasium.spaces.Discrete(2))

    brief = {"epochs": 1, "minibatch_size": 50, "histograms": False}
    options = QUICK | {"precision": "mixed_bfloat16", "settings": brief}
    network = convolutions(8)
    run = tfb.train("ppo", env=pixels, logdir=tmp_path, network=network, **options)
    assert np.isfinite(run.metrics["loss/total"])
    with pytest.raises(UserError, match=r"trained with the network.*again"):
        tfb.evaluate(run.logdir, env=pixels)
    assert tfb.evaluate(run.logdir, 1, env=pixels, network=network).episodes == 1
    with pytest.raises(UserError, match="policy/network/"):
        tfb.evaluate(run.logdir, 1, env=pixels, network=convolutions(9))


def full(*spaces):
    return keras.Sequential([keras.layers.Dense(4, dtype="float32")])


@pytest.mark.parametrize("network", [None, full])
def test_a_network_without_convolution_is_not_trained_in_bfloat16(tmp_path, network):
    options = QUICK | {"precision": "mixed_bfloat16", "network": network}
    with pytest.raises(UserError, match="the network has no convolution"):
        tfb.train("ppo", env="CartPole-v1", logdir=tmp_path, **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"algorithm": "rainbow"},
            "the name of presets; pass --config=rainbow/asterix-minatar or --config=",
        ),
        ({"algorithm": "cartpole"}, "of a preset; pass --config=cartpole$"),
        ({"algorithm": "pppo"}, "unknown algorithm 'pppo'; did you mean 'ppo'"),
        ({"config": "cartpol"}, "unknown config 'cartpol'; did you mean 'cartpole'"),
        ({"env": "CartPole-v1", "stepz": 3}, "'stepz'; did you mean 'steps'"),
        ({"env": "CartPole-v1", "num_envs": 10**9}, "num_envs is.*at most 1000000"),
        ({"env": "CartPole-v1", "steps": 10**400}, "steps is 1000.*a whole number"),
        (
            {"env": "CartPole-v1", "num_envs": 9999, "envs_per_worker": 1},
            "num_workers is 9999; expected .* to 1024",
        ),
        ({}, "no environment"),
        ({"env": "CartPole-v7"}, "'CartPole-v7' does not exist"),
        ({"env": "CartPole-v1", "settings": 3}, "settings"),
        ({"resume": "nowhere"}, "nowhere"),
        (
            {"resume": "nowhere", "settings": {"gamma": 0.9}},
            "resume takes its settings from .*or start a new run with config='nowhere'",
        ),
        ({"resume": "nowhere", "seed": 3}, "seed cannot change"),
        ({"env": "CartPole-v1", "seed": 2**31}, "seed is 2147483648"),
        ({"env": "CartPole-v1", "env_kwargs": {"foo": 1}}, "env_kwargs.*foo"),
        ({"env": [CountingEnv] * 2, "num_envs": 3}, "num_envs cannot be chosen"),
    ],
)
def test_unusable_arguments_are_refused_and_leave_no_folder(
    tmp_path, arguments, message
):
    if "resume" not in arguments:
        arguments = arguments | {"logdir": tmp_path / "logs"}
    with pytest.raises(UserError, match=message):
        tfb.train(**arguments)
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("config.algorithm", ["ppo"], r"unknown algorithm \['ppo'\]"),
        ("config.num_envs", -1, "config.json of the run: num_envs is -1"),
        ("config.steps", 10**400, "config.json of the run: steps is 1000"),
        ("config.settings", [], r"config.json of the run: the config is \[\]"),
        (
            "config.env_kwargs",
            functools.reduce(lambda x, _: {"x": x}, range(400), {}),
            "config.json of the run: .*nested",
        ),
        ("config", None, "config.json of the run cannot be read"),
        ("user_code", [], "config.json of the run cannot be read"),
    ],
)
def test_an_unusable_config_file_gives_one_clear_error(run, place, value, message):
    path = pathlib.Path(run.logdir) / "config.json"
    data = json.loads(path.read_text())
    *parents, name = place.split(".")
    functools.reduce(dict.get, parents, data)[name] = value
    path.write_text(json.dumps(data))
    for use in (tfb.evaluate, tfb.load, lambda folder: tfb.train(resume=folder)):
        with pytest.raises(UserError, match=message):
            use(run.logdir)


def test_a_run_without_checkpoint_is_refused(run):
    for step in saved(run.logdir):
        folder = pathlib.Path(run.logdir) / "checkpoints" / f"step-{step:012d}"
        folder.rename(folder.with_name(f"away-{step}"))
    videos = pathlib.Path(run.logdir) / "videos"
    resume, film = lambda x: tfb.train(resume=x), lambda x: tfb.visualize(x, videos)
    for use in (tfb.evaluate, resume, film):
        with pytest.raises(UserError, match="checkpoint"):
            use(run.logdir)
    assert not list(videos.glob("*"))


def test_a_config_object_is_a_preset_too():
    own = linear.Config(gamma=0.8, learning_rate=Constant(1.0))
    config = RunConfig("linear", env="CartPole-v1", settings=own)
    found = named.resolve(None, None, config, {"learning_rate": 0.5}, {"steps": 300})
    assert found.settings == linear.Config(gamma=0.8, learning_rate=Constant(0.5))
    assert (found.env, found.steps) == ("CartPole-v1", 300)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 100}, r"steps is 100, but the run already has \d+"),
        ({"env": "Acrobot-v1"}, "'CartPole-v1', not on 'Acrobot-v1'"),
        ({"env_kwargs": {"x": 1}}, r"env_kwargs is .*but the run has"),
    ],
)
def test_unusable_arguments_of_resume_are_refused(run, options, message):
    with pytest.raises(UserError, match=message):
        tfb.train(resume=run.logdir, **{"steps": 600, **options})


def test_a_folder_in_use_is_not_resumed(run):
    in_use = pytest.raises(UserError, match=r"in use|another process")
    with runs.lock(run.logdir), in_use:
        tfb.train(resume=run.logdir, steps=600)


def test_a_run_folder_cannot_make_the_program_import_code(run, tmp_path):
    evil = tmp_path / "evil.py"
    evil.write_text(f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()")
    edit_config(run, env=f"{evil}:make")
    for use in (tfb.evaluate, lambda folder: tfb.train(resume=folder, steps=600)):
        with pytest.raises(UserError, match="your own code"):
            use(run.logdir)
    assert not (tmp_path / "ran").exists()


def uses(folder, tmp_path, **arguments):
    """Return every way to create the environment of a run folder, as functions."""
    config, options = str(folder), {"steps": 600, "logdir": tmp_path / "logs"}
    return {
        "evaluate": lambda: tfb.evaluate(folder, 2, **arguments),
        "visualize": lambda: tfb.visualize(folder, tmp_path / "v", **arguments),
        "resume": lambda: tfb.train(resume=folder, steps=600, **arguments),
        "config": lambda: tfb.train(config=config, **options, **arguments),
        "config.json": lambda: tfb.train(
            config=f"{config}/config.json", **options, **arguments
        ),
    }


@pytest.mark.parametrize(
    ("env", "env_kwargs"),
    [
        ("envpool:MyWayHome-v1", {"vzd_path": "./payload.sh"}),
        ("gym:CartPole-v1", {"nested": [{"x": "evil"}]}),
        ("envpool:MyWayHome-v1", {"nested": {"evil": 1}}),
        ("HalfCheetah-v5", {"xml_file": "./evil.xml"}),
        ("Ant-v5", {"xml_file": ".evil.xml"}),
    ],
)
def test_env_kwargs_with_text_have_to_be_passed_again(run, env, env_kwargs, tmp_path):
    edit_config(run, env=env, env_kwargs=env_kwargs)
    for use in uses(run.logdir, tmp_path).values():
        with pytest.raises(UserError, match=r"env_kwargs.*pass.*again.*--env_kwargs"):
            use()
    agent = tfb.load(run.logdir)  # creates no environment
    with pytest.raises(UserError, match=r"env_kwargs have text.*pass it again"):
        agent.make_env()
    with pytest.raises(UserError, match=r"env_kwargs is .*but the run has"):
        tfb.train(resume=run.logdir, env_kwargs={"x": 1})


def test_env_kwargs_with_text_are_not_passed_to_another_environment(run, tmp_path):
    edit_config(run, env="./evil.py:Make", env_kwargs={"path": "./payload.sh"})
    mine = functools.partial(CountingEnv, length=3)
    for use in uses(run.logdir, tmp_path, env=mine).values():
        with pytest.raises(UserError, match=r"env_kwargs.*pass.*again"):
            use()


def test_text_of_environments_that_execute_none_is_read_from_a_run_folder(run):
    edit_config(run, env="CartPole-v1", env_kwargs={"render_mode": "rgb_array"})
    assert tfb.evaluate(run.logdir, 2).episodes == 2
    for name, text in (
        ("FrozenLake-v1", {"map_name": "8x8", "desc": ["SF", "FG"]}),
        ("tf/CartPole-v1", {"any": "text"}),
        ("ALE/Pong-v5", {"obs_type": "ram"}),
    ):
        assert not registry.may_run_text(name, text)


@pytest.mark.parametrize(
    ("pool", "options"),
    [
        ("ray", {"address": "203.0.113.5:6379", "max_restarts": 0}),
        ("spark", {"master": "spark://203.0.113.5:7077"}),
    ],
)
def test_a_run_folder_does_not_choose_the_cluster(
    run, tmp_path, pool, options, monkeypatch
):
    def connect(*_):
        raise AssertionError("it connects to a cluster")

    monkeypatch.setattr(api.pools, "start", connect)
    edit_config(run, pool=pool, pool_workers=3, pool_options=options)
    episodes = {"source": {"episodes": 3}} if pool == "spark" else {}
    edit_config(run, **episodes)
    found = uses(run.logdir, tmp_path)
    for name in ("resume", "config", "config.json"):
        with pytest.raises(UserError, match=r"203.*pass it again.*--pool_options="):
            found[name]()
    edit_config(run, pool="none")  # "on this machine" says who chooses a pool alone
    chosen = uses(run.logdir, tmp_path, pool=pool)
    for name in ("resume", "config", "config.json"):
        with pytest.raises(UserError, match=r"203.*pass it again.*--pool_options="):
            chosen[name]()
    edit_config(run, pool=pool)
    assert found["evaluate"]().episodes == 2  # plays without the pool
    with pytest.raises(AssertionError, match="connects"):
        tfb.train(resume=run.logdir, steps=600, pool_options=options)


def test_worker_variables_of_a_folder_are_ignored_until_passed_again(
    run, tmp_path, caplog
):
    evil = tmp_path / "evil"
    evil.mkdir()
    (evil / "sitecustomize.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    path = os.pathsep.join([str(evil), *sys.path])
    variables = {"worker_variables": {"PYTHONPATH": path}}
    saved_options = {"step_seconds": 99.0, **variables}
    edit_config(run, num_workers=1, eval_every=0, env_options=saved_options)
    assert tfb.evaluate(run.logdir, 2).episodes == 2
    assert "PYTHONPATH" in caplog.text and "env_options" in caplog.text
    tfb.load(run.logdir)
    message = r'PYTHONPATH.*not saved.*pass.*"step_seconds": 99.0.*"PYTHONPATH"'
    with pytest.raises(UserError, match=message):
        tfb.train(resume=run.logdir, steps=600)
    again = tfb.train(resume=run.logdir, env_options={"step_seconds": 9.0})
    assert again.finished
    data = json.loads((pathlib.Path(run.logdir) / "config.json").read_text())
    assert data["user_code"]["worker_variables"] == []
    assert data["config"]["env_options"] == {"step_seconds": 9.0}
    assert not (tmp_path / "ran").exists()
    tfb.evaluate(run.logdir, 2, env_options=variables)
    assert (tmp_path / "ran").exists()


def test_worker_variables_reach_every_worker_and_no_file(tmp_path):
    class FromVariable(CountingEnv):  # local, so that workers do not import this file
        def __init__(self):
            super().__init__(length=len(os.environ.get("TFB_TEST_SECRET", "")))

    variables = {"worker_variables": {"TFB_TEST_SECRET": "s3cr3t!"}}
    options = QUICK | {"num_workers": 1, "eval_every": 150, "eval_episodes": 2}
    options |= {"env": FromVariable, "env_options": variables}
    run = tfb.train("linear", logdir=tmp_path, **options)
    assert run.metrics["episode/return_mean"] == 28  # 1 + 2 + ... + 7
    assert run.metrics["eval/return_mean"] == 28
    with pytest.raises(UserError, match=r"TFB_TEST_SECRET.*not saved"):
        tfb.train(resume=run.logdir, env=FromVariable, steps=600)
    again = {"env": FromVariable, "env_options": variables}
    assert tfb.train(resume=run.logdir, steps=600, **again).step >= 600
    with pytest.raises(UserError, match=r"TFB_TEST_SECRET.*not saved"):
        tfb.train(resume=run.logdir, env=FromVariable, steps=900)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "metrics.jsonl" for path in files)
    assert not [path for path in files if b"s3cr3t!" in path.read_bytes()]


def train_on_a_crash(tmp_path, **options):
    """Train in a worker that is killed in the third step of its second environment."""
    envs = fault_envs("kill", mark=str(tmp_path / "mark"))
    options |= {k: v for k, v in QUICK.items() if k != "num_envs"}
    options |= {"num_workers": 1, "logdir": tmp_path / "logs"}
    return tfb.train("linear", env=envs, **options)


def test_evaluations_of_environments_that_never_end_are_cut_off(tmp_path):
    def make():
        return CountingEnv(length=10**9)

    options = QUICK | {"eval_every": 150, "eval_episodes": 2, "logdir": tmp_path}
    run = tfb.train("linear", env=make, eval_max_episode_steps=30, **options)
    assert run.finished
    lines = [line for line in read_metrics(run.logdir) if "eval/episodes" in line]
    assert len(lines) > 1
    assert {line["eval/length_mean"] for line in lines} == {30}
    assert {line["eval/cut_off_episodes"] for line in lines} == {2}
    for most, expected in ((None, 30), (7, 7)):
        result = tfb.evaluate(run.logdir, 2, env=make, max_episode_steps=most)
        assert list(result.lengths) == [expected] * 2
        assert result.cut_off_episodes == 2


@pytest.mark.any_backend
def test_a_run_continues_when_an_environment_crashes(tmp_path):
    run = train_on_a_crash(tmp_path, on_fault="restart")
    assert run.finished
    events = {event["event"]: event for event in read_events(run.logdir)}
    failed, restarted = events["env_failed"], events["env_restarted"]
    assert (failed["env"], failed["envs"], failed["worker"]) == (1, [0, 1], 0)
    assert "was killed by SIGKILL, in step() at step 3" in failed["cause"]
    assert restarted["envs"] == [0, 1]
    assert restarted["lost_steps"] == 2
    lines = read_metrics(run.logdir)
    assert sum(line["env/lost_steps"] for line in lines) == 2
    assert all(np.isfinite(line["loss/total"]) for line in lines)


def test_a_run_that_ends_with_a_crash_has_a_checkpoint(tmp_path):
    with pytest.raises(EnvError, match="SIGKILL"):
        train_on_a_crash(tmp_path)
    (folder,) = (tmp_path / "logs").iterdir()
    assert read_events(folder)[-1]["event"] == "failed"
    assert [*saved(folder)] == [0]  # the first iteration is void


def test_overlapped_runs_are_repeatable_profiled_and_resumed(tmp_path, capsys):
    options = QUICK | {"overlap": True, "logdir": tmp_path}

    def train(**more):
        return tfb.train("linear", env="CartPole-v1", **options | more)

    run = train(profile=True)
    lines = of_the_seed(run)
    assert lines == of_the_seed(train(num_workers=2))
    lags = [line["lag/updates"] for line in lines]
    assert lags == [0] + [1] * (len(lags) - 1)
    report = json.loads(pathlib.Path(run.logdir, "profile.json").read_text())
    event = read_events(run.logdir)[-1]
    assert event["event"] == "profile"
    assert event["shares"] == report["shares"]
    assert "environment " in capsys.readouterr().err
    more = tfb.train(resume=run.logdir, steps=run.step + 300)
    assert more.step >= run.step + 300


def test_a_run_is_short_as_text_and_has_its_history(tmp_path):
    with Logger(tmp_path) as logger:
        logger.write({"loss/total": 2.0}, 10)
        logger.write({"loss/total": 1.0, "eval/return_mean": 7.0}, 20)
    run = Run(str(tmp_path), 20, {"episode/return_mean": 12.345}, True)
    assert repr(run) == f"Run({str(tmp_path)!r}, finished at step 20, return 12.35)"
    assert repr(run._replace(metrics={}, finished=False)).endswith(
        "stopped at step 20)"
    )
    history = run.history()
    assert sorted(history) == ["eval/return_mean", "loss/total", "step"]
    np.testing.assert_array_equal(history["step"], [10, 20])
    np.testing.assert_array_equal(history["loss/total"], [2, 1])
    np.testing.assert_array_equal(history["eval/return_mean"], [np.nan, 7])


def test_an_agent_is_loaded_without_its_environment(tmp_path):
    def make():
        return gymnasium.make("CartPole-v1")

    folder = untrained.folder("ppo", make, tmp_path, num_envs=1, num_workers=0)
    run = Run(str(folder), 100, {}, True)
    agent = run.load()
    assert agent.predict(np.zeros(4, np.float32))[0] in (0, 1)
    with pytest.raises(UserError, match=r"pass env, wrappers or env_kwargs"):
        agent.make_env()
    with pytest.raises(UserError, match=r"pass env \(flag --env\)"):
        run.evaluate(2)
    assert run.evaluate(2, env=make).episodes == 2
    run.load(env=make).make_env().close()
    mine = Run._ended(run, make)  # as the training that was given the function returns
    assert mine.evaluate(2).episodes == 2
    mine.load().make_env().close()
    assert Run._ended(run, "CartPole-v1").env is None
    assert tfb.export(run, outdir=tmp_path / "export").parity.problems == ()
