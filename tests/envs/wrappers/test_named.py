"""Wrappers by name: every environment gets the wrappers of the config."""

import functools
import json
import pathlib
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

import tfagents_batch as tfb
from tests.support import third_party
from tests.support.space_env import SpaceEnv
from tfagents_batch.envs import wrappers
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.envs.wrappers import named
from tfagents_batch.errors import EnvError, UserError
from tfagents_batch.scripts import train
from tfagents_batch.training.assembly import Experiment
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.log.logger import read_metrics
from tfagents_batch.training.video import Clips

SMALL = {
    **{"steps": 100, "num_envs": 2, "rollout.length": 25, "eval_every": 0},
    **{"log_every": 1, "compile": "off", "compile_cache": False},
}
LIMITED = [{"name": "LimitDuration", "max_episode_steps": 5}]


class Closing(CountingEnv):
    """An environment that logs when it is closed."""

    def __init__(self, log):
        super().__init__()
        self._log = log

    def close(self):
        self._log.append("closed")


class Duck:
    """An object with the attributes of an environment that is not one."""

    observation_space = action_space = gymnasium.spaces.Discrete(2)
    reset = step = None


def layers_of(env):
    return [type(each).__name__ for each in wrappers.layers.walk(env)]


def test_the_first_wrapper_is_innermost():
    listed = [{"name": "ActionRepeat", "amount": 2}, "FrameDelta"]
    env = named.wrapped(CountingEnv, listed)()
    assert layers_of(env) == ["FrameDelta", "ActionRepeat", "CountingEnv"]


def test_without_wrappers_a_constructor_is_returned_unchanged():
    assert named.wrapped(CountingEnv, []) is CountingEnv


def pendulum():
    return gymnasium.make("Pendulum-v1")


def image():
    return SpaceEnv(gymnasium.spaces.Box(0, 255, (8, 6, 3), np.uint8))


def entries():
    box = gymnasium.spaces.Box(0, 1, (2,))
    return SpaceEnv(gymnasium.spaces.Dict(a=box, b=gymnasium.spaces.Discrete(3)))


ONE = np.float32(1)
# Name, environment to wrap, arguments in JSON, and the arguments that Python converts.
WRAPPERS = [
    ("ActionRepeat", pendulum, '{"amount": 2}', {}),
    ("SelectKey", entries, '{"key": "a"}', {}),
    ("standard_stack", pendulum, '{"max_episode_steps": 9}', {}),
    ("FlattenObservation", entries, "{}", {}),
    ("FilterObservation", entries, '{"filter_keys": ["b"]}', {}),
    ("DtypeObservation", image, '{"dtype": "float32"}', {"dtype": np.float32}),
    ("ReshapeObservation", image, '{"shape": [48, 3]}', {"shape": (48, 3)}),
    (
        *("RescaleAction", pendulum, '{"min_action": [-1.0], "max_action": 1.0}'),
        {"min_action": np.float32([-1]), "max_action": ONE},
    ),
    (
        *("RescaleObservation", pendulum, '{"min_obs": -1.0, "max_obs": 1.0}'),
        {"min_obs": -ONE, "max_obs": ONE},
    ),
]
if "DiscretizeAction" in named.GYMNASIUM:  # since Gymnasium 1.3
    WRAPPERS.append(("DiscretizeAction", pendulum, '{"bins": [5]}', {"bins": (5,)}))


@pytest.mark.parametrize(("name", "make", "text", "typed"), WRAPPERS)
def test_a_named_wrapper_acts_like_its_class(name, make, text, typed):
    arguments = json.loads(text)
    by_name = named.wrapped(make, [{"name": name, **arguments}])()
    theirs = gymnasium.wrappers if name in named.GYMNASIUM else wrappers
    direct = getattr(theirs, name)(make(), **{**arguments, **typed})
    assert str(by_name) == str(direct)
    assert by_name.observation_space == direct.observation_space
    assert by_name.action_space == direct.action_space
    for env in (by_name, direct):
        env.action_space.seed(1)
    np.testing.assert_equal(by_name.reset(seed=1), direct.reset(seed=1))
    for _ in range(2):
        action = direct.action_space.sample()
        np.testing.assert_equal(by_name.step(action), direct.step(action))


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "ActionRepeat", "amount": 0},
        {"name": "TimeLimit", "max_episode_steps": 0},
        {"name": "RescaleObservation", "min_obs": "low", "max_obs": 1},
        {"name": "ClipReward"},
        {"name": "DtypeObservation", "dtype": "float33"},
        {"name": "ReshapeObservation", "shape": 7},
    ],
)
def test_an_error_of_a_wrapper_names_its_place(entry):
    with pytest.raises(UserError, match=rf"wrappers\[1\], {entry['name']}: "):
        named.wrapped(pendulum, ["standard_stack", entry])()


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ("standard_stack", r"wrappers is 'standard_stack'; expected a list"),
        ({"name": "standard_stack"}, r"wrappers is .*; expected a list"),
        (["standard_stak"], r"wrappers\[0\]: unknown wrapper.*'standard_stack'"),
        (["clipaction"], r"did you mean 'ClipAction'"),
        *(
            ([name], f"unknown wrapper '{name}'")  # not of the fixed lists
            for name in (
                *("os.system", "RecordVideo", "HumanRendering", "TransformReward"),
                *("gymnasium.wrappers.RecordVideo", "vector", "importlib"),
                "__getattr__",
            )
        ),
        ([["FrameDelta"]], r"wrappers\[0\] is \['FrameDelta'\]; expected a name"),
        ([{"amount": 2}], r"wrappers\[0\] is .*; expected a name"),
        (
            ["FrameDelta", {"name": "ActionRepeat", "amont": 2}],
            r"wrappers\[1\], ActionRepeat: unknown argument 'amont'.*'amount'",
        ),
        (["ActionRepeat"], r"ActionRepeat: the argument 'amount' is missing"),
        ([{"name": "FrameDelta", "env": 1}], r"FrameDelta: unknown argument 'env'"),
    ],
)
def test_invalid_entries_are_found_without_an_environment(listed, message):
    with pytest.raises(UserError, match=message):
        named.check(listed)
    with pytest.raises(UserError, match=message):
        RunConfig(env="CartPole-v1", wrappers=listed).check()


