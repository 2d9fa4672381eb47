"""Histograms of weights and gradients."""

import tensorflow as tf

from tfagents_batch.nn import summary


def test_groups_are_chosen_by_the_paths_of_weights():
    paths = [
        *("net/towers/policy_tower/dense/kernel", "net/towers/value_core/gates"),
        *("net/towers/shared_tower/dense/kernel", "net/log_std", "policy/bias"),
    ]
    parts = [tf.constant(float(i)) for i in range(5)]
    found = summary.by_group("gradient", parts, paths)
    assert {name: list(x.numpy()) for name, x in found.items()} == {
        "histogram/gradient": [0, 1, 2, 3, 4],
        "histogram/gradient_policy": [0, 3, 4],
        "histogram/gradient_value": [1],
    }
    assert list(summary.by_group("gradient", parts[:1], ["dense/kernel"])) == [
        "histogram/gradient"
    ]
