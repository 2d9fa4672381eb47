"""Forward passes of actor-critics, over transitions or through time.

Transitions are evaluated independently; sequences are unrolled through time from a
state (see ``ops.batches``). Whole trajectories are evaluated in bounded memory, see
``ops.chunks``.
"""

from __future__ import annotations

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.interfaces import ActorCriticHeads, Network
from tfagents_batch.ops import batches, chunks, sequences
from tfagents_batch.ops.batches import Batch
from tfagents_batch.types import Nest, TimeStep


def heads(network: Network, batch: Batch) -> ActorCriticHeads:
    """Return policy and value of transitions ``[N]`` or sequences ``[L, n]``."""
    if batch.sequential:
        return network.unroll(batch.steps, batch.state)[0]
    return network(batch.steps, ())[0]


def values(network: Network, steps: TimeStep, state: Nest) -> tf.Tensor:
    """Return the values of a trajectory's steps, f32 ``[T, B]``.

    Args:
      network: recurrent or feed-forward network.
      steps: steps with normalized observations.
      state: state of the network before the first step; ``()`` if feed-forward.
    """
    if not nest.flatten(state):
        value = chunks.apply(lambda rows: network(rows, ())[0].value, nest.fold(steps))
        return tf.reshape(value, steps.first.shape)

    def unrolled(streams):
        steps, state = streams
        steps = sequences.swap(steps)
        return sequences.swap(network.unroll(steps, state)[0].value)

    streams = sequences.swap(steps), state
    return sequences.swap(chunks.apply(unrolled, streams, steps=steps.first.shape[0]))


def divergence(
    network: Network, rows: Batch, valid: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return KL(behavior || policy) of every step of some rows, and their mask.

    Args:
      network: network of the policy.
      rows: transitions ``[N, ...]``, or sequences ``[N, L, ...]``.
      valid: bool ``[N]``, true for the rows that count.

    Returns:
      f32 (nats) and bool, ``[N]`` each; ``[L, N]`` for sequences.
    """
    unused = dict.fromkeys(("action", "log_prob", "advantage", "value", "target"), ())
    needed = rows._replace(**unused)

    def kl(rows):
        batch, _ = batches.minibatch(rows, tf.constant(True))
        policy = heads(network, batch).policy
        kl = policy.with_params(batch.policy).kl(policy)
        return sequences.swap(kl) if rows.sequential else kl

    if not rows.sequential:
        return chunks.apply(kl, needed), valid
    found = chunks.apply(kl, needed, steps=rows.length)
    return sequences.swap((found, rows.mask))
