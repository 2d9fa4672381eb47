import contextlib
import functools
import os
import signal

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space

import tfagents_batch as tfb
from tests.support.fault_env import FaultEnv, fault_envs
from tests.support.masked_env import MaskedEnv
from tfagents_batch import interfaces
from tfagents_batch.envs.contract import rollout
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.graph.vector_env import VectorEnv
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.envs.worker.construction import env_seed
from tfagents_batch.errors import EnvError, UserError

cartpole = functools.partial(gymnasium.make, "CartPole-v1")


@pytest.fixture
def make():
    """Create environments and close them after the test."""
    with contextlib.ExitStack() as stack:

        def make(env, **options):
            env = VectorEnv(env, **options)
            stack.callback(env.close)
            return env

        yield make


def counting(*lengths):
    return SyncVectorEnv([functools.partial(CountingEnv, n) for n in lengths])


def error_of_step(env, number, match, actions=(0, 0), seed=3):
    """Return the error that step ``number`` raises."""
    state, _ = env.init(seed)
    for _ in range(number - 1):
        state, _ = env.step(state, [0, 0])
    with pytest.raises(EnvError, match=match) as caught:
        env.step(state, list(actions))
    return caught.value


class Scripted(gymnasium.vector.VectorEnv):
    """Two rows that count their steps. ``results`` overrides results by step; step 0
    is the reset."""

    num_envs = 2
    single_observation_space = gs.Box(0, 100, (2,), np.float32)
    single_action_space = gs.Discrete(3)
    observation_space = batch_space(single_observation_space, 2)
    action_space = batch_space(single_action_space, 2)

    def __init__(self, results=None):
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.results, self.actions = results or {}, []
        self.steps = self.closes = 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        result = {"observation": self._observation(), "info": {}}
        return tuple((result | self.results.get(0, {})).values())

    def step(self, actions):
        self.actions.append(np.array(actions))
        self.steps += 1
        result = {"observation": self._observation(), "reward": np.array([1.0, 2.0])}
        result |= {flag: np.zeros(2, bool) for flag in ("terminated", "truncated")}
        result["info"] = {}
        return tuple((result | self.results.get(self.steps, {})).values())

    def close(self):
        self.closes += 1

    def _observation(self):
        return np.full((2, 2), self.steps, np.float32)


def assert_equal(x, y):
    tf.nest.map_structure(np.testing.assert_array_equal, x, y)


@pytest.mark.parametrize(
    "kind", [functools.partial(SyncVectorEnv, copy=False), AsyncVectorEnv]
)
def test_transitions_are_those_of_single_environments(make, kind):
    makers = [cartpole, functools.partial(gymnasium.make, "CartPole-v1", 4), cartpole]
    with ProcessEnv(makers, 0) as single:
        expected = rollout(single, 60, seed=5).steps
    assert_equal(rollout(make(kind(makers)), 60, seed=5).steps, expected)
    assert expected.first[1:].any()


def test_an_environment_with_one_generator_is_seeded_as_a_whole(make):
    env = make(gymnasium.make_vec("CartPole-v1", 3))
    assert env.spec.max_episode_steps == 500
    assert isinstance(env, interfaces.ManagedEnv) and not env.compilable
    first, again, other = (env.init(seed)[1].observation for seed in (5, 5, 6))
    assert_equal(first, again)
    assert not np.array_equal(first, other)


def test_action_and_reward_of_a_restarting_row_are_ignored(make):
    vector = Scripted({1: {"terminated": np.array([False, True])}})
    env = make(vector)
    state, _ = env.init(1)
    rewards = []
    for _ in range(3):
        state, step = env.step(state, tf.constant([2, 2]))
        rewards.append(step.reward.numpy().tolist())
    expected = [[2, 2], [2, 0], [2, 2]]
    np.testing.assert_array_equal(vector.actions, expected)
    assert rewards == [[1, 2], [1, 0], [1, 2]]


def test_a_row_that_ends_while_it_restarts_is_an_error(make):
    ended = {"terminated": np.array([False, True])}
    env = make(Scripted({1: ended, 2: ended}))
    assert error_of_step(env, 2, "its autoreset mode may not be NEXT_STEP").env == 1


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        (None, "the autoreset mode None"),
        ({"autoreset_mode": "SameStep"}, "the autoreset mode SameStep"),
        ({"autoreset_mode": AutoresetMode.DISABLED}, "mode AutoresetMode.DISABLED"),
    ],
)
def test_other_autoreset_modes_are_refused_with_a_fix(make, metadata, found):
    vector, valid = Scripted(), Scripted().metadata
    vector.metadata = metadata
    match = f"Scripted has .*{found}; expected NEXT_STEP.*AutoresetMode.NEXT_STEP"
    with pytest.raises(UserError, match=match):
        make(vector)
    vector.metadata = valid
    make(vector).init(1)  # it may be used after the refusal


