"""Weights of policies: their version, and copies from one policy to another."""

from __future__ import annotations

import tensorflow as tf

from tfagents_batch.interfaces import Policy


def new_version() -> tf.Variable:
    """Return the version of a policy that has seen no update."""
    return tf.Variable(0, dtype=tf.int64, trainable=False)


def assign(target: Policy, source: Policy) -> None:
    """Copy every variable of a policy, and its version."""
    mine, its = target.named_variables(), source.named_variables()
    for name, variable in mine.items():
        variable.assign(tf.convert_to_tensor(its[name]))
    target.version.assign(source.version)