def test_the_environment_is_closed_when_a_wrapper_raises():
    log, listed = [], ["standard_stack", {"name": "SelectEntries", "indices": []}]
    with pytest.raises(UserError, match=r"wrappers\[1\], SelectEntries"):
        named.wrapped(functools.partial(Closing, log), listed)()
    assert log == ["closed"]


def test_an_object_that_is_not_a_gymnasium_env_is_refused():
    with pytest.raises(UserError, match=r"wrappers\[0\], AutoReset: .*Duck"):
        named.wrapped(Duck, ["AutoReset"])()
    with pytest.raises(EnvError, match="the constructor returned int"):
        tfb.make_env(lambda: 3, 1, 0, wrappers=["standard_stack"])


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_batch_consists_of_wrapped_environments(num_workers):
    makes = [CountingEnv, functools.partial(CountingEnv, 9)]
    for env in (makes, CountingEnv):
        with tfb.make_env(env, 2, num_workers, wrappers=LIMITED) as batch:
            assert batch.spec.max_episode_steps == 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: "tf/CartPole-v1", "written in TensorFlow"),
        (lambda: "envpool:CartPole-v1", "which EnvPool steps"),
        (CountingEnv, "an existing instance of CountingEnv"),
        (lambda: gymnasium.make_vec("CartPole-v1", 2), "an existing CartPoleVectorEnv"),
    ],
)
def test_existing_instances_and_batches_are_not_wrapped(make, message):
    with pytest.raises(UserError, match=f"wrappers cannot be put around.*{message}"):
        tfb.make_env(make(), wrappers=LIMITED)


@pytest.fixture(scope="module")
def run(tmp_path_factory, linear):
    """Run trained on CartPole with episodes of five steps."""
    logdir = tmp_path_factory.mktemp("logs")
    options = {"env": "CartPole-v1", "num_workers": 1, "wrappers": LIMITED}
    return tfb.train(linear, logdir=logdir, **SMALL, **options)


def test_a_run_trains_on_wrapped_environments_in_a_worker(run):
    lengths = [line["episode/length_mean"] for line in read_metrics(run.logdir)]
    assert lengths and set(lengths) == {5.0}


def test_an_env_object_is_not_wrapped(run, tmp_path, linear):
    with tfb.make_env("CartPole-v1", 2, 0) as env:
        with pytest.raises(UserError, match="wrappers cannot be chosen"):
            tfb.train(linear, env=env, wrappers=LIMITED, logdir=tmp_path, **SMALL)
        with pytest.raises(UserError, match=r"around an Env object.*wrappers=\[\]"):
            tfb.evaluate(run.logdir, 2, env=env)
        assert min(tfb.evaluate(run.logdir, 2, env=env, wrappers=[]).lengths) > 5


def test_evaluation_and_resuming_wrap_as_the_run_did(run):
    saved = json.loads((pathlib.Path(run.logdir) / "config.json").read_text())
    assert saved["config"]["wrappers"] == LIMITED
    assert set(tfb.evaluate(run.logdir, 2).lengths) == {5}
    with pytest.raises(UserError, match=r"wrappers is 'standard_stack'"):
        tfb.evaluate(run.logdir, 2, wrappers="standard_stack")
    more = tfb.train(resume=run.logdir, steps=200)
    assert read_metrics(more.logdir)[-1]["episode/length_mean"] == 5


