"""Forward passes of actor-critics, over transitions or through time.

A feed-forward network sees transitions by themselves; a recurrent one, and whatever is
cut into sequences, goes through time from a state (see ``ops.batches``). Evaluations
of a whole trajectory are in bounded memory, see ``ops.chunks``.
"""

from __future__ import annotations

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.interfaces import ActorCriticHeads, Network
from tfagents_batch.ops import batches, chunks, sequences
from tfagents_batch.ops.batches import Batch
from tfagents_batch.types import Nest, TimeStep


def heads(network: Network, batch: Batch) -> ActorCriticHeads:
    """Policy and value of a minibatch, transitions ``[N]`` or sequences ``[L, n]``."""
    if batch.sequential:
        return network.unroll(batch.steps, batch.state)[0]
    return network(batch.steps, ())[0]


def values(network: Network, steps: TimeStep, state: Nest) -> tf.Tensor:
    """Values f32 ``[T, B]`` of a trajectory's steps.

    Args:
      network: recurrent or not.
      steps: as the network sees them.
      state: of the network before the first step.
    """
    if not nest.flatten(state):
        value = chunks.apply(lambda rows: network(rows, ())[0].value, nest.fold(steps))
        return tf.reshape(value, steps.first.shape)

    def through(streams):
        steps, state = streams
        steps = sequences.swap(steps)
        return sequences.swap(network.unroll(steps, state)[0].value)

    streams = sequences.swap(steps), state
    return sequences.swap(chunks.apply(through, streams, steps=steps.first.shape[0]))


def divergence(
    network: Network, rows: Batch, valid: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """KL(behavior || policy) of every step of some rows, and which of them count.

    Args:
      network: of the policy.
      rows: transitions ``[N, ...]``, or sequences ``[N, L, ...]``.
      valid: bool ``[N]``, rows that count.

    Returns:
      f32 nats and bool: ``[N]``, or ``[L, N]`` of sequences.
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