class Informed(CountingEnv):
    """Environment with its step in the infos; only the first reset has a number."""

    def reset(self, **kwargs):
        observation, _ = super().reset(**kwargs)
        return observation, {"number": 70} if self._episode == 0 else {}

    def step(self, action):
        *result, _ = super().step(action)
        return *result, {"number": self._step, "late": self._step / 2}


def test_numbers_are_copied_from_infos(make):
    vector = SyncVectorEnv([Informed, lambda: Informed(2)])
    env = make(vector, info_keys={"number": "int32", "late": "float32"})
    steps = rollout(env, 3, seed=1).steps
    assert steps.info["number"][:3].tolist() == [[70, 70], [1, 1], [2, 2]]
    late = [[np.nan, np.nan], [0.5, 0.5], [1, 1]]
    np.testing.assert_array_equal(steps.info["late"][:3], late)
    # The info of row 1, which restarted, has no numbers.
    assert steps.info["number"][3].tolist() == [3, 0]
    np.testing.assert_array_equal(steps.info["late"][3], [1.5, np.nan])


def test_infos_of_wrong_dtype_are_an_error(make):
    wrong = {1: {"info": {"x": np.array(["a", "b"])}}}
    env = make(Scripted(wrong), info_keys={"x": "int32"})
    error_of_step(env, 1, r"info\['x'\] is an array, <U1 \[2\]")


NAN = {"observation": np.array([[0, 0], [0, np.nan]], np.float32)}


WIDE = {"observation": np.zeros((2, 3), np.float32)}


@pytest.mark.parametrize(
    "wrong, text",
    [
        ({"info": None}, "info is NoneType; expected a dict"),
        (WIDE, r"observation has shape \[2, 3\]; its space says \[2, 2\]"),
        ({"reward": np.zeros(3)}, r"reward is an array, float64 \[3\]"),
        ({"reward": [None, 1]}, r"reward is an array, object \[2\]; expected"),
        ({"terminated": np.zeros(2)}, r"terminated is an array, float64 \[2\]"),
    ],
)
def test_wrong_results_are_errors_of_the_batch(make, wrong, text):
    error = error_of_step(make(Scripted({2: wrong})), 2, text, [1, 2])
    found = error.env, error.phase, error.action, error.seed
    assert found == (None, "step", "[1, 2]", 3)


@pytest.mark.parametrize(
    "wrong, text",
    [
        (NAN, "observation has NaN or infinite values"),
        ({"reward": np.array([0, np.inf])}, "reward is inf; expected a finite"),
    ],
)
def test_non_finite_numbers_are_errors_of_their_row(make, wrong, text):
    env, text = make(Scripted({2: wrong})), rf"env 1 .*at step 1 .*: {text}"
    error = error_of_step(env, 2, text, [1, 2])
    assert (error.env, error.step, error.episode) == (1, 1, 0)
    assert (error.seed, error.action, error.phase) == (env_seed(3, 1), "2", "step")


def test_a_mask_that_allows_no_action_is_an_error_of_its_row(make):
    env = make(SyncVectorEnv([lambda n=n: MaskedEnv(n) for n in (2, 3)]))
    error = error_of_step(env, 2, r"observation\['action_mask'\] allows no action")
    assert (error.env, error.step, error.phase) == (1, 1, "step")


def test_the_finite_check_of_a_vector_environment_can_be_turned_off(make):
    wrong = {1: NAN | {"reward": np.array([np.nan, 0])}}
    steps = rollout(make(Scripted(wrong), finite_check="off"), 1, 1).steps
    assert np.isnan(steps.observation[1]).any() and np.isnan(steps.reward[1, 0])


def test_a_wrong_reset_is_an_error(make):
    with pytest.raises(EnvError, match=r"in reset\(\): observation has shape \[2, 3\]"):
        make(Scripted({0: WIDE})).init(1)


def test_observations_outside_their_bounds_are_counted_and_logged_once(make, caplog):
    wrong = {"observation": np.full((2, 2), -5, np.float32)}
    env = make(Scripted({1: wrong, 2: wrong}))
    rollout(env, 3, seed=1)
    assert env.metrics()["env/observation_out_of_bounds"] == 4
    assert caplog.text.count("outside the bounds") == 1


def test_an_exception_names_seed_actions_and_phase(make):
    env = make(SyncVectorEnv(fault_envs("exc", step=1)))
    error = error_of_step(env, 2, "something broke", [1, 0], seed=4)
    assert isinstance(error.__cause__, ValueError)
    expected = "one of 2 environments; it is not known which; the seed of init was 4"
    assert expected in str(error)
    found = error.env, error.phase, error.action, error.seed
    assert found == (None, "step", "[1, 0]", 4)
    with pytest.raises(EnvError, match="the environments are closed after EnvError"):
        env.init(1)


