"""dm_env environments; ``dm_env`` is imported in tests, never by the adapter."""

import functools
import json

import dm_env
import numpy as np
import pytest
from dm_env import specs
from gymnasium import spaces as gs

from tests.envs.dm_walk import walk
from tests.support import python
from tfagents_batch.envs import registry
from tfagents_batch.envs.contract import rollout
from tfagents_batch.envs.make import make_env
from tfagents_batch.envs.shared.failures import Defect
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.envs.wrappers.adapt import adapt, is_environment
from tfagents_batch.envs.wrappers.dm import to_space
from tfagents_batch.errors import UserError


def episode(env, seed=1):
    """Return the results of one episode."""
    found = [env.reset(seed=seed)]
    while True:
        found.append(env.step(2))
        if found[-1][2] or found[-1][3]:
            return found


def test_time_steps_become_flags_and_rewards():
    with adapt(walk(length=3)) as env:
        first, *steps = episode(env)
    assert len(first) == 2 and first[1] == {"discount": 1.0}
    assert [step[1] for step in steps] == [2.0, 2.0, 2.0]
    flags = [step[2:4] for step in steps]
    assert flags == [(False, False), (False, False), (True, False)]
    assert [step[4]["discount"] for step in steps] == [1.0, 1.0, 0.0]


@pytest.mark.parametrize("last_discount", [1.0, 0.5])
def test_a_last_step_with_a_discount_is_truncated(last_discount):
    with adapt(walk(length=2, last_discount=last_discount)) as env:
        *_, last = episode(env)
    assert last[2:4] == (False, True) and last[4]["discount"] == last_discount


@pytest.mark.parametrize("discount", [0.0, 0.7])
def test_a_discount_within_an_episode_is_only_reported(discount):
    make = functools.partial(walk, length=3, discount=discount)
    with make_env(make, 2, 0, info_keys={"discount": "float32"}) as env:
        steps = rollout(env, 4, 1).steps
    expected = np.array([1, discount, discount, 0, 1], np.float32)
    np.testing.assert_array_equal(steps.info["discount"][:, 0], expected)
    np.testing.assert_array_equal(steps.terminated[:, 0], [0, 0, 0, 1, 0])
    assert not steps.truncated.any()


def test_observations_are_values_of_their_space():
    with adapt(walk()) as env:
        for observation in (env.reset(seed=1)[0], env.step(1)[0]):
            assert observation in env.observation_space
    assert env.observation_space == gs.Dict(
        {
            "position": gs.Box(-np.inf, np.inf, (2,), np.float64),
            "step": gs.Discrete(6),
            "flags": gs.Tuple([gs.MultiBinary([2]), gs.Discrete(2)]),
        }
    )
    assert env.action_space == gs.Discrete(3, start=1)


NUMBER = gs.Box(-np.inf, np.inf, (), np.float64)


@pytest.mark.parametrize(
    "spec, observation, action",
    [
        (specs.DiscreteArray(4), gs.Discrete(4), gs.Discrete(4)),
        (
            specs.BoundedArray((2,), "f4", [-1, 0], np.inf),
            *[gs.Box(np.array([-1, 0], "f"), np.inf, (2,), np.float32)] * 2,
        ),
        (
            specs.BoundedArray((2,), "i4", 1, [3, 4]),
            gs.Box(np.array([1, 1], "i4"), np.array([3, 4], "i4"), (2,), np.int32),
            gs.MultiDiscrete([3, 4], start=[1, 1]),
        ),
        (
            specs.BoundedArray((4, 4, 3), "u1", 0, 255),
            gs.Box(0, 255, (4, 4, 3), np.uint8),
            gs.MultiDiscrete(np.full((4, 4, 3), 256)),
        ),
        (specs.Array((2, 2), bool), gs.MultiBinary([2, 2]), gs.MultiBinary([2, 2])),
        (
            (specs.DiscreteArray(3), [specs.Array((), "f8")]),
            *[gs.Tuple([gs.Discrete(3), gs.Tuple([NUMBER])])] * 2,
        ),
    ],
)
def test_specs_become_spaces(spec, observation, action):
    assert to_space(spec, "x") == observation
    assert to_space(spec, "x", is_action=True) == action


def test_a_spec_without_a_space_is_refused_by_name():
    with pytest.raises(UserError, match=r"x\['a'\]\[0\] has the spec StringArray"):
        to_space({"a": [specs.StringArray(())]}, "x")
    with pytest.raises(UserError, match="integers without bounds; use Bounded"):
        to_space(specs.Array((), np.int32), "x", is_action=True)


