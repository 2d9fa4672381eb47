"""Names of functions do not depend on what a process did before."""

from __future__ import annotations

import tensorflow as tf

from tfagents_batch.training.compilation import function_names


def number():
    @tf.function(autograph=False)
    def later():
        return tf.zeros([])

    name = later.get_concrete_function().name
    return int(name.decode().rsplit("_", 1)[1])


def test_names_go_on_alike_whatever_was_done_before():
    start = number() + 10_000
    function_names.begin_at(start)
    found = number()
    # As many as the function itself takes, however many there were before.
    assert start <= found < start + 100


def test_a_process_that_has_come_further_goes_on():
    before = number()
    function_names.begin_at(before - 10)
    assert before < number() < before + 100
