"""Body of a network of action values: dueling towers, noisy layers, action features."""

from __future__ import annotations

import dataclasses

import keras
import tensorflow as tf

from tfagents_batch import nest, seeds
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.nn.layers import blocks, kernels
from tfagents_batch.nn.layers.noisy import NoisyDense
from tfagents_batch.nn.settings import Settings
from tfagents_batch.types import Nest

ACTION_FEATURES = "action_features"  # key in a Dict observation: a row for each action


@dataclasses.dataclass(frozen=True)
class Config(Settings):
    """Shape of a network of action values."""

    hidden: tuple[int, ...] | None = option(
        None,
        "units of the hidden layers; none: 128,128, or no layer after a CNN",
        least=1,
    )
    dueling: bool = option(
        False, "add a state value and advantages, each with its own hidden layers"
    )
    noisy: bool = option(
        False, "explore by noise in the weights of all layers but CNNs"
    )
    layer_norm: bool = option(
        False, "normalize the inputs of each hidden layer's activation (LayerNorm)"
    )

    def check(self, path: str = "") -> Config:
        """Return the checked settings; see ``Settings.check``."""
        if self.noisy and self.layer_norm:
            raise UserError(
                f"{path}noisy and {path}layer_norm are both true; use one of them"
            )
        return super().check(path)


class QBody(keras.Model):
    """Map observations ``[N, ...]`` to outputs of actions ``[N, A, n]``.

    Dueling networks (Wang et al. 2016, arXiv:1511.06581, eq. 9) add a state value and
    advantages: Q(s, a) = V(s) + A(s, a) - mean over valid actions of A(s, .).

    If actions have features, these are an input, and each action has one pass through
    the layers: Q(s, a) of any set of actions.

    Args:
      encoder: layer or model from observations to features ``[N, F]``.
      hidden: units of the hidden layers, of each tower if there are two.
      actions: A, number of actions.
      outputs: n, outputs of an action.
      config: activation, initializer, ``dueling`` and ``noisy``.
      action_encoder: layer that flattens ``ACTION_FEATURES`` ``[N, A, ...]`` of
        observations and scales integers; None if there are none.
    """

    def __init__(
        self,
        encoder,
        hidden: tuple[int, ...],
        actions: int,
        outputs: int,
        config: Config,
        action_encoder: keras.layers.Layer | None = None,
    ):
        super().__init__(name="q_network", dtype="float32")
        self.encoder, self.action_encoder = encoder, action_encoder
        self.actions, self.width = actions, outputs
        width = outputs * (actions if action_encoder is None else 1)
        sizes = {"q": width}
        if config.dueling:
            sizes = {"value": outputs, "advantage": width}
        self.towers = [_tower(hidden, n, config, name) for name, n in sizes.items()]

    def build(self, observation_shape):
        """Leave it to the first call, which Keras would otherwise trace before."""

    def call(self, observation, valid=None, noise=()):
        if self.action_encoder is None:
            features = rows = self.encoder(observation)
        else:
            rest = {k: v for k, v in observation.items() if k != ACTION_FEATURES}
            features = self.encoder(rest)
            by_action = self.action_encoder(observation[ACTION_FEATURES])
            by_action = tf.reshape(by_action, [-1, by_action.shape[1] // self.actions])
            rows = tf.concat([tf.repeat(features, self.actions, 0), by_action], -1)
        noise = noise or [()] * len(self.towers)
        shape = [-1, self.actions, self.width]
        last = tf.reshape(self.towers[-1](rows, self._per_action(noise[-1])), shape)
        if len(self.towers) == 1:
            return last
        value = self.towers[0](features, noise[0])[:, tf.newaxis]
        return value + last - _mean_over_actions(last, valid)

    def noise(self, shape, key: tf.Tensor) -> Nest:
        """Draw the noise of layers that are noisy, see ``QNetwork.noise``."""
        keys = seeds.split(key, len(self.towers))
        pairs = zip(self.towers, keys, strict=True)
        return tuple(tower.noise(shape, key) for tower, key in pairs)

    def _per_action(self, noise: Nest) -> Nest:
        """Repeat noise of rows for all actions of a row; one row is for all."""
        if self.action_encoder is None:
            return noise
        return nest.map(
            lambda x: x if x.shape[0] == 1 else tf.repeat(x, self.actions, 0), noise
        )


class _Tower(blocks.Stack):
    """Hidden layers and a linear head, ``[N, F] -> [N, units]``; maybe all noisy."""

    def __init__(self, layers: list, noisy: bool, **kwargs):
        super().__init__(layers, **kwargs)
        self.noisy = noisy

    def call(self, x, noise=()):
        if not noise:
            return super().call(x)
        for layer, layer_noise in zip(self.stack, noise, strict=True):
            x = layer(x, layer_noise)
        return x

    def noise(self, shape, key: tf.Tensor) -> Nest:
        keys = seeds.split(key, len(self.stack))
        pairs = zip(self.stack, keys, strict=True)
        return tuple(layer.noise(shape, key) for layer, key in pairs)


def _tower(hidden: tuple[int, ...], units: int, config: Config, name: str) -> _Tower:
    kind, activation = config.initializer, config.activation
    if config.noisy:
        layers = [
            NoisyDense(int(size), activation, kernel_initializer=kernels.hidden(kind))
            for size in hidden
        ]
        head = NoisyDense(units, kernel_initializer=kernels.value(kind), name=name)
    else:
        norm = config.layer_norm
        layers = blocks.mlp(hidden, activation, kind, name, norm).stack
        head = blocks.Head(units, kernels.value(kind), name)
    return _Tower([*layers, head], config.noisy, name=f"{name}_tower", dtype="float32")


def _mean_over_actions(advantage: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
    """Return the mean over valid actions, f32 ``[N, 1, n]`` of ``[N, A, n]``."""
    if mask is None:
        return tf.reduce_mean(advantage, 1, keepdims=True)
    mask = mask | ~tf.reduce_any(mask, -1, keepdims=True)
    share = tf.cast(mask, tf.float32)
    share /= tf.reduce_sum(share, -1, keepdims=True)
    return tf.reduce_sum(advantage * share[..., tf.newaxis], 1, keepdims=True)
