"""Environments in worker processes, stepped inside one XLA program."""

import functools
import os
import signal
import threading
import time

import gymnasium
import gymnasium.spaces as gs
import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.support.fault_env import fault_envs
from tests.support.space_env import SpaceEnv
from tfagents_batch import nest
from tfagents_batch.envs.contract import random_actions, rollout
from tfagents_batch.envs.graph import host_calls
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.native import op
from tfagents_batch.errors import EnvError, Stopped, WorkerCrashed

pytestmark = [
    pytest.mark.xla,
    pytest.mark.parametrize("backend", ["native"], indirect=True),
]
STEPS = 60


cartpole = functools.partial(gymnasium.make, "CartPole-v1")
OBSERVATION = gs.Dict(
    image=gs.Box(0, 255, (6, 6, 3), np.uint8),
    rest=gs.Tuple([gs.MultiBinary(4), gs.Discrete(3, start=-1)]),
    small=gs.Box(-100, 100, (2,), np.int16),
    wide=gs.Box(-1, 1, (), np.float64),
)
ACTION = gs.Dict(
    box=gs.Box(-0.5, 0.5, (2,), np.float32),
    many=gs.MultiDiscrete([3, 4], start=[1, -2]),
    one=gs.Discrete(3, start=2),
    steps=gs.Box(-3, 3, (2,), np.int8),
    switches=gs.MultiBinary(3),
)


def test_both_backends_give_equal_transitions(make_process_env):
    """The contract compares programs of each backend with its eager steps."""
    lengths = (1, 3, 4, 4, 7)
    constructors = [
        functools.partial(SpaceEnv, OBSERVATION, ACTION, length) for length in lengths
    ]
    found, fractions = [], []
    with ProcessEnv(constructors, 2, backend="portable") as portable:
        actions = random_actions(portable.spec, STEPS, 7)
        # Some actions are out of bounds: both backends clip and count them.
        actions = nest.map(lambda x: x * 1.5 if x.dtype == np.float32 else x, actions)
        for env in (portable, make_process_env(constructors)):
            found.append(rollout(env, STEPS, 3, actions))
            fractions.append(env.metrics()["env/action_clipped_fraction"])
    assert found[0].ok.all() and fractions[0] == fractions[1] > 0
    for x, y in zip(*map(nest.flatten, found), strict=True):
        np.testing.assert_array_equal(x, y)


def long_rollout(env, steps):
    """Return the number of valid rows in ``steps`` compiled steps, and ``ok``."""

    @tf.function(jit_compile=True, autograph=False)
    def run(steps):
        state, _ = env.init(1)

        def body(t, state, valid):
            state, step = env.step(state, tf.zeros([env.spec.num_envs], tf.int32))
            return t + 1, state, valid + tf.reduce_sum(tf.cast(step.valid, tf.int32))

        start = (tf.constant(0), state, tf.constant(0))
        _, state, valid = tf.while_loop(lambda t, *_: t < steps, body, start)
        return valid, env.ok(state)

    run(tf.constant(0))  # compiles before the timing starts
    return run(tf.constant(steps))


def test_a_worker_killed_inside_a_program_ends_it_with_an_error(make_process_env):
    env = make_process_env(fault_envs("kill", 4, step=5), 2)
    started = time.monotonic()
    valid, ok = long_rollout(env, 100_000)
    assert not bool(ok)
    assert int(valid) == 4 * 5 + 2
    with pytest.raises(WorkerCrashed, match="was killed by SIGKILL") as caught:
        env.check()
    assert time.monotonic() - started < 20
    error = caught.value
    assert (error.env, error.worker, error.step, error.action) == (3, 1, 5, "0")


def test_a_worker_killed_inside_a_program_is_replaced_while_it_runs(
    make_process_env, tmp_path
):
    options = {"step": 5, "length": 10**9, "mark": str(tmp_path / "mark")}
    env = make_process_env(fault_envs("kill", 4, **options), 2, on_fault="restart")

    def body(t, state, step, lost, since):
        state, step = env.step(state, tf.zeros([4], tf.int32))
        bad = tf.reduce_any(~step.valid)
        return t + 1, state, step, lost | bad, tf.where(bad, 0, since + 1)

    @tf.function(jit_compile=True, autograph=False)
    def run():
        """Step until the lost rows are back, then 20 steps more."""
        t, state, step, lost, _ = tf.while_loop(
            lambda t, _state, _step, lost, since: (t < 10**8) & (~lost | (since < 20)),
            body,
            (0, *env.init(1), False, 0),
        )
        return t, step, lost, env.ok(state)

    t, step, lost, ok = run()
    env.check()
    assert bool(ok)
    assert bool(lost)
    assert step.valid.numpy().all()
    steps = step.observation[:, 2].numpy()
    assert steps[0] == steps[1] == int(t)  # the other worker is not affected
    assert (steps[2:] < int(t)).all()
    failed, restarted = env.events()
    assert failed["envs"] == restarted["envs"] == [2, 3]
    assert "was killed by SIGKILL" in failed["cause"]


