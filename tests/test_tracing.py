"""TensorFlow warns of a user's function that is traced often, but not of ours."""

import pytest
import tensorflow as tf

from tests.support import linear
from tfagents_batch.envs.make import make_env
from tfagents_batch.programs import program
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.tracing import anew
from tfagents_batch.training.evaluate import Evaluator


@pytest.fixture
def warnings(caplog):
    """Return how many warnings of retracing there were."""
    caplog.set_level("WARNING", "tensorflow")
    return lambda: caplog.text.count("triggered tf.function retracing")


def twice(x):
    return 2 * x


def test_a_function_that_is_made_anew_for_each_run_is_counted_alone(warnings):
    for _ in range(6):
        assert int(tf.function(anew(twice), autograph=False)(tf.constant(3))) == 6
    assert not warnings()
    made = tf.function(anew(twice), autograph=False)
    assert "twice" in made.get_concrete_function(tf.constant(3)).name.decode()
    for size in range(6):  # one function, for other shapes: a fault
        made(tf.zeros([size]))
    assert warnings()


def test_a_function_of_a_user_is_counted_as_before(warnings):
    def mine(x):
        return x

    for size in range(6):
        tf.function(mine)(tf.zeros([size]))
    assert warnings()


def test_runs_in_one_process_cause_no_warning(warnings):
    for seed in range(5):
        with make_env("tf/CartPole-v1", num_envs=2) as env:
            algorithm = linear.Linear(linear.Config(), env.spec)
            source = Rollout(env, algorithm.policy, 4, seed)
            program.build(source, algorithm, "off", seed=seed)(1, 1)
            Evaluator(env, algorithm.policy, 2, most_steps=4)(seed)
    assert not warnings()