def test_videos_show_wrapped_environments(run, tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    (episode,) = tfb.visualize(run.logdir, tmp_path, 1)
    assert episode.length == 5
    config = RunConfig(env="CartPole-v1", num_envs=1, eval_every=0, wrappers=LIMITED)
    with Experiment(config, config.recipe()) as experiment:
        clips = Clips(config.recipe(), experiment.algorithm.policy)
        assert clips(1)[1]["length"] == 5
        clips.close()


def test_entries_of_a_vector_are_selected_in_the_given_order():
    env = wrappers.SelectEntries(gymnasium.make("CartPole-v1"), [2, 0])
    whole, _ = gymnasium.make("CartPole-v1").reset(seed=3)
    selected, _ = env.reset(seed=3)
    np.testing.assert_array_equal(selected, whole[[2, 0]])
    assert env.observation_space.contains(selected)
    after, *_ = env.step(0)
    assert env.observation_space.contains(after) and after.dtype == np.float32


MODULE = "tests.support.third_party"
PICTURE = f"{MODULE}:Picture"


@pytest.mark.parametrize("num_workers", [0, 1])
def test_wrappers_of_modules_and_files_are_applied_in_order(tmp_path, num_workers):
    (tmp_path / "mine.py").write_text("from tests.support.third_party import Picture")
    listed = [
        f"{tmp_path}/mine.py:Picture",
        {"name": "ReshapeObservation", "shape": [64, 3]},
    ]
    env = third_party.mission
    with tfb.make_env(env, 2, num_workers, wrappers=listed) as batch:
        assert batch.spec.observation_space.shape == (64, 3)


def test_a_list_is_an_array_where_a_modules_wrapper_has_one():
    weighed = {"name": f"{MODULE}:Weighed", "weight": [2, 0.5]}
    env = named.wrapped(third_party.objectives, [weighed])()
    env.reset(seed=1)
    assert env.step(0)[1] == 7


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("no_such_module:Wrapper", "wrapper 'no_such_module:Wrapper': importing"),
        ("./no_file.py:Wrapper", "there is no file"),
        (f"{MODULE}:Pictre", "has no 'Pictre'; did you mean 'Picture'"),
        (f"{MODULE}:IMAGE", "is of type Box; expected a class or a function"),
        (f"{MODULE}:Id-v1", "expected package.module:Wrapper or ./file.py:Wrapper"),
        ({"name": PICTURE, "size": 3}, "Picture: unknown argument 'size'"),
        ({"name": f"{MODULE}:Weighed", "weight": [1]}, "Weighed: expected two weights"),
        (f"{MODULE}:nothing", "nothing returned NoneType; expected a gymnasium.Env"),
    ],
)
def test_an_unusable_wrapper_of_a_module_is_one_line(entry, message):
    named.check([entry])  # imports nothing
    with pytest.raises(UserError, match=message):
        named.wrapped(third_party.mission, [entry])()


def test_a_wrapper_of_a_module_is_only_imported_when_it_is_passed_again(
    tmp_path, monkeypatch, linear
):
    code = "from tests.support.third_party import Picture"
    (tmp_path / "mine_once.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    env = {"env": third_party.mission}
    listed = ["mine_once:Picture", "FlattenObservation"]
    options = {"num_workers": 0, "wrappers": listed, **env}
    run = tfb.train(linear, logdir=tmp_path, **SMALL, **options)
    del sys.modules["mine_once"]
    with pytest.raises(UserError, match="the run has the wrapper 'mine_once:Picture'"):
        tfb.evaluate(run.logdir, 2, **env)
    with pytest.raises(UserError, match="the run has the wrapper 'mine_once:Picture'"):
        tfb.train(resume=run.logdir, steps=200, **env)
    with pytest.raises(UserError, match="start a new run for other wrappers"):
        tfb.train(resume=run.logdir, steps=200, wrappers=[], **env)
    agent = tfb.load(run.logdir, **env)
    assert agent.observation_space.shape == (192,)
    with pytest.raises(UserError, match=r"pass env, wrappers or env_kwargs"):
        agent.make_env()
    assert "mine_once" not in sys.modules
    assert len(tfb.evaluate(run.logdir, 2, wrappers=listed, **env).returns) == 2
    more = tfb.train(resume=run.logdir, steps=200, wrappers=listed, **env)
    assert more.step >= 200


def test_the_command_that_training_prints_evaluates_in_another_process(
    tmp_path, capsys
):
    flags = ("--steps=100", "--num_envs=2", "--num_workers=0", "--eval_every=0")
    flags += ("--compile=off", "--rollout.length=25", f"--env={MODULE}:Mission-v1")
    flags += (f'--wrappers=["{PICTURE}"]', f"--logdir={tmp_path}")
    assert train.main(flags) == 0
    lines = capsys.readouterr().err.splitlines()
    *_, line = (x for x in lines if x.startswith("evaluate: "))
    command = line.removeprefix("evaluate: ") + " --episodes=2"
    command = command.replace("tfagents-batch", f"{sys.executable} -m tfagents_batch")
    words = "sh", "-c", command
    done = subprocess.run(words, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["episodes"] == 2