@pytest.mark.parametrize(
    ("space", "action", "text"),
    [
        (gs.Discrete(3, start=2), [2, 7], r"action is 7; Discrete.* takes 2 to 4"),
        (gs.MultiBinary(2), [[0, 1], [0, 2]], r"action is \[0, 2\]"),
        (gs.MultiDiscrete([2, 3]), [[1, 2], [2, 0]], r"action is \[2, 0\]"),
        (gs.Box(-1, 1, (1,)), [[0.0], [np.nan]], r"action is \[nan\]; expected fin"),
    ],
)
def test_an_invalid_action_in_a_program_raises_an_error_that_names_it(
    make_process_env, space, action, text
):
    env = make_process_env([functools.partial(SpaceEnv, gs.Discrete(2), space)] * 2, 1)

    @tfb.function(jit_compile=True)
    def run(action):
        state, _ = env.init(1)
        _, step = env.step(state, action)
        return step.valid

    with pytest.raises(EnvError, match=text) as caught:
        run(tf.constant(action))
    assert (caught.value.env, caught.value.step) == (1, 0)


def test_integers_of_any_width_are_accepted_and_checked(make_process_env):
    space = gs.Discrete(3)
    env = make_process_env([functools.partial(SpaceEnv, gs.Discrete(2), space)] * 2, 1)
    state, _ = env.init(1)
    for dtype in ("int8", "int64", "uint64"):
        state, step = env.step(state, tf.constant([1, 2], dtype))
        assert step.reward.numpy().tolist() == [1, 1]
    with pytest.raises(EnvError, match="action is 100"):
        env.step(state, tf.constant([0, 100], "uint64"))


def test_a_closed_environment_gives_failed_rows_in_a_program(make_process_env):
    def start(env):
        state, step = env.init(1)
        return step, env.ok(state)

    env = make_process_env(fault_envs(None), 1)
    run = tf.function(functools.partial(start, env), jit_compile=True, autograph=False)
    assert bool(run()[1])
    env.close()
    step, ok = run()
    assert not bool(ok) and not step.valid.numpy().any()
    with pytest.raises(
        EnvError, match="the environments are closed; create a new environment"
    ):
        env.check()


def test_unknown_handles_and_other_shapes_are_errors_with_the_handle(make_process_env):
    env = make_process_env(fault_envs(None), 1)
    handle = env.hub
    wrong = {
        f"unknown:{10**9}": op.Calls(10**9, host_calls.outputs(env.spec)),
        f"shape:{handle}": op.Calls(handle, host_calls.outputs(env.spec)[:-1]),
    }
    for message, calls in wrong.items():
        with pytest.raises(tf.errors.OpError, match=f"tfab:{message}"):
            calls.init(tf.constant(1, tf.int64))


def test_ctrl_c_ends_a_compiled_rollout(make_process_env):
    env = make_process_env(fault_envs("hang", 2, step=5), 1, step_seconds=None)
    sent = []

    def interrupt():
        words = env.words[0]
        deadline = time.monotonic() + 20
        while words[0] < 8 and time.monotonic() < deadline:
            time.sleep(0.001)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    @tfb.function(jit_compile=True, autograph=False)
    def run():
        state, _ = env.init(1)
        loop = (tf.constant(0), state)
        return tf.while_loop(
            lambda t, _: t < 1000,
            lambda t, s: (t + 1, env.step(s, tf.zeros([2], tf.int32))[0]),
            loop,
        )[0]

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run()
    assert time.monotonic() - sent[0] < 0.5 + 2
    thread.join()
    with pytest.raises(Stopped):
        env.check()


def test_gradients_do_not_pass_through_a_step(make_process_env):
    env = make_process_env([functools.partial(gymnasium.make, "Pendulum-v1")] * 2, 1)
    weight = tf.Variable(0.5)

    @tf.function(jit_compile=True, autograph=False)
    def run():
        with tf.GradientTape() as tape:
            state, step = env.init(1)
            state, step = env.step(state, tf.fill([2, 1], 1.0) * weight)
            loss = tf.reduce_sum(step.reward) + 3.0 * weight
        return tape.gradient(loss, weight)

    assert float(run()) == 3


def test_a_wrong_batch_size_is_refused_when_a_program_is_compiled(make_process_env):
    env = make_process_env(fault_envs(None, 3), 1)

    @tf.function(
        jit_compile=True,
        input_signature=[tf.TensorSpec(None, tf.int32)],
        autograph=False,
    )
    def run(action):
        state, _ = env.init(1)
        return env.step(state, action)[1].valid

    assert run(tf.zeros([3], tf.int32)).numpy().all()
    with pytest.raises(tf.errors.InvalidArgumentError):
        run(tf.zeros([2], tf.int32))


def test_a_thousand_failed_steps_return_at_once(make_process_env):
    env = make_process_env(fault_envs("exc", 2, step=0), 1)
    started = time.monotonic()
    valid, ok = long_rollout(env, 200_000)
    assert time.monotonic() - started < 10
    assert not bool(ok)
    assert int(valid) == 1  # the other row of the first failed step
