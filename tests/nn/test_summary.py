"""Histograms of weights and gradients."""

import pytest
import tensorflow as tf

from tests.algorithms import cases
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


@pytest.mark.parametrize("name", ["sac", "td3", "bc", "iql", "crr_discrete"])
def test_all_weights_of_an_actor_are_those_of_the_policy(name):
    agent = cases.make(name)
    found, size = agent.learner.histograms(), agent.network.count_params()
    assert found["histogram/weights_policy"].shape == (size,)
    assert found["histogram/gradient_policy"].shape == (size,)
