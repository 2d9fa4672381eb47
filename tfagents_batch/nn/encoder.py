"""Encoder of observations of any supported space into one feature vector."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, Literal, Self

import gymnasium
import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import encoding, spaces
from tfagents_batch.config import check, option
from tfagents_batch.devices import machine
from tfagents_batch.errors import UserError
from tfagents_batch.nn.layers import blocks, impala, kernels
from tfagents_batch.settings.suggest import unknown
from tfagents_batch.types import EnvSpec

# GA3C's network and its larger ones, by the stride of the first convolution.
_STRIDES = {"ga3c": 4, "ga3c_stride3": 3, "ga3c_stride2": 2, "ga3c_stride1": 1}
ACTION_MASK = "action_mask"  # key in a Dict observation; it is not a feature
CNN = Literal[
    "auto",
    "nature",
    "impala",
    "small",
    "ga3c",
    "ga3c_stride3",
    "ga3c_stride2",
    "ga3c_stride1",
]
# Functions in keras.activations that are not elementwise activations.
_NOT_ACTIVATIONS = {"get", "serialize", "deserialize", "glu", "threshold"}
ACTIVATIONS = {
    name
    for name in dir(keras.activations)
    if not name.startswith("_") and name not in _NOT_ACTIVATIONS
}
PART = 0.8  # of the available memory that a layer may take
_WEIGHT_BYTES = 4 * 4  # float32: weight, gradient and the two moments of Adam
NATURE = 36  # smallest side, in pixels, of an image for Mnih's network


@dataclasses.dataclass(frozen=True)
class LayerSettings:
    """Settings of hidden layers and of the CNN for images."""

    USUAL: ClassVar[tuple[int, ...]]  # units of hidden layers behind a vector

    hidden: tuple[int, ...] | None = option(
        None, "units of the hidden layers; none: those of the network", least=1
    )
    activation: str = option("relu", "Keras activation of the hidden layers")
    initializer: kernels.Kind = option("orthogonal", "initializer of the kernels")
    cnn: CNN = option(
        "auto",
        "CNN for images; auto: small if a side has less than 36 pixels, else nature",
    )

    def check(self, path: str = "") -> Self:
        """Return the settings, each value converted to its declared type.

        Raises:
          UserError: for a setting that is invalid; names it, with ``path`` before it.
        """
        settings = check(self, path)
        if settings.activation not in ACTIVATIONS:
            raise UserError(
                unknown(f"{path}activation", settings.activation, ACTIVATIONS)
            )
        if settings.core != "none" and settings.hidden == ():
            raise UserError(
                f"{path}core is {settings.core} but {path}hidden is empty; add the "
                f"core's number of units to {path}hidden"
            )
        return settings

    # Only of networks that can have memory, such as ``networks.NetworkConfig``.
    core = "none"

    @property
    def units(self) -> tuple[int, ...]:
        """Units of the hidden layers behind a vector."""
        return self.hidden or self.USUAL


def check_mask(spec: EnvSpec, size: int) -> None:
    """Raise an error if the observation's mask of actions has not ``size`` entries."""
    space = spec.observation_space
    if not isinstance(space, gs.Dict) or ACTION_MASK not in space.spaces:
        return
    shape = space[ACTION_MASK].shape
    if shape != (size,):
        raise UserError(
            f"{ACTION_MASK} has shape {shape}; the action space {spec.action_space} "
            f"needs ({size},)"
        )


def refuse_mask(spec: EnvSpec) -> None:
    """Raise an error if the observation has a mask of actions that have none."""
    observed, space = spec.observation_space, spec.action_space
    if isinstance(observed, gs.Dict) and ACTION_MASK in observed.spaces:
        raise UserError(
            f"the observation has {ACTION_MASK!r}, but the action space is {space}: "
            "cannot mask actions; only Discrete and MultiDiscrete action spaces "
            f"support it; leave {ACTION_MASK!r} out"
        )


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


