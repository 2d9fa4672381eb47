"""Actions of several choices, whose values are branches of one network.

An action of a MultiDiscrete or MultiBinary space makes a choice in each of D branches.
A network has outputs for the choices of all branches, side by side, and the value of an
action is the mean over branches (Tavakoli et al. 2018, arXiv:1711.08946, eq. 5).

Losses and targets see a branch as a row of its own: N states with D branches are N D
rows of W choices each, the most of a branch. So they are those of Discrete actions,
which are one branch.
"""

from __future__ import annotations

import dataclasses
from functools import partial

import gymnasium
import numpy as np
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch.ops import masked


@dataclasses.dataclass(frozen=True, eq=False)
class Branches:
    """Branches of an action space; see ``of``.

    Shapes: N states, D branches, A choices of all branches, W of the largest one.

    Attributes:
      sizes: number of choices of each branch.
      shape: of one action; ``()`` for Discrete actions.
      start: first choices, int32 ``[*shape]``.
    """

    sizes: tuple[int, ...]
    shape: tuple[int, ...]
    start: np.ndarray

    @property
    def count(self) -> int:
        """Number of branches, D."""
        return len(self.sizes)

    @property
    def size(self) -> int:
        """Number of choices of all branches, A."""
        return sum(self.sizes)

    def rows(self, x: tf.Tensor) -> tf.Tensor:
        """Return ``[N, A, ...]`` as rows of branches, ``[N D, W, ...]``.

        Choices that a branch does not have are ``INVALID_LOGIT``, never the largest.
        """
        if self.count == 1:
            return x
        widest = max(self.sizes)
        if min(self.sizes) < widest:
            rest = [[0, 0]] * (x.shape.rank - 2)
            pad = partial(
                tf.pad, constant_values=tf.cast(masked.INVALID_LOGIT, x.dtype)
            )
            parts = tf.split(x, self.sizes, 1)
            ends = ([[0, 0], [0, widest - n], *rest] for n in self.sizes)
            x = tf.concat([pad(*pair) for pair in zip(parts, ends, strict=True)], 1)
        return tf.reshape(x, [-1, widest, *x.shape[2:]])

    def valid(self, mask: tf.Tensor | None) -> tf.Tensor | None:
        """Return the valid choices of rows, bool ``[N D, W]``; None if all are.

        ``mask``, bool ``[N, A]``, has those of states, or is None.
        """
        if mask is None or self.count == 1:
            return mask
        return self.rows(tf.cast(mask, tf.float32)) > 0

    def repeat(self, x: tf.Tensor) -> tf.Tensor:
        """Return a row for each branch, ``[N D, ...]``, of those of states."""
        return x if self.count == 1 else tf.repeat(x, self.count, 0)

    def together(self, x: tf.Tensor) -> tf.Tensor:
        """Return ``[N D, n]`` with all branches of a state in a row, ``[N, D n]``."""
        if self.count == 1:
            return x
        return tf.reshape(x, [-1, self.count * x.shape[-1]])

    def mean(self, x: tf.Tensor) -> tf.Tensor:
        """Return the mean over branches, f32 ``[N]``, of rows ``[N D]``."""
        if self.count == 1:
            return x
        return tf.reduce_mean(tf.reshape(x, [-1, self.count]), -1)

    def index(self, action: tf.Tensor) -> tf.Tensor:
        """Return the choices of actions ``[N, *shape]`` from 0, int32 ``[N D]``."""
        index = action - self.start
        return tf.reshape(index, [-1]) if self.shape else index

    def best(self, value: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
        """Return the actions of the largest values, int32 ``[N, *shape]``.

        Of each branch it is the valid choice of the largest value, f32 ``[N, A]``.
        ``mask`` is as in ``valid``; a branch without a valid choice is all valid.
        """
        choice = best(self.rows(value), self.valid(mask))
        if self.shape:
            choice = tf.reshape(choice, [-1, *self.shape])
        return choice + self.start

    def centered(self, x: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
        """Return f32 ``[N, A, n]`` less its mean over the valid choices of a branch.

        ``mask`` is as in ``best``.
        """
        # LiteRT does not split a bool.
        flags = tf.ones([1, self.size]) if mask is None else tf.cast(mask, tf.float32)
        if len({*self.sizes}) == 1:
            shape = [-1, self.count, self.sizes[0]]
            parts = tf.reshape(x, [*shape, x.shape[-1]])
            parts -= _mean(parts, tf.reshape(flags, shape))
            return tf.reshape(parts, [-1, *x.shape[1:]])
        cuts = (tf.split(each, self.sizes, 1) for each in (x, flags))
        pairs = zip(*cuts, strict=True)
        return tf.concat([part - _mean(part, valid) for part, valid in pairs], 1)


def _mean(x: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
    """Return the mean over valid choices, f32 ``[..., 1, n]`` of ``[..., W, n]``."""
    some = tf.reduce_any(valid > 0, -1, keepdims=True)
    share = tf.where(some, valid, tf.ones_like(valid))
    share = tf.expand_dims(share / tf.reduce_sum(share, -1, keepdims=True), -1)
    return tf.reduce_sum(x * share, -2, keepdims=True)


def best(value: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
    """Return the valid choice of the largest value, int32 ``[...]``.

    ``mask``, bool ``[..., A]``, has the valid choices; None if all are. A row without a
    valid choice counts as all valid.
    """
    value = value if mask is None else masked.logits(value, mask)
    return tf.argmax(value, -1, tf.int32)


def of(space: gymnasium.Space) -> Branches | None:
    """Return the branches of a space, or None if its actions are not whole numbers.

    Discrete is one branch, an entry of MultiDiscrete is one, and so is an entry of
    MultiBinary, with two choices.
    """
    if isinstance(space, gs.Discrete):
        return Branches((int(space.n),), (), np.asarray(space.start, np.int32))
    if isinstance(space, gs.MultiDiscrete):
        sizes = tuple(int(n) for n in space.nvec.ravel())
        return Branches(sizes, space.nvec.shape, space.start.astype(np.int32))
    if isinstance(space, gs.MultiBinary):
        shape = tuple(int(n) for n in space.shape)
        sizes = (2,) * int(np.prod(shape))
        return Branches(sizes, shape, np.zeros(shape, np.int32))
    return None
