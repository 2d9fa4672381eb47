from __future__ import annotations

import pytest
import tensorflow as tf

from tests.support.fault_env import fault_envs
from tfagents_batch.envs.graph.function import function
from tfagents_batch.errors import EnvError


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
        def __init__(self):
            self.count = tf.Variable(1)

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


def test_the_failure_of_a_closed_environment_is_not_raised_elsewhere():
    from tests.support.fault_env import FaultEnv
    from tfagents_batch.envs.graph.process_env import ProcessEnv

    env = ProcessEnv([lambda: FaultEnv("exc", step=0)], num_workers=0)
    state, _ = tf.function(env.init)(tf.constant(1))
    tf.function(env.step)(state, tf.constant([0]))
    env.close()
    assert int(function(lambda x: x + 1)(tf.constant(1))) == 2
