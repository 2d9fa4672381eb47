"""Frame stacks: store the newest frame only, rebuild stacks from the rows before.

An observation is a stack of the newest ``size`` frames, the oldest one first: on a new
first axis (Gymnasium's FrameStackObservation) or as channels of the last axis (our
Atari preprocessing). Before an episode's start its first frame is repeated.

At a break the inner source goes on elsewhere, so two stored steps do not follow. After
a void collect, and before the first one, the first step of the next collect follows no
stored step. It is marked as ``first``, so that the mask of the transition into it is
false. A stack of frames cannot be rebuilt there either, until as many rows are stored
or an episode opens: such rows are marked as failed (``first`` and ``truncated`` at
once), and the masks of all transitions at them are false.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.errors import UserError
from tfagents_batch.types import Nest, TimeStep

# Integers of as many bytes; the first frame is their lowest byte, which is also the
# first one in memory.
_WORDS = {2: tf.uint16, 4: tf.uint32, 8: tf.uint64}


class Frames(NamedTuple):
    """Leaves of the observation that are frame stacks."""

    size: int  # frames of a stack, at least 2
    # For each leaf the axis of its frames, 0 or -1; None if it is no stack
    axes: tuple[int | None, ...]

    def newest(self, observation: Nest) -> Nest:
        """Return ``[T, B, ...]`` tensors or specs of the newest frame of each stack."""
        return self._map(
            lambda x, axis: self._frame(x, axis, self.size - 1), observation
        )

    def rebuild(self, observation: Nest, steps: TimeStep) -> Nest:
        """Return the stacks, nest of ``[window, N, ...]``.

        Args:
          observation: nest of ``[stack - 1 + window, N, ...]`` newest frames.
          steps: flags of the same rows.
        """
        opened = opens(steps)
        before = self.size - 1
        window = nest.static_size(opened) - before

        def leaf(x, axis):
            if axis is None:
                return x[before:]
            frames = [x[before:]]
            begun = tf.zeros_like(opened[before:])
            for back in range(1, self.size):
                row = before - back
                begun |= opened[row + 1 : row + 1 + window]
                older = x[row : row + window]
                frames.insert(0, nest.where(begun, frames[0], older))
            return tf.stack(frames, 2) if axis == 0 else _channels(frames)

        return self._map(leaf, observation)

    def consistent(self, steps: TimeStep) -> tf.Tensor:
        """Return bool ``[]``: whether all ``[k+1, B, ...]`` steps have such stacks."""
        opened, follows = opens(steps), ~steps.first[1:]
        checks = []
        for x, axis in zip(nest.flatten(steps.observation), self.axes, strict=True):
            if axis is None:
                continue
            frames = [self._frame(x, axis, i) for i in range(self.size)]
            for older, newer in itertools.pairwise(frames):
                checks.append(~opened | _equal(older, frames[-1]))
                checks.append(~follows | _equal(older[1:], newer[:-1]))
        return tf.reduce_all(tf.stack([tf.reduce_all(x) for x in checks]))

    def _frame(self, x: Any, axis: int | None, index: int) -> Any:
        """Return frame ``index`` of ``[T, B, ...]``."""
        if axis is None:
            return x
        shape = list(x.shape)
        if axis == 0:
            cut = (..., index, *[slice(None)] * (len(shape) - 3))
            shape = [*shape[:2], *shape[3:]]
        else:
            width = shape[-1] = shape[-1] // self.size
            cut = (..., slice(index * width, (index + 1) * width))
        return tf.TensorSpec(shape, x.dtype) if isinstance(x, tf.TensorSpec) else x[cut]

    def _map(self, function, observation: Nest) -> Nest:
        leaves = nest.flatten(observation)
        mapped = [function(x, axis) for x, axis in zip(leaves, self.axes, strict=True)]
        return tf.nest.pack_sequence_as(observation, mapped)


def find(observation: Nest, size: int | None) -> Frames | None:
    """Return the stacks of an observation, ``[T, B, ...]`` specs; None if ``size`` is.

    A stack is an image (uint8 of rank 2 or more), or the only leaf. UserError if a
    shape is not that of a stack.
    """
    if size is None:
        return None
    leaves = nest.flatten(observation)
    axes = []
    for x in leaves:
        shape = list(x.shape[2:])
        image = x.dtype == tf.uint8 and len(shape) >= 2
        axis = None
        if image or len(leaves) == 1:
            if len(shape) >= 2 and shape[0] == size:
                axis = 0
            elif shape and shape[-1] % size == 0:
                axis = -1
            else:
                raise UserError(
                    f"stack is {size}, but observations have shape {shape}; expected "
                    f"{size} frames on the first axis or as channels of the last; set "
                    "stack to the number of stacked frames, or to none"
                )
        axes.append(axis)
    if all(axis is None for axis in axes):
        raise UserError(
            f"stack is {size}, but no part of the observation is an image; expected "
            "uint8 of rank 2 or more; set stack to none"
        )
    return Frames(size, tuple(axes))


def opens(steps: TimeStep) -> tf.Tensor:
    """Return bool ``[T, B]``: true where a step opens an episode and did not fail."""
    return steps.first & ~steps.last


def _channels(frames: list[tf.Tensor]) -> tf.Tensor:
    """Join frames on the last axis.

    Single bytes become the bytes of a larger integer, which vector instructions can
    compute; a concatenation along the last axis copies byte by byte.
    """
    word = _WORDS.get(len(frames))
    if frames[0].dtype != tf.uint8 or frames[0].shape[-1] != 1 or word is None:
        return tf.concat(frames, -1)
    joined = tf.zeros([], word)
    for place, frame in enumerate(frames):
        joined |= tf.bitwise.left_shift(
            tf.cast(frame, word), tf.constant(8 * place, word)
        )
    return tf.bitcast(tf.squeeze(joined, -1), tf.uint8)


def _equal(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Return bool ``[T, B]``: whether rows ``[T, B, ...]`` are equal."""
    same = tf.reshape(x == y, [*x.shape[:2], x.shape[2:].num_elements()])
    return tf.reduce_all(same, -1)


class Break(NamedTuple):
    """State of a break."""

    broken: tf.Tensor  # bool [], the next collect's first step follows no stored step
    missing: tf.Tensor  # int32 [B], number of next rows whose stack cannot be rebuilt


def broken(batch: int, stack: int) -> Break:
    """Return the state directly after a break."""
    return Break(tf.constant(True), tf.fill([batch], stack - 1))


def mark(steps: TimeStep, state: Break, stack: int) -> tuple[TimeStep, Break]:
    """Return the marked steps of a collect, and the state after them.

    Args:
      steps: of ``[k+1, B, ...]``; the last one is the first of the next collect.
      state: state before.
      stack: frames of an observation, 1 if frames are not stacked.
    """
    opened, missing = opens(steps), state.missing
    size = nest.static_size(opened)
    failed = []
    for t in range(min(size, stack - 1)):
        missing = tf.where(opened[t], 0, missing)
        failed.append(missing > 0)
        if t < size - 1:
            missing = tf.maximum(missing - 1, 0)
    start = tf.range(size)[:, tf.newaxis] == 0
    first = steps.first | (start & state.broken)
    after = Break(tf.constant(False), missing)
    if not failed:
        return steps._replace(first=first), after
    failed = tf.pad(tf.stack(failed), [[0, size - len(failed)], [0, 0]])
    marked = steps._replace(first=first | failed, truncated=steps.truncated | failed)
    return marked, after