@pytest.mark.parametrize(
    ("broken", "phase", "last", "text"),
    [
        (Scripted({2: NAN}), "step", [[1, 1], [1, 1]], "NaN"),
        ("step", "step", [[0, 0, 1], [1, 0, 1]], "something broke"),
        ("reset", "reset", np.zeros((2, 3)), "something broke"),
    ],
)
def test_after_a_failure_in_a_graph_no_row_is_valid(make, broken, phase, last, text):
    if isinstance(broken, str):
        broken = SyncVectorEnv(fault_envs("exc", step=1, phase=broken))
    env = make(broken)

    @tf.function
    def run():
        state, step = env.init(1)
        for _ in tf.range(4):
            state, step = env.step(state, [0, 0])
        return step, env.ok(state)

    step, ok = run()
    assert not bool(ok) and not step.valid.numpy().any()
    assert not step.reward.numpy().any()
    np.testing.assert_array_equal(step.observation, last)
    with pytest.raises(EnvError, match=text) as caught:
        env.check()
    assert caught.value.phase == phase


@pytest.mark.filterwarnings("ignore:.*Received the following error")
@pytest.mark.filterwarnings("ignore:.*Traceback")
@pytest.mark.filterwarnings("ignore:.*Raising the last exception")
def test_an_exception_in_another_process_is_raised(make):
    env = make(AsyncVectorEnv(fault_envs("exc", step=1)))
    error_of_step(env, 2, "something broke")


@pytest.mark.parametrize("step", [True, False])
def test_a_killed_process_is_an_error_and_the_others_end(make, step):
    vector = AsyncVectorEnv([functools.partial(FaultEnv, None, env=i) for i in (0, 1)])
    env = make(vector)
    state, _ = env.init(4)
    os.kill(vector.processes[1].pid, signal.SIGKILL)
    vector.processes[1].join(10)
    if step:
        with pytest.raises(EnvError, match=r"EOFError|ConnectionReset|BrokenPipe"):
            env.step(state, [0, 0])
    env.close()
    assert not vector.processes[0].is_alive()


def test_closing_closes_the_vector_environment_once():
    for closes in (2, 0):  # without any it is garbage-collected
        env = VectorEnv(vector := Scripted())
        env.init(1)
        for _ in range(closes):
            env.close()
        del env
        assert vector.closes == 1


def test_compiled_programs_are_refused_with_advice(make):
    env = make(Scripted())
    with pytest.raises(UserError, match=r"jit_compile=True.* in this process"):
        tf.function(lambda: env.init(1)[1].reward, jit_compile=True, autograph=False)()


@pytest.mark.parametrize("env", [7, CountingEnv, lambda: counting(1)])
def test_only_vector_environments_are_accepted(env):
    with pytest.raises(UserError, match=r"env is of type .*; expected a gymnasium.vec"):
        VectorEnv(env)


def test_a_vector_environment_cannot_be_used_twice(make):
    vector = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync")
    env = make(vector)
    with pytest.raises(UserError, match="is already stepped by another environment"):
        VectorEnv(gymnasium.wrappers.vector.ClipReward(vector, -1, 1))
    env.close()


def test_a_vector_environment_is_closed_if_an_option_is_refused(make):
    vector = Scripted()
    with pytest.raises(UserError, match="existing batch is 'restart'; expected 'rais"):
        VectorEnv(vector, on_fault="restart")
    assert vector.closes == 1
    make(vector)  # it is free again


def test_wrapped_vector_environments_are_supported(make):
    vector = counting(2, 3)
    transform = gymnasium.wrappers.vector.TransformReward
    vector = transform(vector, lambda reward: 10 * reward + 1)
    steps = rollout(make(vector), 4, seed=1).steps
    assert steps.reward.tolist() == [[0, 0], [11, 11], [21, 21], [0, 31], [11, 0]]


def test_options_reach_a_vector_environment():
    with tfb.make_env(Scripted(), 2, 0, info_keys={"x": "bool"}) as env:
        assert env.spec.info["x"] == "bool"


@pytest.mark.parametrize(
    "options, text",
    [
        ({"num_envs": 3}, "of 2 environments, but num_envs is 3; leave num_envs out"),
        ({"num_workers": 1}, "as a whole in this process; leave out num_workers"),
        ({"env_kwargs": {"x": 1}}, "leave out env_kwargs"),
    ],
)
def test_arguments_that_contradict_a_vector_environment_are_refused(options, text):
    with pytest.raises(UserError, match=text):
        tfb.make_env(Scripted(), **options)
