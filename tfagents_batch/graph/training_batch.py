"""Batches and forward passes of actor-critics: transitions, or sequences of them.

Transitions are evaluated independently. Sequences are for recurrent networks, which
unroll them through time from a state: ``[T, B, ...]`` becomes ``[C, L, ...]`` with C =
B * ceil(T / L), where sequence k * B + b is part k of stream b. Sequences are the
leading axis, so minibatches are drawn as from single transitions; ``swap`` makes them
time-major for a network. A sequence may contain several episodes or parts of them:
``first`` marks the start of each. Whole trajectories are evaluated in chunks, in
bounded memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.graph import arrays
from tfagents_batch.interfaces import Network
from tfagents_batch.types import ActorCriticHeads, Nest, TimeStep

# Largest leaf of a chunk, in numbers; a convolution's output is about as large.
NUMBERS = 2**24
ROWS = 2**12
LAYER = 2**8  # numbers that a network computes for a small step


class Batch(NamedTuple):
    """Input of a loss, ``[T, B, ...]`` of a trajectory.

    It is cut into rows on the leading axis: transitions ``[N, ...]`` or sequences
    ``[N, L, ...]``. A minibatch of sequences is time-major again, ``[L, n, ...]``.

    Of sequences, it also has the state of a recurrent network before their first step.
    """

    steps: TimeStep  # as the network receives them
    action: Nest
    log_prob: tf.Tensor  # of the action under the behavior policy
    policy: dict[str, tf.Tensor]  # parameters of the behavior policy
    value: tf.Tensor  # before the update
    target: tf.Tensor  # of the value
    advantage: Nest = ()  # of the action; () in a batch for the log only
    mask: tf.Tensor | tuple = ()  # of sequences, bool: true for steps that count
    state: Nest = ()  # of sequences, [N, ...]

    @property
    def sequential(self) -> bool:
        """True if the rows are sequences."""
        return not isinstance(self.mask, tuple)

    @property
    def length(self) -> int:
        """Steps of a row ``[N, ...]``: L of sequences, 1 of transitions."""
        return 1 if isinstance(self.mask, tuple) else nest.static_size(self.mask, 1)


def rows(
    batch: Batch, mask: tf.Tensor, length: int | None, state: Nest = ()
) -> tuple[Batch, tf.Tensor]:
    """Return the rows for minibatches, and a mask of those that count, bool ``[N]``.

    A sequence counts if one of its steps does.

    Args:
      batch, mask: ``[T, B, ...]``.
      length: length of sequences, at most T; None for transitions.
      state: state of a recurrent network before each step, ``[T, B, ...]``.
    """
    if length is None:
        return nest.fold((batch, mask))
    length = min(length, nest.static_size(mask))
    parts = functools.partial(cut, length=length)
    rows = parts(batch._replace(policy=()))._replace(
        policy=parts(batch.policy, padding=1.0),  # the KL is not finite for a std of 0
        mask=parts(mask),
        state=starts(state, length),
    )
    return rows, tf.reduce_any(rows.mask, 1)


def minibatch(rows: Batch, taken: tf.Tensor) -> tuple[Batch, tf.Tensor]:
    """Return rows ``[n, ...]`` in the layout of a loss, and the mask of the loss.

    ``taken``, bool ``[n]`` or ``[]``, is true for the rows that count.
    """
    if not rows.sequential:
        return rows, taken
    state = rows.state
    rows = swap(rows._replace(state=()))
    return rows._replace(state=state), rows.mask & taken


def cut(x: Nest, length: int, padding: float = 0.0) -> Nest:
    """Cut ``[T, B, ...]`` leaves into ``[C, L, ...]``; L is ``length``.

    ``padding`` follows T in the last part of every stream; it is false in a mask. Give
    one that later operations accept, such as 1 for a standard deviation.
    """

    def leaf(x):
        time, batch, *rest = x.shape
        parts = -(-time // length)
        missing = parts * length - time
        if missing:
            fill = tf.fill([missing, batch, *rest], tf.cast(padding, x.dtype))
            x = tf.concat([x, fill], 0)
        x = tf.reshape(x, [parts, length, batch, *rest])
        x = tf.transpose(x, [0, 2, 1, *range(3, len(x.shape))])
        return tf.reshape(x, [parts * batch, length, *rest])

    return nest.map(leaf, x)


def starts(x: Nest, length: int) -> Nest:
    """Return the first entry of every sequence: ``[T, B, ...]`` to ``[C, ...]``."""
    return nest.fold(nest.map(lambda x: x[::length], x))


def swap(x: Nest) -> Nest:
    """Swap the two leading axes."""
    return nest.map(lambda x: tf.transpose(x, [1, 0, *range(2, len(x.shape))]), x)


def heads(network: Network, batch: Batch) -> ActorCriticHeads:
    """Return policy and value of transitions ``[N]`` or sequences ``[L, n]``."""
    if batch.sequential:
        return network.unroll(batch.steps, batch.state)[0]
    return network(batch.steps, ())[0]


def values(network: Network, steps: TimeStep, state: Nest) -> tf.Tensor:
    """Return the values of a trajectory's steps, f32 ``[T, B]``.

    Observations are normalized already. ``state`` is that of the network before the
    first step; ``()`` if it is feed-forward.
    """
    return _evaluate(lambda heads: heads.value, network, state, steps)


def log_probs(
    network: Network, steps: TimeStep, state: Nest, action: Nest
) -> tf.Tensor:
    """Return ln pi of actions ``[T, B, ...]``, f32 ``[T, B]``; see ``values``."""

    def log_prob(heads, action):
        return heads.policy.log_prob(action)

    return _evaluate(log_prob, network, state, steps, action)


def _evaluate(function, network: Network, state: Nest, steps: TimeStep, *more: Nest):
    """Return f32 ``[T, B]``, a function of the heads and of more rows ``[T, B]``."""
    if not nest.flatten(state):
        results = chunked(
            lambda rows: function(network(rows[0], ())[0], *rows[1:]),
            nest.fold((steps, *more)),
        )
        return tf.reshape(results, steps.first.shape)

    def unrolled(streams):
        rows, state = streams
        steps, *more = swap(rows)
        return swap(function(network.unroll(steps, state)[0], *more))

    streams = swap((steps, *more)), state
    return swap(chunked(unrolled, streams, steps=steps.first.shape[0]))


def divergence(
    network: Network, rows: Batch, valid: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return KL(behavior || policy) of every step of some rows, and their mask.

    Rows are transitions ``[N, ...]``, or sequences ``[N, L, ...]``; ``valid``, bool
    ``[N]``, is true for those that count. The results are f32 (nats) and bool, ``[N]``
    each; ``[L, N]`` for sequences.
    """
    unused = dict.fromkeys(("action", "log_prob", "advantage", "value", "target"), ())
    needed = rows._replace(**unused)

    def kl(rows):
        batch, _ = minibatch(rows, tf.constant(True))
        policy = heads(network, batch).policy
        kl = policy.with_params(batch.policy).kl(policy)
        return swap(kl) if rows.sequential else kl

    if not rows.sequential:
        return chunked(kl, needed), valid
    return swap((chunked(kl, needed, steps=rows.length), rows.mask))


