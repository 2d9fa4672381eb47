"""Windows of steps as n-step transitions, for algorithms with a replay."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.ops import returns
from tfagents_batch.types import Nest, TimeStep, Trajectory


class Transition(NamedTuple):
    """Transition over up to n steps: y = reward + discount V(next)."""

    step: TimeStep  # at its beginning, [N, ...]
    action: Nest  # taken there
    reward: tf.Tensor  # f32 [N], discounted sum of the rewards
    discount: tf.Tensor  # f32 [N], product of the discounts; 0 if next is terminal
    next: TimeStep  # at its end, the n-th or the last one of the episode
    length: tf.Tensor  # int32 [N], number of steps
    mask: tf.Tensor  # bool [N], false where a window begins with no transition


def transition(
    trajectory: Trajectory, n: int, gamma: float, bonus: tf.Tensor | None = None
) -> Transition:
    """Return the transitions that windows begin with.

    Args:
      trajectory: windows of n + 1 steps or more, ``[T, N, ...]``.
      n, gamma: number of rewards, and discount factor.
      bonus: f32 ``[n, N]``, added to the rewards.
    """
    steps = trajectory.steps._replace(info={})
    mask, reward = trajectory.mask[:n], trajectory.reward[:n]
    reward = reward if bonus is None else reward + bonus
    discount = trajectory.discount(gamma)[:n]
    reward, discount, length = returns.n_step_sum(reward, discount, mask)
    first, last = nest.map(lambda x: x[0], steps), row(steps, length, n)
    action = nest.map(lambda x: x[0], trajectory.action)
    return Transition(first, action, reward, discount, last, length, mask[0])


def parts(trajectory: Trajectory, begin: int, count: int) -> Trajectory:
    """Return parts of windows ``[T, N, ...]``, which begin at ``count`` steps.

    Part ``i N + j`` of the result, ``[T - begin - count + 1, count N, ...]``, begins at
    step ``begin + i`` of window j and has its weight.
    """
    weight = trajectory.weight
    if tf.is_tensor(weight):
        weight = tf.tile(weight, [count])
    taken = trajectory.action, trajectory.behavior
    action, behavior = shifted(taken, begin, count)
    steps = shifted(trajectory.steps, begin, count)
    return Trajectory(steps, action, behavior, (), weight)


def shifted(nested: Nest, begin: int, count: int) -> Nest:
    """Return ``[T - begin - count + 1, count N, ...]`` as in ``parts``."""

    def leaf(x):
        rows = range(begin, nest.static_size(x) - count + 1)
        return tf.stack([nest.fold(x[row : row + count]) for row in rows])

    return nest.map(leaf, nested)


def row(nested: Nest, number: tf.Tensor, most: int) -> Nest:
    """Return row ``number[i]`` of each window ``[T, N, ...]``.

    Numbers, int32 ``[N]``, are from 0 to ``most``; rows of 0 are of no use if it is 1.
    """
    if most == 1:  # by far the most common: no gather
        return nest.map(lambda x: x[1], nested)
    batch = number.shape[0]
    return nest.gather(nest.fold(nested), number * batch + tf.range(batch))
