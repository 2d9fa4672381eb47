"""Errors for authors of TensorFlow environments, and the batch of a valid one."""

import functools
import pathlib
import sys

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

import tfagents_batch as tfb
from tests.support import python
from tfagents_batch import seeds
from tfagents_batch.envs.tf.batch import TensorBatch
from tfagents_batch.errors import EnvError, UserError

SPACE = gs.Box(-10.0, 10.0, (2,))


class Walk:
    """A random walk of two coordinates, until one is far out."""

    observation_space = SPACE
    action_space = gs.Discrete(3)
    max_episode_steps = 30

    def __init__(self, bound=2.0):
        self.bound = bound

    def reset(self, key):
        state = {"place": tf.zeros([2]), "steps": 0}
        return state, state["place"]

    def step(self, state, action, key):
        noise = seeds.normal([2], key)
        place = state["place"] + noise + tf.cast(action - 1, tf.float32)
        far = tf.reduce_any(tf.abs(place) > self.bound)
        return {"place": place, "steps": state["steps"] + 1}, place, 1, far


def wrong(**changes):
    """Return a ``Walk`` with other attributes."""
    return type("Wrong", (Walk,), changes)()


def rows(steps, env, seed=1):
    state, step = env.init(seed)
    found = [step]
    for _ in range(steps):
        state, step = env.step(state, tf.ones([env.spec.num_envs], tf.int32))
        found.append(step)
    return found


@pytest.mark.parametrize(
    "env",
    [Walk(), Walk, f"{__name__}:Walk", functools.partial(Walk, bound=3.0)],
    ids=["object", "class", "name", "partial"],
)
def test_an_environment_is_given_as_object_class_or_name(env, monkeypatch):
    monkeypatch.setitem(sys.modules, __name__, sys.modules[Walk.__module__])
    batch = tfb.make_env(env, num_envs=4)
    assert isinstance(batch, TensorBatch) and batch.spec.num_envs == 4
    assert batch.spec.max_episode_steps == 30


def test_arguments_of_reset_and_step_may_have_any_names():
    class Renamed(Walk):
        def reset(self, random):
            return super().reset(random)

        def step(self, where, move, random):
            return super().step(where, move, random)

    assert isinstance(tfb.make_env(Renamed), TensorBatch)


def test_a_list_or_a_function_of_tensor_environments_is_refused():
    with pytest.raises(UserError, match=r"env\[1\] is .*Walk, which is written in"):
        tfb.make_env(["CartPole-v1", Walk])
    with pytest.raises(EnvError, match="returned Walk, which is written in TensorFlow"):
        tfb.make_env(lambda: Walk(), num_workers=0)


def test_env_kwargs_reach_the_environment():
    batch = tfb.make_env(Walk, 2, env_kwargs={"bound": 7.0, "max_episode_steps": 5})
    assert batch.env.bound == 7.0 and batch.spec.max_episode_steps == 5


def test_every_row_draws_new_random_numbers_in_every_step():
    found = np.stack(
        [step.observation for step in rows(6, TensorBatch(Walk(99), 3, False))]
    )
    moves = np.diff(found, axis=0).reshape(-1)
    assert len(np.unique(moves)) == moves.size


class Picky(Walk):
    """A walk that cannot be stepped after the end of an episode."""

    observation_space = gs.Box(0.0, 3.0, (1,))

    def reset(self, key):
        return tf.constant(0), tf.zeros([1])

    def step(self, state, action, key):
        reward = tf.gather(tf.constant([1.0, 2.0, 3.0]), state)  # fails for state 3
        state = state + 1
        return state, tf.cast(state, tf.float32)[tf.newaxis], reward, state == 3


def test_an_ended_state_is_never_stepped():
    steps = rows(8, TensorBatch(Picky(), 2, check=False))
    found = [float(step.reward[0]) for step in steps]
    assert found == [0, 1, 2, 3, 0, 1, 2, 3, 0]


@pytest.mark.parametrize(
    "space, actions, expected",
    [
        (gs.Box(-1.0, 1.0, (1,)), [[-5.0], [0.5]], [[-1.0], [0.5]]),
        (gs.Box(0, 10, (1,), np.uint8), [[-1], [300]], [[0], [10]]),
        (gs.Box(-(2**63), 2**63 - 1, (1,), np.int64), [[-7], [9]], [[-7], [9]]),
        (gs.Discrete(3, start=5), [5, 7], [5, 7]),
        (gs.MultiDiscrete([3, 4]), [[0, 3], [2, 1]], [[0, 3], [2, 1]]),
    ],
)
def test_actions_reach_the_environment_within_their_space(space, actions, expected):
    class Echo(Walk):
        action_space = space
        observation_space = gs.Box(-1e9, 1e9, np.shape(expected[0]))

        def reset(self, key):
            zeros = tf.zeros(self.observation_space.shape)
            return zeros, zeros

        def step(self, state, action, key):
            echo = tf.cast(action, tf.float32)
            return echo, echo, 0.0, False

    env = TensorBatch(Echo(), 2, check=False)
    _, step = env.step(env.init(1)[0], tf.constant(actions))
    np.testing.assert_allclose(step.observation, np.array(expected, np.float32))