def chunked(
    function: Callable[[Nest], tf.Tensor],
    rows: Nest,
    limit: int | None = None,
    steps: int | None = None,
) -> tf.Tensor:
    """Return ``function(rows)``, computed in bounded memory.

    Use it without gradients: a gradient would keep all chunks in memory.

    Args:
      function: function from a nest of ``[n, ...]`` to f32 ``[n]``, or ``[n, steps]``;
        it treats every row in the same way.
      rows: nest of ``[N, ...]``, of static shape.
      limit: rows per chunk; by default 4096, and fewer if a row is large (images).
      steps: length of a row that is a sequence. Chunks are then as large as memory
        allows, because each chunk takes a loop over all steps.
    """
    leaves = nest.flatten(rows)
    size = leaves[0].shape[0]
    limit = limit or _limit(leaves, steps)
    if size <= limit:
        return function(rows)
    count = -(-size // limit)
    width = -(-size // count)  # even chunks, so that few rows are computed twice
    shape = [] if steps is None else [steps]

    def chunk(index):
        row = tf.minimum(index * width + tf.range(width), size - 1)
        return function(nest.gather(rows, row))

    _, done = tf.while_loop(
        lambda index, _: index < count,
        lambda index, done: (index + 1, arrays.write(done, index, chunk(index))),
        (0, arrays.empty(count, tf.TensorSpec([width, *shape], tf.float32))),
        parallel_iterations=1,
        name="chunks",
    )
    return tf.reshape(arrays.stack(done), [-1, *shape])[:size]


def _limit(leaves: list[tf.Tensor], steps: int | None) -> int:
    largest = max(leaf.shape[1:].num_elements() for leaf in leaves)
    most = max(NUMBERS // max(largest, 1 if steps is None else LAYER * steps), 1)
    return min(ROWS, most) if steps is None else most
