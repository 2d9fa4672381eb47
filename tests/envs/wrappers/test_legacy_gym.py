"""gym 0.26.2, its last release, and environments of the older interface."""

import ast
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gs

from tests.support import python
from tfagents_batch.envs import registry
from tfagents_batch.envs.contract import rollout
from tfagents_batch.envs.make import make_env
from tfagents_batch.envs.shared.failures import Defect
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.envs.worker import construction
from tfagents_batch.envs.wrappers import legacy_gym
from tfagents_batch.envs.wrappers.adapt import adapt, is_environment
from tfagents_batch.errors import UserError

gym = pytest.importorskip("gym")
from tests.envs.gym_walk import Walk  # noqa: E402


@pytest.fixture
def walk_id():
    """Register an environment of the older interface with gym."""
    entry_point = "tests.envs.gym_walk:Walk"
    gym.register("Walk-v1", entry_point=entry_point, max_episode_steps=20)
    yield "gym:Walk-v1"
    del gym.envs.registration.registry["Walk-v1"]


def play(env, steps=30, seed=3):
    """Return the results of ``steps`` random actions and of resets in between."""
    env.action_space.seed(seed)
    found = [env.reset(seed=seed)]
    for _ in range(steps):
        found.append(env.step(env.action_space.sample()))
        if found[-1][2] or found[-1][3]:
            found.append(env.reset())
    return found


def assert_same(x, y):
    for a, b in zip(x, y, strict=True):
        np.testing.assert_array_equal(a[0], b[0])
        assert a[1:-1] == b[1:-1]


@pytest.mark.parametrize(
    "name, limit", [("Acrobot-v1", 500), ("Taxi-v3", 200), ("Blackjack-v1", None)]
)
def test_environments_of_gym_0_26_play_with_numpy_2(name, limit):
    make = registry.constructor(f"gym:{name}")
    with make() as env, make() as twin:
        assert isinstance(env, gymnasium.Env)
        assert isinstance(env.observation_space, gymnasium.Space)
        assert construction.inspect(env)["max_episode_steps"] == limit
        assert_same(play(env), play(twin))
        assert env.reset(seed=1)[0] in env.observation_space


def test_an_episode_of_gym_equals_that_of_gymnasium():
    """CartPole did not change, so equal seeds give equal episodes."""
    with (
        registry.constructor("gym:CartPole-v1")() as old,
        gymnasium.make("CartPole-v1") as new,
    ):
        assert_same(play(old, 100), play(new, 100))


def test_a_time_limit_truncates_and_can_be_chosen():
    with registry.constructor("gym:Pendulum-v1", {"max_episode_steps": 3})() as env:
        env.reset(seed=1)
        action = np.zeros(1, np.float32)
        flags = [env.step(action)[2:4] for _ in range(3)]
    assert flags == [(False, False), (False, False), (False, True)]


def test_all_uses_of_removed_numpy_names_in_gym_are_known():
    root = Path(gym.__file__).parent
    users = {
        ".".join(["gym", *path.relative_to(root).with_suffix("").parts]): node.attr
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and getattr(node.value, "id", None) == "np"
        and not hasattr(np, node.attr)
    }
    assert set(users) <= set(legacy_gym._BROKEN_MODULES)
    assert set(users.values()) <= set(legacy_gym._REMOVED_NAMES)


def test_numpy_itself_is_unchanged():
    adapt(gym.make("Acrobot-v1")).close()
    assert sys.modules["gym.envs.classic_control.acrobot"].np is not np
    assert not any(hasattr(np, name) for name in ("bool8", "float_"))


def test_the_outermost_wrappers_of_gym_make_are_replaced():
    """The checker and the time limit of gym are outermost."""
    with adapt(gym.make("CartPole-v1")) as env:
        assert type(env.env.env).__name__ == "CartPoleEnv"
        assert env._max_episode_steps == 500
        play(env)


def test_wrappers_of_users_stay_and_the_inner_checker_works():
    class Doubled(gym.RewardWrapper):
        def reward(self, reward):
            return 2 * reward

    with adapt(Doubled(gym.make("CartPole-v1"))) as env:
        assert type(env.env) is Doubled
        assert construction.inspect(env)["max_episode_steps"] == 500
        assert play(env)[1][1] == 2.0