class Encoder(keras.layers.Layer):
    """Layer that encodes a nested observation ``[N, ...]`` as features ``[N, F]``.

    Each part is encoded by its kind, see ``encoding.kind``. Images and stacks of images
    are scaled from their bounds to [0, 1], or as in GA3C to [-1, 1) for its networks,
    and go through a CNN.
    Planes of flags (bool of rank 3 or 4) go through it only if ``cnn`` is not "auto".
    Integers that were not normalized are scaled from their bounds to [0, 1], if these
    are at most ``encoding.WIDEST`` apart.
    Discrete and MultiDiscrete become one-hot; everything else is flattened.
    The parts are concatenated.

    Args:
      space: observation space.
      cnn: network for images: Mnih's (nature), Espeholt's (impala), one layer (small),
        that of GA3C and its larger ones (ga3c, ga3c_stride3 to ga3c_stride1),
        or nature if the image is large enough for it and small otherwise (auto).

    Attributes:
      is_single_image: True if the observation is one image and nothing else.
    """

    def __init__(self, space: gymnasium.Space, cnn: CNN = "auto"):
        super().__init__(dtype="float32")
        self.space = feature_space(space)
        if spaces.is_empty(self.space):
            raise UserError(
                f"the observation space {space} has no numbers; expected at least one: "
                "give it another shape, or pass your own network"
            )
        self.parts = [_leaf_encoder(leaf, cnn) for leaf in spaces.leaves(self.space)]
        self.is_single_image = [type(part) for part in self.parts] == [_Image]

    def check_size(self, units: int) -> None:
        """Check that the largest layer on an observation fits into memory.

        ``units`` are those of all layers whose input is the encoder's output.

        Raises:
          UserError: names the part of the observation.
        """
        available = machine.available_bytes()
        for part, leaf in zip(self.parts, spaces.leaves(self.space), strict=True):
            inputs, outputs = encoding.features(leaf.space), units
            if isinstance(part, _Image):
                inputs, outputs = part.dense_size()
            needed = inputs * outputs * _WEIGHT_BYTES
            if available is not None and needed > PART * available:
                raise UserError(
                    f"{spaces.field(leaf.path)}, {leaf.space}, needs a layer of "
                    f"{inputs:,} inputs and {outputs} units, which is at least "
                    f"{machine.amount(needed)} with its gradient and its optimizer, "
                    f"but {machine.amount(available)} are available; expected at most "
                    f"{PART:.0%} of them: make the observation smaller, for example by "
                    "gymnasium.wrappers.ResizeObservation, or pass your own network"
                )

    def build(self, input_shape):
        for part, leaf in zip(self.parts, spaces.leaves(self.space), strict=True):
            part.build((None, *leaf.shape))

    def call(self, observation):
        leaves = spaces.flatten(self.space, observation)
        pairs = zip(self.parts, leaves, strict=True)
        parts = [tf.cast(part(x), tf.float32) for part, x in pairs]
        return parts[0] if len(parts) == 1 else tf.concat(parts, axis=1)


class _Flat(keras.layers.Layer):
    """Layer that flattens numbers ``[N, ...]`` to f32 ``[N, F]``."""

    def call(self, x):
        size = int(np.prod(x.shape[1:], dtype=int))
        return tf.reshape(tf.cast(x, tf.float32), [-1, size])


class _ScaledInteger(_Flat):
    """Layer that scales integers ``[N, ...]`` by their bounds, to f32 ``[N, F]``.

    Floats are numbers that were normalized; they are only flattened.
    """

    def __init__(self, low: np.ndarray, high: np.ndarray, **kwargs):
        super().__init__(**kwargs)
        self.low, self.range = low, np.maximum(high - low, 1).astype(np.float32)

    def call(self, x):
        if not x.dtype.is_floating:
            x = _offset(x, self.low) / self.range
        return super().call(x)


