"""State of a program: variables of a nest of tensors, wherever the program runs.

TensorFlow keeps every int32 variable in the machine's memory, also one that is created
for a GPU, and XLA refuses a program whose variables lie on two devices. So variables of
another device than the host hold integers as int64, and these are cast where they are
read and written. On the host, where that would cost memory and time, nothing is cast.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.devices import placement
from tfagents_batch.types import Nest


def kept(dtype: tf.DType) -> tf.DType:
    """Return the dtype of a variable for values of a dtype, on the device in force."""
    small = dtype in (tf.bool, tf.uint8)
    same = small or not dtype.is_integer or placement.on_host()
    return dtype if same else tf.int64


def variable(value: tf.Tensor) -> tf.Variable:
    """Return a variable that starts with a value, see ``kept``; its shape is fixed."""
    value = tf.convert_to_tensor(value)
    start = tf.cast(value, kept(value.dtype))
    return tf.Variable(start, trainable=False, shape=start.shape)


def pack(like: Nest, leaves: Sequence[tf.Tensor]) -> Nest:
    """Return a nest of what was read of variables, with the dtypes of ``like``."""
    specs = nest.flatten(like)
    values = [tf.cast(x, y.dtype) for x, y in zip(leaves, specs, strict=True)]
    return tf.nest.pack_sequence_as(like, values)


class NestVariables(tf.Module):
    """Variables of a nest, read and assigned as a whole; ``start`` has first values."""

    def __init__(self, start: Nest):
        super().__init__()
        start = nest.map(tf.convert_to_tensor, start)
        self._variables = [variable(x) for x in nest.flatten(start)]
        like = nest.specs_of(start)
        # A function: tf.Module would replace a nest by a wrapper of its own.
        self._like = lambda: like

    def read(self) -> Nest:
        """Return the values."""
        return pack(self._like(), [x.read_value() for x in self._variables])

    def assign(self, values: Nest) -> None:
        """Set the values, a nest like that of the start."""
        for x, value in zip(self._variables, nest.flatten(values), strict=True):
            x.assign(tf.cast(value, x.dtype))

    def named_variables(self) -> dict[str, tf.Variable]:
        """Return the variables by their number in the nest, ``"000"`` and so on."""
        return {f"{i:03d}": x for i, x in enumerate(self._variables)}
