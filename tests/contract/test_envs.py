"""Every environment we can make keeps the contract."""

import functools
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gs
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from tests.space_env import SpaceEnv
from tfagents_batch.envs.contract import EnvContract, rollout
from tfagents_batch.envs.make import make_env
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.types import Trajectory

OBSERVATIONS = {
    "dict": gs.Dict(
        {
            "image": gs.Box(0, 255, (4, 4, 3), np.uint8),
            "speed": gs.Box(-1, 1, (2,), np.float64),
            "gear": gs.Discrete(4, start=-1),
        }
    ),
    "tuple": gs.Tuple([gs.MultiDiscrete([3, 5]), gs.MultiBinary(4)]),
    "nested": gs.Dict({"b": gs.Tuple([gs.Discrete(2)]), "a": gs.MultiBinary([2, 2])}),
    "scalar": gs.Box(-1, 1, (), np.float32),
    "narrow": gs.Box(-100, 100, (3,), np.int16),
}
ACTIONS = {
    "discrete": gs.Discrete(3, start=1),
    "multi_discrete": gs.MultiDiscrete([2, 4]),
    "multi_binary": gs.MultiBinary(3),
    "box": gs.Box(-2, 2, (2,), np.float32),
    "dict": gs.Dict({"steer": gs.Box(-1, 1, (1,)), "honk": gs.Discrete(2)}),
}


WAYS = [
    pytest.param((0, "auto"), id="in_process"),
    pytest.param((2, "portable"), id="two_workers"),
    pytest.param((2, "native"), id="two_workers_native", marks=pytest.mark.xla),
]


class Case(EnvContract):
    """The contract for ``env`` in this process and in two workers.

    The rules share an environment, which each of them starts over.
    """

    __test__ = False
    env: ClassVar = None
    env_kwargs: ClassVar = {}
    num_envs: ClassVar = 3

    @pytest.fixture(scope="class", params=WAYS)
    @classmethod
    def way(cls, request):
        if request.param[1] == "native":
            request.getfixturevalue("library")
        return request.param

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, way):
        with cls.make(way) as env:
            yield env

    @pytest.fixture(autouse=True)
    def _shared(self, request, way, shared):
        self.num_workers, self.route = self.way = way
        self.compilable = self.route == "native"
        anew = request.function.__name__.endswith(
            "same_seed_gives_the_same_transitions"
        )
        self.shared = None if anew else shared

    @classmethod
    def make(cls, way):
        num_workers, route = way
        options = {"env_kwargs": cls.env_kwargs, "route": route}
        return make_env(cls.env, cls.num_envs, num_workers, **options)

    def make_env(self):
        if self.shared is None:
            return self.make(self.way)
        return Open(self.shared)


class Open:
    """An environment that a rule does not close."""

    def __init__(self, env):
        self.spec, self.init, self.step, self.ok = env.spec, env.init, env.step, env.ok


class TestCartPole(Case):
    __test__ = True
    env = "CartPole-v1"


class TestCountingEnv(Case):
    __test__ = True
    env = "tfagents_batch.envs.testing:CountingEnv"
    env_kwargs: ClassVar = {"length": 4}
    random = False

    @pytest.mark.parametrize("truncate", [False, True])
    def test_where_the_mask_is_set_the_next_observation_is_one_later(self, truncate):
        makers = [lambda n=n: CountingEnv(n, truncate) for n in (1, 2, 5)]
        with make_env(makers, num_workers=self.num_workers, route=self.route) as env:
            steps = rollout(env, self.steps, seed=1).steps
        mask = Trajectory(steps, action=(), behavior={}).mask
        episode, step = np.moveaxis(steps.observation, -1, 0)
        now, then = (episode[:-1], step[:-1]), (episode[1:], step[1:])
        np.testing.assert_array_equal(then[0][mask], now[0][mask])
        np.testing.assert_array_equal(then[1][mask], now[1][mask] + 1)
        np.testing.assert_array_equal(then[0][~mask], now[0][~mask] + 1)
        np.testing.assert_array_equal(then[1][~mask], 0)
        np.testing.assert_array_equal(steps.reward, np.where(steps.first, 0, step))


@pytest.mark.parametrize("action", sorted(ACTIONS))
class TestActionSpaces(EnvContract):
    steps = 20

    @pytest.fixture(autouse=True)
    def _spaces(self, action):
        self.spaces = OBSERVATIONS["scalar"], ACTIONS[action]

    def make_env(self):
        return make_env(batch(*self.spaces), num_workers=0)


@pytest.mark.parametrize("observation", sorted(OBSERVATIONS))
class TestObservationSpaces(EnvContract):
    steps = 20

    @pytest.fixture(autouse=True)
    def _spaces(self, observation):
        self.spaces = OBSERVATIONS[observation], ACTIONS["multi_discrete"]

    def make_env(self):
        return make_env(batch(*self.spaces), num_workers=0)


class TestNestedSpacesInWorkers(Case):
    __test__ = True
    steps = 20
    num_envs = None

    @pytest.fixture(scope="class", params=WAYS[1:])
    @classmethod
    def way(cls, request):
        if request.param[1] == "native":
            request.getfixturevalue("library")
        return request.param

    @classmethod
    def make(cls, way):
        cls.env = batch(gs.Dict(OBSERVATIONS), gs.Tuple(list(ACTIONS.values())))
        return super().make(way)


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
class TestVectorEnvironments(EnvContract):
    @pytest.fixture(autouse=True)
    def _mode(self, mode):
        self.mode = mode

    def make_env(self):
        makers = [functools.partial(gymnasium.make, "CartPole-v1")] * 3
        return make_env(SyncVectorEnv(makers, copy=False, autoreset_mode=self.mode))


class TestNestedSpacesOfVectorEnvironments(EnvContract):
    steps = 20

    def make_env(self):
        makers = batch(gs.Dict(OBSERVATIONS), gs.Tuple(list(ACTIONS.values())))
        return make_env(SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP))


class TestAVectorEntryPoint(EnvContract):
    def make_env(self):
        return make_env(gymnasium.make_vec("CartPole-v1", 3))


class TestAsyncVectorEnv(EnvContract):
    def make_env(self):
        makers = [functools.partial(gymnasium.make, "CartPole-v1")] * 3
        return make_env(AsyncVectorEnv(makers))


@pytest.mark.parametrize(
    "name, env_kwargs",
    [
        ("CartPole-v1", {}),
        ("Pendulum-v1", {"max_episode_steps": 15}),
        ("HalfCheetah-v4", {"max_episode_steps": 15}),
        ("Pong-v5", {"max_episode_steps": 3}),
    ],
)
class TestEnvPool(EnvContract):
    @pytest.fixture(autouse=True)
    def _name(self, name, env_kwargs):
        pytest.importorskip("envpool")
        self.name, self.env_kwargs = name, env_kwargs
        self.steps = 8 if name == "Pong-v5" else 60  # a new game takes long

    def make_env(self):
        return make_env(f"envpool:{self.name}", 3, env_kwargs=self.env_kwargs)


def batch(observation_space, action_space):
    """Three rows whose episodes have different lengths."""
    return [
        functools.partial(SpaceEnv, observation_space, action_space, length)
        for length in (1, 3, 4)
    ]