class _Image(keras.layers.Layer):
    """CNN of images or stacks of images, ``[N, ...]``; see ``encoding.rows_axis``."""

    def __init__(self, leaf: spaces.Leaf, cnn: CNN):
        super().__init__()
        shape = leaf.shape
        side = encoding.side(shape)
        if side < 3:
            raise UserError(
                f"image observation of shape {shape} is smaller than 3 x 3 pixels; "
                "flatten it, or declare it as a float Box"
            )
        axis = encoding.rows_axis(shape)
        channels = [i for i in range(len(shape)) if i not in (axis, axis + 1)]
        order = [axis, axis + 1, *channels]
        # Not transposed if the channels are last already.
        self.order = [0, *(i + 1 for i in order)] if order != sorted(order) else None
        count = math.prod(shape[i] for i in channels)
        self.pixels = (*shape[axis : axis + 2], count)
        self.cnn = _cnn(cnn, shape, side)
        self.low, self.range = None, 1.0
        if np.dtype(leaf.dtype).kind != "b":
            self.low, self.range = _scale(leaf.space, signed=cnn in _STRIDES)
        self.signed = cnn in _STRIDES and self.low is not None

    def dense_size(self) -> tuple[int, int]:
        """Return the inputs and units of the dense layer after the convolutions."""
        *before, dense = self.cnn.stack
        shape = (None, *self.pixels)
        for layer in before:
            shape = layer.compute_output_shape(shape)
        return math.prod(shape[1:]), dense.units

    def build(self, input_shape):
        self.cnn.build((None, *self.pixels))

    def call(self, x):
        # Every uint8 is exact in half precision; other numbers are scaled before.
        exact = x.dtype in (tf.uint8, tf.bool)
        x = tf.cast(x, self.compute_dtype) if exact else x
        if self.low is not None:
            x = x if exact and not np.any(self.low) else _offset(x, self.low)
            x = x / tf.cast(self.range, x.dtype)
        if self.signed:
            x = x - 1
        x = tf.cast(x, self.compute_dtype)
        if self.order is not None:
            x = tf.transpose(x, self.order)
        return self.cnn(tf.reshape(x, [-1, *self.pixels]))


def _scale(space: gs.Box, signed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return an offset and a divisor that scale an image to [0, 1], or to [0, 2).

    GA3C divides integers of 0 to 255 by 128.
    """
    low, high = (bound.astype(np.float64) for bound in (space.low, space.high))
    if encoding.bounds_are_alike(space):
        low, high = low.flat[0], high.flat[0]
    whole = np.dtype(space.dtype).kind in "iu"
    size = np.where(high > low, high - low, 1.0)
    size = (size + whole) / 2 if signed else size
    return low, size.astype(np.float32)


def _offset(x: tf.Tensor, low: np.ndarray) -> tf.Tensor:
    """Return ``x - low``, floats; exact for integers that float32 does not have."""
    small = x.dtype.is_floating or np.all(np.abs(low) < encoding.WIDEST)
    dtype = tf.float32 if small else tf.float64
    return tf.cast(tf.cast(x, dtype) - tf.cast(low, dtype), tf.float32)


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
    if encoding.is_image(space) or (encoding.is_planes(space) and cnn != "auto"):
        return _Image(leaf, cnn)
    if isinstance(space, gs.Discrete):
        return blocks.OneHot([space.n], [space.start], dtype="float32")
    if isinstance(space, gs.MultiDiscrete):
        sizes, starts = space.nvec.ravel(), space.start.ravel()
        return blocks.OneHot(sizes, starts, dtype="float32")
    return numbers(space)


def numbers(space: gymnasium.Space) -> keras.layers.Layer:
    """Return a layer that flattens numbers, and scales integers by their bounds."""
    whole = isinstance(space, gs.Box) and np.dtype(space.dtype).kind in "iu"
    if whole and encoding.has_scale(space):
        low, high = (x.astype(np.float64) for x in (space.low, space.high))
        return _ScaledInteger(low, high, dtype="float32", name="numbers")
    return _Flat(dtype="float32", name="numbers")
