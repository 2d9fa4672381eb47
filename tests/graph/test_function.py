"""Custom gradients are used by TensorFlow and freed with their program."""

import gc
import weakref

import pytest
import tensorflow as tf
from tensorflow.python.framework import ops

from tfagents_batch.graph.function import custom_gradient


@custom_gradient
def thrice(x, y):
    """Return x y, with gradients that are three times too large on purpose."""
    return x * y, lambda upstream: (3 * y * upstream, 3 * x * upstream)


def slopes(x, y):
    with tf.GradientTape() as tape:
        tape.watch((x, y))
        z = thrice(x, y)
    return tape.gradient(z, (x, y))


def in_a_loop(x, y):
    """Return the gradients of x y^4, computed with ``thrice`` in a loop."""
    with tf.GradientTape() as tape:
        tape.watch((x, y))
        _, z = tf.while_loop(
            lambda i, _: i < 4,
            lambda i, z: (i + 1, thrice(z, y)),
            (0, x),
            maximum_iterations=4,
        )
    return tape.gradient(z, (x, y))


@pytest.mark.parametrize("jit", [None, False, True], ids=["eager", "graph", "xla"])
def test_the_custom_gradient_is_used(jit):
    def run(f, *inputs):
        return (f if jit is None else tf.function(f, jit_compile=jit, autograph=False))(
            *inputs
        )

    x, y = tf.constant(2.0), tf.constant(5.0)
    assert [float(g) for g in run(slopes, x, y)] == [15, 6]
    to_x, to_y = run(in_a_loop, x, y)
    assert float(to_x) == (3 * 5) ** 4
    product = sum(3 * 2 * 5**i * (3 * 5) ** (3 - i) for i in range(4))
    assert float(to_y) == product


def test_the_custom_gradient_is_used_in_a_v1_graph():
    with tf.Graph().as_default():
        x, y = tf.constant(2.0), tf.constant(5.0)
        wanted = tf.gradients(thrice(x, y), [x, y])
        with tf.compat.v1.Session() as session:
            assert session.run(wanted) == [15, 6]


@pytest.mark.parametrize("program", [slopes, in_a_loop])
def test_a_deleted_program_leaves_nothing_in_memory(program):
    def names():
        names = ops.gradient_registry.list()
        return {name for name in names if name.startswith("CustomGradient")}

    gc.collect()
    before = names()
    traced = tf.function(program, autograph=False)
    graph = traced.get_concrete_function(tf.constant(1.0), tf.constant(1.0)).graph
    reference = weakref.ref(graph)
    assert names() > before
    del traced, graph
    gc.collect()
    assert reference() is None
    assert names() == before
