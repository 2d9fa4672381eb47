"""Settings that the built-in networks share; those of each network extend them."""

from __future__ import annotations

import dataclasses
from typing import Self

import keras

from tfagents_batch.config import check, option, unknown
from tfagents_batch.errors import UserError
from tfagents_batch.nn.encoder import CNN
from tfagents_batch.nn.layers import kernels

# Functions in keras.activations that are not elementwise activations.
_NOT_ACTIVATIONS = {"get", "serialize", "deserialize", "glu", "threshold"}
ACTIVATIONS = {
    name
    for name in dir(keras.activations)
    if not name.startswith("_") and name not in _NOT_ACTIVATIONS
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of hidden layers and of the CNN for images."""

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

        Args:
          path: prefix of the names in errors, such as "network.".

        Raises:
          UserError: for a setting that is invalid; names it.
        """
        settings = check(self, path)
        if settings.activation not in ACTIVATIONS:
            raise UserError(
                unknown(f"{path}activation", settings.activation, ACTIVATIONS)
            )
        return settings
