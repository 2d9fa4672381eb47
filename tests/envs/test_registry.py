import functools
import importlib.util
import os
import re
import sys
from pathlib import Path

import cloudpickle
import gymnasium
import pytest

from tests.support import python
from tfagents_batch.envs import registry
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.envs.wrappers import layers
from tfagents_batch.errors import UserError

ROOT = Path(__file__).parents[2]
USER_FILE = """
from tfagents_batch.envs.testing import CountingEnv

class Mine(CountingEnv):
    pass

class Outer:
    class Inner(CountingEnv):
        pass

def build(length=2):
    return Mine(length)

NUMBER = 3
"""
REGISTRATION = """
import gymnasium
from user_environments import Mine

gymnasium.register("Registered-v1", entry_point=Mine)
"""


@pytest.fixture
def user_file(tmp_path, monkeypatch):
    """Create a user's files in the current folder, which Python also imports from."""
    path = tmp_path / "user_environments.py"
    path.write_text(USER_FILE)
    (tmp_path / "user_registration.py").write_text(REGISTRATION)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield path
    gymnasium.registry.pop("Registered-v1", None)
    for name in [name for name in sys.modules if name.startswith("user_")]:
        del sys.modules[name]


def test_an_id_keeps_its_time_limit_and_loses_gymnasiums_checker():
    with registry.constructor("CartPole-v1")() as env:
        names = [type(layer).__name__ for layer in layers.walk(env)]
        assert names == ["TimeLimit", "OrderEnforcing", "CartPoleEnv"]
        assert env.spec.max_episode_steps == 500


def test_arguments_reach_the_environment():
    kwargs = {"g": 3.0, "max_episode_steps": 7}
    with registry.constructor("Pendulum-v1", kwargs)() as env:
        assert env.unwrapped.g == 3.0
        assert env.spec.max_episode_steps == 7


@pytest.mark.parametrize(
    "name, kind",
    [
        ("user_environments:Mine", "Mine"),
        ("user_environments:build", "Mine"),
        ("user_environments:Outer.Inner", "Inner"),
        ("./user_environments.py:Mine", "Mine"),
        ("user_environments.py:build", "Mine"),
        ("user_registration:Registered-v1", "Mine"),
    ],
)
def test_user_code_is_found_by_module_and_by_file(user_file, name, kind):
    make = registry.constructor(name, {"length": 3})
    with make() as env:
        assert type(env.unwrapped).__name__ == kind
        assert env.unwrapped._length == 3
    assert registry.constructor(f"{user_file}:Mine")


def test_a_callable_is_called_with_its_arguments():
    assert registry.constructor(CountingEnv) is CountingEnv
    assert registry.constructor(CountingEnv, {"length": 9})()._length == 9
    assert registry.constructor(PARTIAL, {"truncate": True})()._length == 3


def test_an_instance_is_returned_unchanged():
    env = CountingEnv()
    assert registry.constructor(env)() is env
    with pytest.raises(UserError, match=r"env_kwargs cannot be given to .*CountingEnv"):
        registry.constructor(env, {"length": 3})


@pytest.mark.parametrize(
    "name, message",
    [
        ("CartPol-v1", "'CartPol-v1' does not exist; did you mean 'CartPole-v1'?"),
        ("cartpole-v1", "did you mean 'CartPole-v1'?"),
        ("HalfCheeta-v5", "did you mean 'HalfCheetah-v5'?"),
        ("LunarLander-v2", "does not exist; the newest version is 'LunarLander-v3'"),
        ("CartPole-v9", "does not exist; the newest version is 'CartPole-v1'"),
        ("CartPole", "does not exist; the newest version is 'CartPole-v1'"),
        ("HalfCheetah-v3", "is no longer part of Gymnasium; use 'HalfCheetah-v5'"),
        ("ALE/Pnog-v5", "did you mean 'ALE/Pong-v5'?"),
        ("xyzzy", "does not exist; expected a Gymnasium id such as CartPole-v1"),
        ("", "does not exist; expected a Gymnasium id"),
        ("tf/CartPole-v1", "the prefix 'tf/' is reserved for environments written in"),
        ("gym:CartPol-v1", "does not exist in gym; did you mean 'CartPole-v1'?"),
        ("gym:CartPole-v7", "the newest version is 'CartPole-v1'"),
        ("gym:xyzzy:Mine-v0", "importing xyzzy raised ModuleNotFoundError"),
        ("gym:", "'gym:' is incomplete"),
        ("envpool:Pong-v5", "the prefix 'envpool:' is reserved for environments of"),
        ("xyzzy:Foo-v1", "importing xyzzy raised ModuleNotFoundError"),
        ("xyzzy.a:Foo", "install it, run from its folder, or pass ./file.py:Class"),
        ("gymnasium:CartPole-v7", "the newest version is 'CartPole-v1'"),
        ("user_environments:Mien", "has no 'Mien'; did you mean 'Mine'?"),
        ("user_environments:NUMBER", "NUMBER is of type int; expected a class"),
        ("./absent.py:Mine", "there is no file /"),
        (":Mine", "':Mine' is incomplete"),
        ("user_environments:", "is incomplete"),
    ],
)
def test_an_invalid_name_raises_an_error_of_one_line(user_file, name, message):
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        registry.constructor(name)
    assert repr(name) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("env", [3, None, ["CartPole-v1"]])
