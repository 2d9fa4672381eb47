"""Encoders with a recurrent core, which networks of action values and actors have.

A network calls its encoder for one step with a state, as an actor does. An update
unrolls the encoder once over whole windows; the network then gets steps whose
observations are ``Remembered``, and treats every row alone.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.nn import networks, recurrent
from tfagents_batch.nn.layers import blocks
from tfagents_batch.types import Nest, Remembered, TimeStep


class RecurrentEncoder(keras.layers.Layer):
    """Encoder, dense layers and a recurrent core, in this order.

    Args:
      encoder: layer or model from observations ``[N, ...]`` to features ``[N, F]``.
      hidden: units of the dense layers.
      units: units of the core.
      config: ``LayerSettings`` with a core, which say whether the dense layers are
        normalized or residual blocks.
      ignored: key of a Dict observation that is no input, or "".
    """

    def __init__(
        self,
        encoder: Any,
        hidden: tuple[int, ...],
        units: int,
        config: Any,
        ignored: str = "",
    ):
        super().__init__(name="recurrent_encoder", dtype="float32")
        self.encoder, self._ignored = encoder, ignored
        kind = config.initializer
        self.tower = blocks.body(config, hidden, "before_core")
        self.core = recurrent.CELLS[config.core](units, kind, name="core")

    def initial_state(self, batch: int | tf.Tensor) -> Nest:
        """Return the state of ``batch`` rows at the start, a tuple of one cell's."""
        return recurrent.initial_state([self.core], batch)

    def step(self, timestep: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        """Return ``[N, ...]`` steps as they are remembered, and the next state.

        Steps that are remembered already are returned as they are.
        """
        observation = timestep.observation
        if isinstance(observation, Remembered):
            return timestep, state
        inputs = self._inputs(observation)
        state = state or self.initial_state(nest.size(timestep.first))
        (features,), state = recurrent.step(
            [self.core], [inputs], timestep.first, state
        )
        return timestep._replace(observation=Remembered(features, observation)), state

    def unroll(self, steps: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        """Return ``[T, B, ...]`` steps as they are remembered, and the last state."""
        inputs = nest.batch_apply(self._inputs, steps.observation)
        (features,), state = recurrent.unroll([self.core], [inputs], steps.first, state)
        remembered = Remembered(features, steps.observation)
        return steps._replace(observation=remembered), state

    def _inputs(self, observation: Nest) -> tf.Tensor:
        """Return the pre-activations of the core's inputs, ``[N, n]``."""
        observation, _ = networks.split_mask(observation)
        if self._ignored:
            observation = {k: x for k, x in observation.items() if k != self._ignored}
        features = self.encoder(observation, training=False)
        return self.core(self.tower(tf.cast(features, tf.float32)))


def with_core(
    encoder: Any,
    hidden: tuple[int, ...],
    config: Any,
    joined: bool = False,
    ignored: str = "",
) -> tuple[Any, tuple[int, ...]]:
    """Return the encoder of a network and the hidden layers that follow it.

    With a core, it takes the place of the last hidden layer; but if other inputs, such
    as actions, are ``joined`` to its outputs, all hidden layers follow it.

    Args:
      encoder, hidden, config, ignored: as of ``RecurrentEncoder``. Without hidden
        layers, the core has as many units as the last one that ``config`` names.
      joined: see above.
    """
    if config.core == "none":
        return encoder, hidden
    units = (hidden or config.units)[-1]
    before, after = ((), hidden) if joined else (hidden[:-1], ())
    return RecurrentEncoder(encoder, before, units, config, ignored), after


def of(network: Any) -> RecurrentEncoder | None:
    """Return the recurrent encoder of a network; None if it has no memory."""
    encoder = getattr(network, "encoder", None)
    return encoder if isinstance(encoder, RecurrentEncoder) else None


def remembered(network: Any, timestep: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
    """Return steps ``[N, ...]`` as a network remembers them, and its next state.

    Without memory, both are as they were.
    """
    encoder = of(network)
    return (timestep, state) if encoder is None else encoder.step(timestep, state)
