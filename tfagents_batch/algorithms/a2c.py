"""Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), on whole batches.

Every update is one gradient step on everything that was collected, n steps of every
environment, with the advantages of n-step returns or GAE. If the policy that acted is
older than the one that learns, as with ``overlap``, V-trace corrects them
(Espeholt et al. 2018, arXiv:1802.01561).
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.algorithms.shared import advantages
from tfagents_batch.algorithms.shared.single_step import Rows, SingleStep, Surrogate
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.schedules import Constant, Schedule
from tfagents_batch.types import EnvSpec


@dataclasses.dataclass(frozen=True)
class Config(advantages.Settings):
    """Settings of A2C."""

    SOURCE: ClassVar[dict[str, Any]] = {"length": 5}  # defaults of its source

    learning_rate: Schedule = option(Constant(7e-4), "step size", least=0)


class A2C(SingleStep):
    """A2C with an actor-critic network; satisfies ``interfaces.Algorithm``.

    Raises:
      UserError: if a bound of probabilities is asked for, but actions have densities.
    """

    def __init__(self, config: Config, spec: EnvSpec, network=None):
        super().__init__(config, spec, network)
        space = spec.action_space
        dense = any(isinstance(x.space, gs.Box) for x in spaces.leaves(space))
        if self.config.correction == "log_floor" and dense:
            raise UserError(
                f"correction is log_floor, but the action space is {space}; densities "
                "of several numbers are below 1e-6 without being unlikely, use vtrace"
            )

    def surrogate(self, rows: Rows) -> Surrogate:
        """Return the loss of the policy, see ``shared/advantages.py``."""
        return advantages.surrogate(self.config, rows)
