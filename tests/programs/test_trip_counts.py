"""Loops whose number of iterations is known when XLA compiles a program.

On a GPU such a loop runs without the host. Before every iteration of any other loop,
the host waits for the GPU and reads the condition. ``maximum_iterations`` would hide
the number.
"""

import re
from types import SimpleNamespace

import keras
import pytest
import tensorflow as tf

from tfagents_batch import algorithms, config
from tfagents_batch.envs.make import make_env
from tfagents_batch.graph import training_batch
from tfagents_batch.programs import program
from tfagents_batch.sources.replay_settings import ReplaySettings
from tfagents_batch.sources.rollout import Rollout

LENGTH, EPOCHS = 4, 2
MINIBATCHES = {"minibatch_size": 4, "epochs": EPOCHS}
REPLAY = {"warmup_steps": 4, "batch_size": 4}
CORE = {"network": {"hidden": (4,), "core": "gru"}}
ROLLOUT = {"rollout": LENGTH}
SHUFFLED = ROLLOUT | {"epochs": EPOCHS, "walk": 6}
UNROLLED = {"unroll": LENGTH, "unroll_gradient": LENGTH}
# Loops whose number of iterations depends on data. A fixed number with a branch in it
# would let the host wait as often, and XLA would copy all weights for the branch.
CONDITIONS = {
    "rounds": "the run has to log, evaluate or save, or an environment has failed",
    "updates": "all updates are made that are due by the ratio of updates to steps",
    "minibatches": "every valid row is used; restart and padding rows are not valid",
}
CASES = {
    "ppo": ("ppo", MINIBATCHES, {"rounds", "minibatches"}, SHUFFLED),
    "recurrent": (
        "ppo",
        MINIBATCHES | CORE,
        {"rounds", "minibatches"},
        SHUFFLED | UNROLLED,
    ),
    "a2c": ("a2c", {}, {"rounds"}, ROLLOUT),
    "dqn": ("dqn", REPLAY, {"rounds", "updates"}, {}),
    "prioritized": ("dqn", REPLAY, {"rounds", "updates"}, {}),
}


def trip_counts(function, *arguments):
    """Return the loops of a compiled function: name, and number of iterations or None.

    XLA's own loops, such as those that it makes of a scatter, have the name of the
    operation.
    """
    hlo = function.experimental_get_compiler_ir(*arguments)(
        stage="optimized_hlo", platform_name="CPU"
    )
    loops = [line for line in hlo.splitlines() if " while(" in line]
    return [(_name(line), _count(line)) for line in loops]


def _name(line):
    """Return the name of a loop without its scopes and the number TensorFlow adds."""
    path = re.search(r'op_name="([^"]*)"', line)
    return re.sub(r"_\d+$", "", path[1].rpartition("/")[2]) if path else line


def _count(line):
    count = re.search(r'"known_trip_count":{"n":"(\d+)"}', line)
    return int(count[1]) if count else None


def make_source(env, agent, prioritized):
    if "windows" not in agent.config.accepts():
        return Rollout(env, agent.policy, LENGTH, seed=0)
    run = SimpleNamespace(settings=agent.config, log_info=(), steps=100)
    settings = ReplaySettings(32, prioritized=prioritized, beta=0.4)
    return settings.open((env,), agent, 1, run)


@pytest.mark.parametrize("case", CASES)
def test_only_loops_that_end_by_a_condition_have_no_known_trip_count(case):
    name, settings, unknown, known = CASES[case]
    kind, make_config = algorithms.REGISTRY[name]
    small = {"network": {"hidden": (4,)}, "histograms": False}
    given = []  # to the function that stores a program
    with make_env("tf/CartPole-v1", 2) as env:
        agent = kind(config.replace(make_config(), small | settings), env.spec)
        source = make_source(env, agent, case == "prioritized")
        program.build(source, agent, "full", save=lambda *x: given.append(x))
        compiled, _, _ = given[0]
        limits = tf.constant(0), tf.constant(9, tf.int64), tf.constant(2)
        loops = trip_counts(compiled, *limits)
    assert {name for name, count in loops if count is None} == unknown
    assert unknown <= CONDITIONS.keys()
    assert known.items() <= {pair for pair in loops if pair[1] is not None}


def test_a_loop_over_chunks_has_a_known_trip_count():
    layer = keras.layers.Dense(1)
    layer.build([4])

    @tf.function(jit_compile=True, autograph=False)
    def values(rows):
        return training_batch.chunked(lambda rows: layer(rows)[:, 0], rows, limit=2)

    assert trip_counts(values, tf.zeros([6, 4])) == [("chunks", 3)]
