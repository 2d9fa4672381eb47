"""Every kind of environment passes the contract."""

import functools

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gs
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from tests.install import extras
from tests.support.space_env import SpaceEnv
from tfagents_batch.envs.contract import SEED, EnvContract, rollout
from tfagents_batch.envs.make import make_env
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.types import Trajectory

OBSERVATION = gs.Dict(
    image=gs.Box(0, 255, (4, 4, 3), np.uint8),
    dict=gs.Dict(speed=gs.Box(-1, 1, (2,), np.float64), gear=gs.Discrete(4, start=-1)),
    tuple=gs.Tuple([gs.MultiDiscrete([3, 5]), gs.MultiBinary(4)]),
    nested=gs.Dict(b=gs.Tuple([gs.Discrete(2)]), a=gs.MultiBinary([2, 2])),
    scalar=gs.Box(-1, 1, (), np.float32),
    narrow=gs.Box(-100, 100, (3,), np.int16),
)
ACTION = gs.Tuple(
    [
        *(gs.Discrete(3, start=1), gs.MultiDiscrete([2, 4]), gs.MultiBinary(3)),
        gs.Box(-2, 2, (2,), np.float32),
        gs.Dict(steer=gs.Box(-1, 1, (1,)), honk=gs.Discrete(2)),
    ]
)
# Three rows with episodes of different lengths.
NESTED = [functools.partial(SpaceEnv, OBSERVATION, ACTION, n) for n in (1, 3, 4)]
CARTPOLES = [functools.partial(gymnasium.make, "CartPole-v1")] * 3
for_each = functools.partial(pytest.mark.parametrize, "kind", scope="class")
BACKENDS = [
    pytest.param((0, "auto"), id="in_process"),
    pytest.param((2, "portable"), id="two_workers"),
    pytest.param((2, "native"), id="two_workers_native", marks=pytest.mark.xla),
]


class Case(EnvContract):
    """Contract of the environment that ``make`` creates for a ``kind``.

    The rules share a rollout and an environment, which each rule resets.
    """

    __test__ = False
    steps = 30

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, request, kind):
        if "native" in kind:
            request.getfixturevalue("library")
        with cls.make(kind) as env:
            yield env, rollout(env, cls.steps, SEED)

    @pytest.fixture(autouse=True)
    def _shared(self, request, kind, shared):
        self.kind, self.shared = kind, shared
        # One rule compares the shared rollout with that of another environment.
        self.separate = "the_same_seed" in request.function.__name__
        self.compilable = "native" in kind

    def make_env(self):
        return Open(self.shared[0])

    def _record(self):
        if not self.separate:
            return self.shared[1]
        self.separate = False
        with self.make(self.kind) as env:
            return rollout(env, self.steps, SEED)


class Open:
    """An environment that rules cannot close."""

    def __init__(self, env):
        self.spec, self.init, self.step, self.ok = env.spec, env.init, env.step, env.ok


@for_each(BACKENDS[:1])
class TestCountingEnv(Case):
    __test__ = True
    random = False
    steps = 15

    @staticmethod
    def make(kind, options=({"length": 4},) * 3):
        makers = [functools.partial(CountingEnv, **each) for each in options]
        return make_env(makers, num_workers=kind[0])

    @pytest.mark.parametrize("truncate", [False, True])
    def test_the_mask_is_set_where_the_next_observation_follows(self, truncate):
        options = [{"length": n, "truncate": truncate} for n in (1, 2, 5)]
        with self.make(self.kind, options) as env:
            steps = rollout(env, self.steps, seed=1).steps
        mask = Trajectory(steps, action=(), behavior={}).mask
        episode, step = np.moveaxis(steps.observation, -1, 0)
        now, then = (episode[:-1], step[:-1]), (episode[1:], step[1:])
        np.testing.assert_array_equal(then[0][mask], now[0][mask])
        np.testing.assert_array_equal(then[1][mask], now[1][mask] + 1)
        np.testing.assert_array_equal(then[0][~mask], now[0][~mask] + 1)
        np.testing.assert_array_equal(then[1][~mask], 0)
        np.testing.assert_array_equal(steps.reward, np.where(steps.first, 0, step))


@for_each(BACKENDS)
class TestNestedSpaces(Case):
    __test__ = True
    steps = 20

    @staticmethod
    def make(kind):
        return make_env(NESTED, num_workers=kind[0], backend=kind[1])


VECTORS = {
    "next_step": lambda: SyncVectorEnv(CARTPOLES, copy=False),
    "nested": lambda: SyncVectorEnv(NESTED, copy=False),
    "entry_point": lambda: gymnasium.make_vec("CartPole-v1", 3),
    "async": lambda: AsyncVectorEnv(CARTPOLES),
}


@for_each(VECTORS)
class TestVectorEnvironments(Case):
    __test__ = True

    @staticmethod
    def make(kind):
        return make_env(VECTORS[kind]())


@for_each(["CartPole-v1", "HalfCheetah-v4"])
class TestEnvPool(Case):
    __test__ = True

    @staticmethod
    def make(kind):
        extras.skip_without("envpool")
        limit = {"max_episode_steps": 15}
        return make_env(f"envpool:{kind}", 3, env_kwargs=limit)
