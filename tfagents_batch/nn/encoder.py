"""Encoder of observations of any supported space into one feature vector."""

from __future__ import annotations

from typing import Literal

import gymnasium
import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.errors import UserError
from tfagents_batch.nn.layers import blocks, impala

# GA3C's network and its larger ones, by the stride of the first convolution.
_STRIDES = {"ga3c": 4, "ga3c_stride3": 3, "ga3c_stride2": 2, "ga3c_stride1": 1}
ACTION_MASK = "action_mask"  # key in a Dict observation; it is not a feature
CNN = Literal["auto", "nature", "impala", "small", *_STRIDES]
WIDEST = 2**16  # largest range of an integer that is scaled by its bounds
NATURE = 36  # smallest side, in pixels, of an image for Mnih's network


def feature_space(space: gymnasium.Space) -> gymnasium.Space:
    """Return the observation space without its action mask."""
    if isinstance(space, gs.Dict) and ACTION_MASK in space.spaces:
        features = {k: v for k, v in space.spaces.items() if k != ACTION_MASK}
        if not features:
            raise UserError(
                f"the observation space has only {ACTION_MASK!r}; expected another "
                "key with features for the network"
            )
        return gs.Dict(features)
    return space


def is_image(space: gymnasium.Space) -> bool:
    """Return True for a uint8 Box of rank 3, or of rank 2 with 8 x 8 pixels or more."""
    if not isinstance(space, gs.Box) or space.dtype != np.uint8:
        return False
    return len(space.shape) == 3 or (len(space.shape) == 2 and min(space.shape) >= 8)


def is_grid(space: gymnasium.Space) -> bool:
    """Return True for planes of flags, a bool Box of rank 3, as in MinAtar."""
    return isinstance(space, gs.Box) and space.dtype == bool and len(space.shape) == 3


class Encoder(keras.layers.Layer):
    """Layer that encodes a nested observation ``[N, ...]`` as features ``[N, F]``.

    Images (uint8, channels first or last) are scaled to [0, 1], or as in GA3C to
    [-1, 1) for its networks, and go through a CNN.
    Planes of flags (bool of rank 3) go through it only if ``cnn`` is not "auto".
    Other integers are scaled to [0, 1] if their bounds are at most ``WIDEST`` apart.
    Discrete and MultiDiscrete become one-hot; everything else is flattened.
    The parts are concatenated.

    Args:
      space: observation space.
      cnn: network for images: Mnih's (nature), Espeholt's (impala), one layer (small),
        that of GA3C and its larger ones (ga3c, ga3c_stride3 to ga3c_stride1),
        or nature if the image is large enough for it and small otherwise (auto).

    Attributes:
      has_weights: True if a part has weights, that is, if there is an image.
    """

    def __init__(self, space: gymnasium.Space, cnn: CNN = "auto", **kwargs):
        super().__init__(dtype="float32", **kwargs)
        self.space = feature_space(space)
        self.parts = [_leaf_encoder(leaf, cnn) for leaf in spaces.leaves(self.space)]
        self.has_weights = any(isinstance(part, _Image) for part in self.parts)
        self.is_single_image = len(self.parts) == 1 and self.has_weights

    def build(self, _):
        for part, leaf in zip(self.parts, spaces.leaves(self.space), strict=True):
            part.build((None, *leaf.shape))

    def call(self, observation):
        leaves = spaces.flatten(self.space, observation)
        parts = [
            tf.cast(part(x), tf.float32)
            for part, x in zip(self.parts, leaves, strict=True)
        ]
        return parts[0] if len(parts) == 1 else tf.concat(parts, axis=1)


class _Flat(keras.layers.Layer):
    """Layer that flattens numbers ``[N, ...]`` to f32 ``[N, F]``."""

    def call(self, x):
        size = int(np.prod(x.shape[1:], dtype=int))
        return tf.reshape(tf.cast(x, tf.float32), [-1, size])


class _ScaledInteger(_Flat):
    """Layer that scales integers ``[N, ...]`` by their bounds, to f32 ``[N, F]``."""

    def __init__(self, low: np.ndarray, high: np.ndarray, **kwargs):
        super().__init__(**kwargs)
        self.low = low.astype(np.float32)
        self.range = np.maximum(high - low, 1).astype(np.float32)

    def call(self, x):
        return (super().call(x) - self.low) / self.range


class _Image(keras.layers.Layer):
    """CNN of uint8 images, ``[N, H, W, C]``, ``[N, C, H, W]`` or ``[N, H, W]``."""

    def __init__(self, shape: tuple[int, ...], cnn: CNN = "auto", **kwargs):
        super().__init__(**kwargs)
        self.channels_first = len(shape) == 3 and shape[0] < min(shape[1:])
        if len(shape) == 2:
            shape = (*shape, 1)
        self.pixels = (*shape[1:], shape[0]) if self.channels_first else shape
        side = min(self.pixels[:2])
        if side < 3:
            raise UserError(
                f"image observation of shape {shape} is smaller than 3 x 3 pixels; "
                "flatten it, or declare it as a float Box"
            )
        self.cnn = _cnn(cnn, shape, side)
        self.signed = cnn in _STRIDES

    def build(self, _):
        self.cnn.build((None, *self.pixels))

    def call(self, x):
        flags = x.dtype == tf.bool
        x = tf.cast(x, self.compute_dtype)
        if not flags:
            x = x / 128 - 1 if self.signed else x / 255
        if self.channels_first:
            x = tf.transpose(x, [0, 2, 3, 1])
        return self.cnn(tf.reshape(x, [-1, *self.pixels]))


def _cnn(name: CNN, shape: tuple[int, ...], side: int) -> keras.layers.Layer:
    if name == "auto":
        name = "nature" if side >= NATURE else "small"
    if name == "nature" and side < NATURE:
        raise UserError(
            f"network.cnn is nature, which needs images of {NATURE} x {NATURE} pixels "
            f"or more; this image has shape {shape}: use auto, small or impala"
        )
    if name in _STRIDES:
        return blocks.ga3c_cnn(_STRIDES[name])
    if name == "impala":
        return impala.ImpalaCNN()
    return blocks.nature_cnn() if name == "nature" else blocks.small_cnn()


def _leaf_encoder(leaf: spaces.Leaf, cnn: CNN) -> keras.layers.Layer:
    space = leaf.space
    if is_image(space) or (is_grid(space) and cnn != "auto"):
        return _Image(leaf.shape, cnn)
    if isinstance(space, gs.Discrete):
        return blocks.OneHot([space.n], [space.start], dtype="float32")
    if isinstance(space, gs.MultiDiscrete):
        sizes, starts = space.nvec.ravel(), space.start.ravel()
        return blocks.OneHot(sizes, starts, dtype="float32")
    return numbers(space)


def numbers(space: gymnasium.Space) -> keras.layers.Layer:
    """Return a layer that flattens numbers, and scales integers by their bounds."""
    if isinstance(space, gs.Box) and np.dtype(space.dtype).kind in "iu":
        low, high = (x.astype(np.float64).ravel() for x in (space.low, space.high))
        if np.all(high - low <= WIDEST):
            return _ScaledInteger(low, high, dtype="float32", name="numbers")
    return _Flat(dtype="float32", name="numbers")
