"""Critics: one network or several of action values, computed together."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.nn import networks
from tfagents_batch.nn.actor import Config, encoder_and_hidden
from tfagents_batch.nn.layers.ensemble import EnsembleMLP
from tfagents_batch.types import EnvSpec, TimeStep


class Critics(keras.Model):
    """K networks of action values: Q(s, a) of given actions, or of all actions.

    They share the encoder of observations, which has weights for images and in a user's
    network only; all other layers are their own.

    Args:
      spec: spec of the environments.
      config: shape of the networks.
      count: K.
      inputs: A, entries of an action that is an input; 0 for Q of all actions.
      outputs: number of actions if they are no input, else 1.
      network: the user's network of features, see ``actor.encoder_and_hidden``.

    Attributes:
      convolves: True if a convolution is among its operations.
    """

    def __init__(
        self,
        spec: EnvSpec,
        config: Config,
        count: int,
        inputs: int = 0,
        outputs: int = 1,
        network: Any = None,
    ):
        super().__init__(name="critics", dtype="float32")
        self.encoder, hidden = encoder_and_hidden(spec, config, network, critic=True)
        kind = config.activation, config.initializer
        self.towers = EnsembleMLP(count, hidden, outputs, *kind)
        step = nest.map(lambda x: x[0], networks.dummy_steps(spec))
        action = tf.zeros([step.first.shape[0], inputs]) if inputs else None
        self.call(step, action)  # creates the weights
        self.built = True
        self.convolves = networks.convolves(self, lambda x: self(x, action), step)

    def call(self, timestep: TimeStep, action=None, first: int | None = None):
        """Return Q, f32 ``[K, N]`` or, of all actions, ``[K, N, A]``.

        Args:
          timestep: ``[N, ...]``.
          action: f32 ``[N, A]``, scaled to [-1, 1]; None for Q of all actions. Of M
            actions in each state, ``[N, M, A]``, it returns Q, f32 ``[K, N, M]``.
          first: number of networks; None for all.
        """
        observation, _ = networks.split_mask(timestep.observation)
        features = tf.cast(self.encoder(observation, training=False), tf.float32)
        if action is None:
            return self.towers(features, first=first)
        if action.shape.rank == 3:
            q = self.towers(features, first=first, more=action)
            return tf.reshape(q, [-1, *action.shape[:2]])
        inputs = tf.concat([features, action], -1)
        return self.towers(inputs, first=first)[..., 0]