def test_objects_that_are_no_environments_are_refused_by_type(env):
    with pytest.raises(UserError, match=f"{type(env).__name__}; expected a Gymnasium"):
        registry.constructor(env)


def test_a_vector_environment_says_what_to_pass():
    envs = gymnasium.make_vec("CartPole-v1", 2)
    with pytest.raises(UserError, match="which is a batch; pass a function"):
        registry.constructor(envs)
    envs.close()


@pytest.mark.parametrize(
    "name, module, extra",
    [
        ("HalfCheetah-v5", "mujoco", "tfagents_batch[mujoco]"),
        ("LunarLander-v3", "Box2D", "tfagents_batch[box2d]"),
        ("ALE/Pong-v5", "ale_py", "tfagents_batch[atari]"),
        ("gym:CartPole-v1", "gym", "tfagents_batch[gym]"),
        ("gym:user:Mine-v1", "gym", "tfagents_batch[gym]"),
    ],
)
def test_a_missing_package_names_its_extra(monkeypatch, name, module, extra):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda m: None if m == module else find_spec(m)
    )
    for id in [id for id in gymnasium.registry if id.startswith("ALE/")]:
        monkeypatch.delitem(gymnasium.registry, id)
    with pytest.raises(UserError, match=re.escape(f'{module}: pip install "{extra}"')):
        registry.constructor(name)


def test_an_old_version_works_with_a_warning_that_names_the_newest():
    with pytest.warns(UserWarning, match="out of date; the newest is 'CartPole-v1'"):
        make = registry.constructor("CartPole-v0")
    with make() as env:  # without another warning
        assert env.spec.max_episode_steps == 200


def test_checking_an_id_constructs_nothing(monkeypatch):
    monkeypatch.setattr(gymnasium, "make", None)
    assert registry.constructor("CartPole-v1")


COUNTING = "tfagents_batch.envs.testing:CountingEnv"
PARTIAL = functools.partial(CountingEnv, 3)


@pytest.mark.parametrize(
    "env, text, user_code",
    [
        ("CartPole-v1", "CartPole-v1", False),
        ("ALE/Pong-v5", "ALE/Pong-v5", False),
        ("tf/CartPole-v1", "tf/CartPole-v1", False),
        ("gym:CartPole-v1", "gym:CartPole-v1", False),
        ("gym:a.b:Mine-v1", "gym:a.b:Mine-v1", True),
        ("a.b:Mine", "a.b:Mine", True),
        ("a.b:Mine-v1", "a.b:Mine-v1", True),
        ("./a.py:Mine", "./a.py:Mine", True),
        *((x, COUNTING, True) for x in (CountingEnv, CountingEnv(), PARTIAL)),
        (["CartPole-v1", CountingEnv, "CartPole-v1"], f"CartPole-v1, {COUNTING}", True),
        (lambda: None, f"{__name__}:<lambda>", True),
    ],
)
def test_environments_are_described_and_user_code_is_detected(env, text, user_code):
    assert registry.describe(env) == text
    assert registry.needs_user_code(env) == user_code


def test_constructors_work_in_a_fresh_process_without_tensorflow(user_file):
    names = [
        *("CartPole-v1", "ALE/Pong-v5", "gymnasium:CartPole-v1", "gym:CartPole-v1"),
        *("user_environments:Mine", "./user_environments.py:Mine"),
        "user_registration:Registered-v1",
    ]
    code = (
        "import sys, cloudpickle\n"
        f"for _ in {names}:\n"
        "    env = cloudpickle.load(sys.stdin.buffer)()\n"
        "    env.reset(seed=1); env.close()\n"
        "assert 'tensorflow' not in sys.modules"
    )
    pickled = b"".join(cloudpickle.dumps(registry.constructor(each)) for each in names)
    path = {"PYTHONPATH": f"{user_file.parent}{os.pathsep}{ROOT}"}
    python.run(code, text=False, input=pickled, cwd="/", env=path)
