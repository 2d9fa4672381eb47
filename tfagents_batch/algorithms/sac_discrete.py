"""SAC with Discrete actions (Christodoulou 2019, arXiv:1910.07207).

Expectations over actions are sums over all actions, so nothing is sampled.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from tfagents_batch.errors import UserError
from tfagents_batch.nn import actor, networks
from tfagents_batch.nn.critics import Critics
from tfagents_batch.nn.policies.softmax import Softmax
from tfagents_batch.ops import masked, td
from tfagents_batch.ops.windows import Transition
from tfagents_batch.types import Assessment, EnvSpec, TimeStep

_SHARE = 0.98  # of the largest entropy, as in the paper


def make_policy(config: Any, spec: EnvSpec, given: Any) -> Softmax:
    """Return a policy with variables of its own.

    Args:
      config: settings of SAC.
      spec: spec of the environments.
      given: the user's network, see ``sac.SAC``.

    Raises:
      UserError: if noise would be added to actions.
    """
    space = spec.action_space
    if config.exploration != "none":
        raise UserError(
            f"exploration is {config.exploration}, but the action space is {space}; "
            "noise is added to actions of a Box only, leave --algorithm.exploration out"
        )
    heads = {"logits": int(space.n)}
    network = actor.Actor(spec, config.network, heads, given)
    return Softmax(network, int(space.n), space.start, config.warmup())


def soft_value(policy: Softmax, critics: Critics, step: TimeStep) -> tuple:
    """Return sum_a pi(a | s) min_k Q_k(s, a) and sum_a pi(a | s) ln pi(a | s).

    Both are f32 ``[N]``.
    """
    _, valid = networks.split_mask(step.observation)
    log_prob = td.log_policy(policy.network(step)[0]["logits"], 1.0, valid)
    probability = tf.exp(log_prob)
    q = tf.reduce_min(critics(step), 0)
    if valid is not None:  # 0 times an infinite value or log would be NaN
        log_prob = masked.safe(log_prob, probability > 0)
    products = probability * q, probability * log_prob
    return tuple(tf.reduce_sum(x, -1) for x in products)


def values(
    policy: Softmax, critics: Critics, step: TimeStep, action: tf.Tensor
) -> tf.Tensor:
    """Return Q_k of actions, f32 ``[K, N]``."""
    taken = tf.one_hot(policy.index(action), policy.size)
    return tf.reduce_sum(critics(step) * taken, -1)


def assess(
    policy: Softmax, critics: Critics, batch: Transition, target: tf.Tensor
) -> Assessment:
    """Return the assessment of rows, see ``types.Assessment``."""
    _, valid = networks.split_mask(batch.step.observation)
    log_prob = td.log_policy(policy.network(batch.step)[0]["logits"], 1.0, valid)
    target = tf.where(batch.mask, target, float("nan"))
    return Assessment(tf.reduce_min(critics(batch.step), 0), target, tf.exp(log_prob))


def target_entropy(policy: Softmax, step: TimeStep) -> tf.Tensor | float:
    """Return 0.98 times the largest entropy, f32 ``[]``, or ``[N]`` with masks."""
    _, valid = networks.split_mask(step.observation)
    if valid is None:
        return _SHARE * math.log(policy.size)
    number = tf.reduce_sum(tf.cast(valid, tf.float32), -1)
    number = tf.where(number > 0, number, float(policy.size))
    return _SHARE * tf.math.log(number)
