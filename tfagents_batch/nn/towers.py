"""Bodies of actor-critics: an encoder, a policy tower and a value tower."""

from __future__ import annotations

from typing import Literal

import keras
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.nn import recurrent
from tfagents_batch.nn.layers import blocks, kernels
from tfagents_batch.types import Nest

Mean = Literal["linear", "tanh"]
ValueCore = Literal["own", "shared", "none"]
POLICY_SCALE = 0.01  # policies start near uniform (Andrychowicz et al. 2021, sec. 3.2)


class Towers(keras.Model):
    """Model from observations ``[N, ...]`` to ``{"policy": [N, A], "value": [N]}``.

    The two towers share one encoder, and so its weights (for images); they share
    nothing else.

    Args:
      encoder: layer or model, observation to features ``[N, F]``.
      hidden: units of each tower's layers.
      activation: activation of the hidden layers.
      size: A, number of outputs that the policy needs.
      initializer: initializer of the towers' kernels.
      policy_scale: scale of the policy head's kernel, see ``kernels.policy``.
      mean: "tanh" keeps the policy's outputs within -1 and 1.
    """

    def __init__(
        self,
        encoder,
        hidden: tuple[int, ...],
        activation: str,
        size: int,
        initializer: kernels.Kind = "orthogonal",
        policy_scale: float = POLICY_SCALE,
        mean: Mean = "linear",
    ):
        super().__init__(name="towers", dtype="float32")
        self.encoder = encoder
        self.policy_tower, self.value_tower = (
            blocks.mlp(hidden, activation, initializer, name)
            for name in ("policy_tower", "value_tower")
        )
        self.policy_head, self.value_head = _heads(size, initializer, policy_scale)
        self.mean = mean

    def build(self, observation_shape):
        """Leave it to the first call, which Keras would otherwise trace before."""

    def call(self, observation):
        features = self.encoder(observation)
        policy = self.policy_head(self.policy_tower(features))
        value = self.value_head(self.value_tower(features))
        return _outputs(policy, value, self.mean)


class RecurrentTowers(keras.layers.Layer):
    """Towers with a recurrent core as their last hidden layer.

    The value has its own core, shares the policy's ("shared": all layers but the heads
    are shared), or has no core ("none": its tower is feed-forward with the same sizes).

    The state is a tuple: the state of the policy's core and, with "own", of the
    value's.

    Args:
      encoder, activation, size, initializer, policy_scale, mean: see ``Towers``.
      hidden: units of each tower's layers; the last is the core's.
      core: key in ``recurrent.CELLS``.
      value_core: "own", "shared" or "none", see above.
    """

    def __init__(
        self,
        encoder,
        hidden: tuple[int, ...],
        activation: str,
        size: int,
        core: str,
        value_core: ValueCore,
        initializer: kernels.Kind = "orthogonal",
        policy_scale: float = POLICY_SCALE,
        mean: Mean = "linear",
    ):
        super().__init__(name="towers", dtype="float32")
        *before, units = hidden
        cell = recurrent.CELLS[core]
        tower = "shared" if value_core == "shared" else "policy"
        self.encoder = encoder
        name = f"{tower}_tower"
        self.policy_tower = blocks.mlp(before, activation, initializer, name)
        self.cores = [cell(units, initializer, name=f"{tower}_core")]
        self.value_tower = None
        if value_core != "shared":
            sizes = before if value_core == "own" else hidden
            name = "value_tower"
            self.value_tower = blocks.mlp(sizes, activation, initializer, name)
        if value_core == "own":
            self.cores.append(cell(units, initializer, name="value_core"))
        self.policy_head, self.value_head = _heads(size, initializer, policy_scale)
        self.mean = mean

    def initial_state(self, batch: int) -> Nest:
        return recurrent.initial_state(self.cores, batch)

    def step(self, observation: Nest, first: tf.Tensor, state: Nest):
        """Return the outputs of one step ``[B, ...]``, and the next state."""
        features = self.encoder(observation)
        inputs = self._inputs(features)
        outputs, state = recurrent.step(self.cores, inputs, first, state)
        return self._heads(features, outputs), state

    def unroll(self, observation: Nest, first: tf.Tensor, state: Nest):
        """Return outputs of steps ``[T, B, ...]``, and the state after all steps."""
        time, batch = first.shape
        features = self.encoder(nest.fold(observation))
        inputs = nest.unfold(self._inputs(features), time, batch)
        outputs, state = recurrent.unroll(self.cores, inputs, first, state)
        heads = self._heads(features, nest.fold(outputs))
        return nest.unfold(heads, time, batch), state

    def _inputs(self, features: tf.Tensor) -> list[tf.Tensor]:
        """Return each core's pre-activations of its inputs, ``[N, n]``."""
        towers = [self.policy_tower, self.value_tower]
        pairs = zip(self.cores, towers, strict=False)
        return [core(tower(features)) for core, tower in pairs]

    def _heads(self, features: tf.Tensor, outputs) -> dict[str, tf.Tensor]:
        """Return policy and value from the cores' outputs, ``[N, units]`` each."""
        value = outputs[-1]  # the output of the value's own or of the shared core
        if self.value_tower is not None and len(self.cores) == 1:
            value = self.value_tower(features)
        policy = self.policy_head(outputs[0])
        return _outputs(policy, self.value_head(value), self.mean)


def _heads(size: int, initializer: kernels.Kind, policy_scale: float):
    kernel = kernels.policy(initializer, policy_scale)
    policy = blocks.Head(size, kernel, name="policy")
    return policy, blocks.Head(1, kernels.value(initializer), name="value")


def _outputs(policy: tf.Tensor, value: tf.Tensor, mean: Mean) -> dict[str, tf.Tensor]:
    policy = tf.tanh(policy) if mean == "tanh" else policy
    return {"policy": policy, "value": tf.squeeze(value, -1)}
