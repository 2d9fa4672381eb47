"""Function names do not depend on what a process did before."""

from __future__ import annotations

import tensorflow as tf

from tfagents_batch.training.compilation import stablehlo


def number():
    @tf.function(autograph=False)
    def later():
        return tf.zeros([])

    name = later.get_concrete_function().name
    return int(name.decode().rsplit("_", 1)[1])


def test_names_begin_at_the_given_number():
    start = number() + 10_000
    stablehlo.begin_at(start)
    found = number()
    # The function itself takes fewer than 100 numbers.
    assert start <= found < start + 100


def test_a_number_below_the_current_one_changes_nothing():
    before = number()
    stablehlo.begin_at(before - 10)
    assert before < number() < before + 100
