"""Action values, and which actions are likely enough in logged data to be trusted."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfagents_batch.nn import networks
from tfagents_batch.nn.actor import Actor
from tfagents_batch.nn.q_network import QNetwork
from tfagents_batch.ops import td
from tfagents_batch.types import ActionValueHeads, Nest, TimeStep


class Imitated(keras.Model):
    """Action values with an imitator of the policy that was logged.

    Action a is allowed if mu(a | s) >= threshold max_b mu(b | s), where mu are the
    imitator's probabilities of the valid actions (Fujimoto et al. 2019,
    arXiv:1910.01708, eq. 3). The most likely action is always allowed.

    Args:
      values: network of action values, without noise.
      imitator: actor with the output ``logits``.
      threshold: from 0, all actions, to 1, the most likely one; a number or a variable.

    Attributes:
      size: A, number of actions.
      noisy: False.
      convolves: True if a convolution is among its operations.
    """

    noisy = False

    def __init__(self, values: QNetwork, imitator: Actor, threshold: Any):
        super().__init__(name="imitated", dtype="float32")
        self.values, self.imitator = values, imitator
        self._threshold = lambda: threshold
        self.size = values.size
        self.convolves = values.convolves or imitator.convolves
        self.built = True

    def noise(self, shape, key: tf.Tensor) -> Nest:
        """Return no noise."""
        del shape, key
        return ()

    def call(self, timestep: TimeStep, state: Nest = (), noise: Nest = ()):
        heads: ActionValueHeads = self.values(timestep, (), noise)[0]
        return heads._replace(allowed=self.allowed(self.log_mu(timestep))), state

    def allowed(self, log_mu: tf.Tensor) -> tf.Tensor:
        """Return which actions are allowed, bool ``[N, A]``."""
        least = tf.math.log(tf.convert_to_tensor(self._threshold()))
        return log_mu - tf.reduce_max(log_mu, -1, keepdims=True) >= least

    def log_mu(self, timestep: TimeStep) -> tf.Tensor:
        """Return ln mu(a | s), f32 ``[N, A]``; very small for invalid actions."""
        _, valid = networks.split_mask(timestep.observation)
        return td.log_policy(self.imitator(timestep)[0]["logits"], 1.0, valid)
