import signal
import threading

import pytest
import tensorflow as tf
from gymnasium.vector import SyncVectorEnv

import tfagents_batch as tfb
from tests.support.fault_env import fault_envs
from tests.support.threads_env import Threads
from tfagents_batch.envs.graph.function import function
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import EnvError, Stopped


def test_function_works_as_a_decorator_with_and_without_options():
    @function
    def plain(x):
        """Adds one."""
        return x + 1

    @function(jit_compile=True, reduce_retracing=True)
    def compiled(x):
        return x * 2

    assert int(plain(tf.constant(1))) == 2
    assert int(compiled(tf.constant(3))) == 6
    assert plain.__doc__ == "Adds one."
    assert compiled.function_spec is not None


def test_function_can_decorate_a_method():
    class Counter:
        count = 1

        @function
        def add(self, x):
            return self.count + x

    assert int(Counter().add(tf.constant(2))) == 3


def test_graph_errors_are_unchanged_without_a_failure():
    @function
    def fail(x):
        tf.debugging.assert_positive(x)
        return x

    with pytest.raises(tf.errors.InvalidArgumentError):
        fail(tf.constant(-1))


def test_an_earlier_failure_replaces_a_graph_error(make_process_env):
    env = make_process_env(fault_envs("exc", step=0), 1)

    @function
    def run():
        state, _ = env.init(1)
        _, step = env.step(state, [0, 0])
        with tf.control_dependencies([tf.debugging.Assert(step.valid[1], [1])]):
            return tf.identity(step.reward)

    with pytest.raises(EnvError, match="something broke") as caught:
        run()
    assert isinstance(caught.value.__context__, tf.errors.InvalidArgumentError)


def test_a_nested_function_does_not_check_environments(make_process_env):
    env = make_process_env(fault_envs("exc", step=0), 1)

    @function
    def inner(state):
        return env.step(state, [0, 0])[1].valid

    @tf.function
    def outer():
        return inner(env.init(1)[0])

    assert outer().numpy().tolist() == [True, False]
    with pytest.raises(EnvError):
        env.check()


def test_every_live_environment_is_checked(make_process_env):
    healthy = make_process_env(fault_envs(None), 0)
    broken = make_process_env(fault_envs("exc", phase="reset"), 0)

    @function
    def run():
        return healthy.init(1)[1].valid, broken.init(1)[1].valid

    with pytest.raises(EnvError) as caught:
        run()
    assert caught.value.phase == "reset"
    function(lambda: tf.constant(1))()  # raised only once


def test_the_failure_of_a_closed_environment_is_not_raised_elsewhere(make_process_env):
    env = make_process_env(fault_envs("exc", step=0), 0)
    state, _ = tf.function(env.init, autograph=False)(tf.constant(1))
    tf.function(env.step, autograph=False)(state, tf.constant([0, 0]))
    env.close()
    assert int(function(lambda x: x + 1)(tf.constant(1))) == 2


OWNED = {
    "functions": lambda seen: tfb.make_env(lambda: Threads(seen), 2, num_workers=0),
    "an instance": lambda seen: tfb.make_env(Threads(seen)),
    "a vector environment": lambda seen: tfb.make_env(
        SyncVectorEnv([lambda: Threads(seen)] * 2)
    ),
}


def rollout(env, steps: int = 12):
    """Return a program that starts an environment and steps it."""
    action = tf.zeros([env.spec.num_envs], tf.int32)

    @function(autograph=False)
    def run(seed):
        state, timestep = env.init(seed)
        return tf.while_loop(
            lambda i, state, _: (i < steps) & env.ok(state),
            lambda i, state, _: (i + 1, *env.step(state, action)),
            (0, state, timestep),
            parallel_iterations=1,
        )[2]

    return run


@pytest.mark.parametrize("kind", OWNED)
def test_an_environment_of_this_process_lives_in_one_thread(kind):
    seen = set()
    with OWNED[kind](seen) as env:
        state, _ = env.init(1)
        env.step(state, [0] * env.spec.num_envs)
        rollout(env)(tf.constant(1))
    assert seen == {threading.get_ident()}


def test_a_plain_tf_function_steps_environments_of_this_process_too():
    seen = set()
    with tfb.make_env(lambda: Threads(seen), 2, num_workers=0) as env:
        state, _ = tf.function(env.init, autograph=False)(tf.constant(1))
        state, timestep = tf.function(env.step, autograph=False)(
            state, tf.constant([0, 0])
        )
    assert timestep.observation.numpy().tolist() == [[0, 1], [0, 1]]


def test_a_program_keeps_the_device_and_the_gradient_tape_of_its_caller():
    weight = tf.Variable(2.0)
    with tfb.make_env(CountingEnv, 1, num_workers=0) as env:

        @function(autograph=False)
        def run():
            _, timestep = env.init(1)
            return weight * (timestep.reward + 3)

        with tf.GradientTape() as tape:
            found = run()
        assert tape.gradient(found, weight).numpy() == 3
        with tf.device("/CPU:0"):
            assert run().device.endswith("CPU:0")


class Interrupted(CountingEnv):
    """Environment that raises a signal in its third step."""

    def step(self, action):
        if self._step == 2:
            signal.raise_signal(signal.SIGINT)
        return super().step(action)


def test_ctrl_c_in_a_step_in_this_process_ends_the_program_and_is_raised():
    with tfb.make_env(Interrupted, 2, num_workers=0) as env:
        with pytest.raises(KeyboardInterrupt):
            rollout(env, steps=10**9)(tf.constant(1))
        with pytest.raises(Stopped):
            env.check()


def test_an_environment_of_this_process_can_be_closed_while_a_program_steps_it():
    seen, began = set(), threading.Event()

    class Slow(Threads):
        def step(self, action):
            began.set()
            return super().step(action)

    env = tfb.make_env(lambda: Slow(seen), 2, num_workers=0)

    def close():
        assert began.wait(20)
        env.close()

    thread = threading.Thread(target=close)
    thread.start()
    rollout(env, steps=10**9)(tf.constant(1))
    thread.join(20)
    assert not thread.is_alive() and seen == {threading.get_ident()}