class Mine(gym.Env):
    """A user's environment with the interface of 0.26."""

    def __init__(self):
        self.observation_space = gym.spaces.Box(-9, 9, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(3, start=1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._x = self.np_random.normal()
        return np.array([self._x]), {"where": "reset"}

    def step(self, action):
        return [self._x], 1, bool(action == 3), False, {"where": "step"}


def test_the_interface_of_0_26_keeps_flags_and_info():
    with adapt(Mine()) as env:
        observation, info = env.reset(seed=3)
        assert observation.dtype == np.float32 and info == {"where": "reset"}
        assert env.action_space == gs.Discrete(3, start=1)
        observation, *rest = env.step(3)
        assert observation.dtype == np.float32
        assert rest == [1, True, False, {"where": "step"}]


def test_a_seed_reaches_the_environment_past_a_wrapper_without_seed():
    class Plain(gym.Wrapper):
        def reset(self):
            return self.env.reset()

    with adapt(Plain(Mine())) as env:
        first = env.reset(seed=3)[0]
        second = env.reset()[0]
        np.testing.assert_array_equal(env.reset(seed=3)[0], first)
        assert (second != first).any() and (env.reset(seed=4)[0] != first).any()


@pytest.mark.parametrize(
    "make",
    [
        lambda s: s.Box(np.array([-1, 0], "f"), np.array([1, np.inf], "f")),
        lambda s: s.Box(0, 255, (4, 4, 3), np.uint8),
        lambda s: s.Discrete(3),
        lambda s: s.MultiDiscrete([2, 3]),
        lambda s: s.MultiBinary(3),
        lambda s: s.MultiBinary([2, 2]),
        lambda s: s.Tuple([s.Discrete(2), s.Dict({"a": s.Discrete(3)})]),
    ],
)
def test_spaces_become_gymnasiums(make):
    assert legacy_gym.convert_space(make(gym.spaces), "Mine") == make(gs)


def test_other_spaces_are_refused_by_name_and_place():
    space = gym.spaces.Dict({"a": gym.spaces.Tuple([gym.spaces.Text(3)])})
    with pytest.raises(UserError, match=r"Text at \['a'\]\[0\] of the gym .* Mine"):
        legacy_gym.convert_space(space, "Mine")


def test_done_becomes_truncated_at_the_time_limit(walk_id):
    make = registry.constructor
    for kwargs, flags in (
        ({"end": 100.0}, {(False, True)}),  # the limit of the registration
        ({"end": 100.0, "limit": 4}, {(False, True)}),
        ({"end": 2.0, "limit": 4}, {(True, False), (False, True)}),
    ):
        with make(walk_id, kwargs)() as env:
            ends = [step[2:4] for step in play(env, 200) if len(step) == 5]
            assert {end for end in ends if any(end)} == flags
    with make(walk_id, {"end": 0.0})() as env:
        assert env.reset(seed=1) and env.step(1)[2:4] == (True, False)


def test_the_older_interface_is_supported(walk_id):
    kwargs = {"max_episode_steps": 30, "render_mode": "rgb_array", "end": 50.0}
    with registry.constructor(walk_id, kwargs)() as env:
        observation, info = env.reset(seed=3)
        assert observation.dtype == np.float32 and info == {}
        assert observation in env.observation_space
        observation, reward, terminated, truncated, _ = env.step(1)
        assert observation.dtype == np.float32 and reward == 1
        assert terminated is False and truncated is False
        assert env.render_mode == "rgb_array" and env.render().shape == (4, 4, 3)
        assert construction.inspect(env)["max_episode_steps"] == 30
        assert_same(play(env), play(env))
        assert (play(env, 1, seed=4)[0][0] != play(env, 1, seed=5)[0][0]).any()


def test_ids_of_a_users_module_are_user_code_and_work_in_workers(tmp_path, monkeypatch):
    (tmp_path / "user_gym.py").write_text(
        "import gym\n"
        "from gym.envs.classic_control import CartPoleEnv\n"
        "gym.register('UserGym-v1', entry_point=CartPoleEnv, max_episode_steps=7)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    name = "gym:user_gym:UserGym-v1"
    assert registry.needs_user_code(name)
    with make_env(name, 2, 1, backend="portable") as env:
        assert env.spec.max_episode_steps == 7
    with make_env("gym:UserGym-v1", 1, 1) as env:  # registered in this process only
        assert env.spec.max_episode_steps == 7
    del gym.envs.registration.registry["UserGym-v1"]
    sys.modules.pop("user_gym")


def test_a_worker_hides_warnings_of_gym_but_not_of_users():
    code = """
import warnings
from tfagents_batch.envs.wrappers import legacy_gym
env = legacy_gym.make("CartPole-v0", {})
warnings.warn("a user's own warning")
"""
    errors = python.run(code).stderr
    assert "a user's own warning" in errors
    assert "maintained" not in errors and "out of date" not in errors


def test_an_instance_is_stepped_in_this_process():
    env = gym.make("CartPole-v1")
    assert is_environment(env) and not is_environment(Mine)
    assert registry.describe(env).endswith("cartpole:CartPoleEnv")
    with make_env(env) as batch:
        assert batch.num_workers == 0 and batch.spec.max_episode_steps == 500
        assert rollout(batch, 30, 1).ok.all()
    with pytest.raises(UserError, match=r"env is one instance of .*, "):
        make_env(env, num_envs=2)


def test_a_batch_of_gym_is_refused():
    batch = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")])
    with pytest.raises(UserError, match="a function that creates one environment"):
        adapt(batch)
    batch.close()


def test_gymnasium_environments_and_unknown_objects_are_returned_unchanged():
    for thing in (CountingEnv(), object()):
        assert adapt(thing) is thing


def test_an_environment_of_the_older_interface_plays_in_workers(walk_id):
    with make_env(walk_id, 1, 1, backend="portable") as batch:
        assert rollout(batch, 20, 1).ok.all()


def test_a_done_that_is_not_a_bool_is_a_defect():
    class Odd(Walk):
        def step(self, action):
            return [0.0, 0.0], 0.0, None, {}

    with adapt(Odd()) as env, pytest.raises(Defect, match="done is None"):
        env.reset()
        env.step(0)
