"""Forward passes of actor-critics, over transitions or through time.

Transitions are evaluated independently; sequences are unrolled through time from a
state (see ``graph.batches``). Whole trajectories are evaluated in bounded memory, see
``graph.chunks``.
"""

from __future__ import annotations

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.graph import batches, chunks, sequences
from tfagents_batch.graph.batches import Batch
from tfagents_batch.interfaces import Network
from tfagents_batch.types import ActorCriticHeads, Nest, TimeStep


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
    return _evaluate(lambda heads: heads.value, network, state, steps)


def log_probs(
    network: Network, steps: TimeStep, state: Nest, action: Nest
) -> tf.Tensor:
    """Return ln pi of a trajectory's actions, f32 ``[T, B]``.

    Args:
      network, state: as of ``values``.
      steps: the T steps with actions, with normalized observations.
      action: nest of ``[T, B, ...]``.
    """

    def log_prob(heads, action):
        return heads.policy.log_prob(action)

    return _evaluate(log_prob, network, state, steps, action)


def _evaluate(function, network: Network, state: Nest, steps: TimeStep, *more: Nest):
    """Return f32 ``[T, B]``, a function of the heads and of more rows ``[T, B]``."""
    if not nest.flatten(state):
        found = chunks.apply(
            lambda rows: function(network(rows[0], ())[0], *rows[1:]),
            nest.fold((steps, *more)),
        )
        return tf.reshape(found, steps.first.shape)

    def unrolled(streams):
        rows, state = streams
        steps, *more = sequences.swap(rows)
        return sequences.swap(function(network.unroll(steps, state)[0], *more))

    streams = sequences.swap((steps, *more)), state
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