def test_actions_have_the_structure_and_dtypes_of_their_spec():
    class Echo:
        def observation_spec(self):
            return specs.Array((), np.float32)

        def action_spec(self):
            return {
                "a": [specs.DiscreteArray(2, np.int8)],
                "b": (specs.Array((1,), bool), specs.BoundedArray((1,), "f8", 0, 1)),
            }

        def reset(self):
            return dm_env.restart(0.5)

        def step(self, action):
            self.action = action
            return dm_env.transition(0.0, 0.5)

    env = adapt(Echo())
    env.action_space.seed(1)
    observation, _ = env.reset()
    assert observation.dtype == np.float32
    env.step(env.action_space.sample())
    action = env.env.action
    assert type(action["a"]) is list and type(action["b"]) is tuple
    assert [x.dtype for x in (*action["a"], *action["b"])] == ["i1", "?", "f8"]
    env.close()  # Echo has no close


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t._replace(reward=np.zeros(2)), "reward of a time step is array"),
        (lambda t: t._replace(reward=None), "reward of a time step is None"),
        (lambda t: t._replace(discount=None), "discount of a time step is None"),
        (lambda t: t._replace(step_type=dm_env.StepType.FIRST), "FIRST within an epi"),
    ],
)
def test_an_invalid_time_step_is_a_defect(change, message):
    env = adapt(walk(change=lambda t: t if t.first() else change(t)))
    env.reset()
    with pytest.raises(Defect, match=message):
        env.step(1)
    env = adapt(walk(change=lambda t: t._replace(step_type=dm_env.StepType.MID)))
    with pytest.raises(Defect, match="expected FIRST"):
        env.reset()


def test_the_seed_is_an_argument_of_the_constructor():
    make = registry.constructor(walk, {"seed_argument": "seed", "length": 3})
    with make() as env:
        first = env.reset(seed=3)[0]["position"]
        env.step(1)
        inner, later = env.env.env, env.reset()[0]["position"]
        assert not inner.closed
        assert (env.reset(seed=3)[0]["position"] == first).all()
        assert inner.closed and (later != first).any()
        assert (env.reset(seed=4)[0]["position"] != first).any()


def test_any_constructor_can_take_the_seed():
    def make(number):
        return CountingEnv(offset=number)

    with registry.constructor(make, {"seed_argument": "number"})() as env:
        assert env.reset(seed=7)[0][0] == 7 and env.reset()[0][0] == 8
    with pytest.raises(UserError, match="'sed'; expected the name of the argument of"):
        registry.constructor(walk, {"seed_argument": "sed"})


def test_the_seed_can_be_that_of_a_class_without_gymnasium():
    class Draw:
        """Environment with all that a batch uses, but of no class of Gymnasium."""

        observation_space = gs.Box(0, 1, (1,))
        action_space = gs.Discrete(2)

        def __init__(self, seed):
            self._draw = np.random.default_rng(seed).random((1,), np.float32)

        def reset(self, *, seed=None, options=None):
            return self._draw, {}

        def step(self, action):
            return self._draw, 0.0, True, False, {}

        def close(self):
            pass

    kwargs = {"seed_argument": "seed"}
    with make_env(Draw, 2, 1, env_kwargs=kwargs, backend="portable") as env:
        first, again, other = (env.init(seed)[1].observation for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_seed_argument_works_for_names_of_constructors(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from tfagents_batch.envs.testing import CountingEnv\n"
        "def make(seed, length):\n"
        "    return CountingEnv(length, offset=seed % 100)\n"
    )
    kwargs = {"seed_argument": "seed", "length": 3}
    with make_env(f"{path}:make", 2, 1, env_kwargs=kwargs, backend="portable") as env:
        first, again, other = (env.init(seed)[1].observation for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    with pytest.raises(UserError, match="'number'; expected the name"):
        registry.constructor(f"{path}:make", {"seed_argument": "number"})


def test_an_instance_is_stepped_in_this_process():
    env = walk(seed=1)
    assert is_environment(env) and not is_environment(type(env))
    assert registry.describe(env).endswith(":walk.<locals>.Walk")
    with make_env(env) as batch:
        assert batch.num_workers == 0 and rollout(batch, 12, 1).ok.all()
    with pytest.raises(UserError, match=r"env is one instance of .*Walk, "):
        make_env(env, num_envs=2)
    with pytest.raises(UserError, match=r"env\[0\] is an instance of Walk"):
        make_env([env])


def test_adapting_imports_no_package():
    code = """
import json, sys
from tfagents_batch.envs.worker import construction
from tfagents_batch.envs.wrappers import adapt, dm, legacy_gym
from tfagents_batch.envs.testing import CountingEnv
construction.construct([CountingEnv], 0)
found = {name.partition(".")[0] for name in sys.modules}
print(json.dumps(sorted(found & {"gym", "dm_env", "ale_py", "cv2", "tensorflow"})))
"""
    assert json.loads(python.run(code).stdout) == []
