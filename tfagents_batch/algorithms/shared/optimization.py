"""Settings of gradient steps, which all algorithms have."""

from __future__ import annotations

import dataclasses
from typing import Self

from tfagents_batch import config
from tfagents_batch.config import number, option
from tfagents_batch.nn.optimizer import Rule
from tfagents_batch.schedules import Constant, Schedule


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of gradient steps on a network, whose shape is ``network``."""

    learning_rate: Schedule = number(
        Constant(3e-4), "learning rate of the optimizer", least=0, group="optimizer"
    )
    optimizer: Rule = option(
        "adam",
        "adam, rmsprop as in PyTorch, or rmsprop_tf as in TensorFlow 1",
        group="optimizer",
    )
    optimizer_epsilon: float = number(
        1e-8, "epsilon of the optimizer", above=0, group="optimizer"
    )
    max_gradient_norm: float | None = number(
        None,
        "largest global norm of the gradient; none: any",
        above=0,
        group="optimizer",
    )

    def check(self) -> Self:
        """Return the settings, each value converted to its declared type.

        Raises:
          UserError: for a setting that is invalid; names it.
        """
        checked = config.check(self)
        return dataclasses.replace(checked, network=checked.network.check("network."))