def test_nested_observations_and_no_time_limit_are_supported():
    class Nested(Walk):
        max_episode_steps = None
        observation_space = gs.Dict({"place": SPACE, "action_mask": gs.MultiBinary(3)})

        def reset(self, key):
            state, place = super().reset(key)
            return state, {"place": place, "action_mask": tf.ones([3], tf.int8)}

        def step(self, state, action, key):
            state, place, *rest = super().step(state, action, key)
            return state, {"place": place, "action_mask": tf.ones([3], tf.int8)}, *rest

    step = rows(3, TensorBatch(Nested(), 2))[-1]
    assert step.observation["place"].shape == (2, 2)
    assert step.observation["action_mask"].dtype == tf.int8
    assert not np.any(step.truncated)


def test_eager_steps_do_not_trace_again():
    class Counted(Walk):
        traces = 0

        def step(self, *args):
            type(self).traces += 1
            return super().step(*args)

    env = TensorBatch(Counted(), 2, check=False)
    rows(2, env)
    before = Counted.traces
    rows(10, env, seed=5)
    assert Counted.traces == before


def returning(function):
    """Return a ``step`` that returns the result of a function of state and action."""
    return {"step": lambda self, state, action, key: function(state, action)}


def starting(state, observation):
    """Return a ``reset`` that returns this state and observation."""
    return {"reset": lambda self, key: (state, tf.constant(observation))}


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"observation_space": None}, r"space NoneType is not supported; use Box"),
        ({"max_episode_steps": 0}, "max_episode_steps is 0; expected a number, at"),
        ({"reset": lambda s, key: tf.zeros([2])}, r"reset returned .*state, observ"),
        (
            returning(lambda s, a: (s, s["place"])),
            r"step returned a tuple of 2; expected .*reward, terminated",
        ),
        (
            starting({"place": np.zeros(2, np.float32)}, [0.0] * 3),
            r"reset: observation has shape \[3\]; its space says \[2\]",
        ),
        (starting(0, ["a", "b"]), "observation is string; expected float32"),
        (
            {
                "observation_space": gs.Dict({"a": SPACE}),
                "reset": lambda s, key: (0, {"b": tf.zeros([2])}),
            },
            r"reset: observation lacks keys \['a'\]; its space has \['a'\]",
        ),
        (
            returning(lambda s, a: ({**s, "steps": 0.5}, s["place"], 0.0, False)),
            "a tensor of the state is float32 .*, but int32 .* after reset",
        ),
        (
            returning(lambda s, a: (s["place"], s["place"], 0.0, False)),
            "the state has another structure than after reset",
        ),
        (
            returning(lambda s, a: (s, s["place"], tf.zeros([1]), False)),
            "reward has shape .1.; expected one float32",
        ),
        (
            returning(lambda s, a: (s, s["place"], 0.0, 0.0)),
            "terminated is float32; expected bool",
        ),
        (
            returning(lambda s, a: (s, s["place"], 1.0 if a == 1 else 0.0, False)),
            "branches in Python .* use tf.where",
        ),
    ],
)
def test_defects_of_an_environment_are_reported_before_it_runs(changes, message):
    with pytest.raises(UserError, match=message):
        tfb.make_env(wrong(**changes), num_envs=2)


def test_threads_of_tensorflow_can_be_set_after_the_check():
    """Run in a new process, where TensorFlow has run nothing yet."""
    code = f"""
import sys
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
import tensorflow as tf
import tfagents_batch as tfb
from {pathlib.Path(__file__).stem} import Walk
tfb.make_env(Walk, num_envs=2)
tf.config.threading.set_intra_op_parallelism_threads(1)
"""
    python.run(code, timeout=120)


def test_an_operation_that_cannot_be_vectorised_is_named():
    def step(self, state, action, key):
        noise = tf.random.stateless_uniform([2], key, alg="philox")
        return state, noise, 0.0, False

    with pytest.raises(UserError, match=r"uses StatelessRandom\w+V2, .*\bseeds\b"):
        tfb.make_env(wrong(step=step), num_envs=2)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"env": "tf/CartPol-v1"}, "does not exist; did you mean 'tf/CartPole-v1'"),
        ({"env": "tf/Nothing"}, "does not exist; known: tf/Acrobot-v1, tf/Bandit-v0"),
        ({"num_workers": 2}, "inside the graph; leave out num_workers"),
        ({"step_seconds": 3}, "inside the graph; leave out step_seconds"),
        ({"env_kwargs": {"rowz": 3}}, "do not fit tf/Catch-v0: .*rowz"),
        ({"env_kwargs": {"rows": 1}}, "rows is 1; expected a number, at least 2"),
        ({"env_kwargs": {"max_episode_steps": 0}}, "max_episode_steps is 0"),
        ({"env_kwargs": {"max_episode_steps": "9"}}, "max_episode_steps is '9'"),
    ],
)
def test_names_and_options_that_cannot_be_used_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        tfb.make_env(**{"env": "tf/Catch-v0", **options})
