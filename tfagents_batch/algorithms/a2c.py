"""Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), on whole batches.

Every update is one gradient step on everything that was collected, n steps of every
environment, with the advantages of n-step returns or GAE. If the policy that acted is
older than the one that learns, as with ``overlap``, V-trace corrects them
(Espeholt et al. 2018, arXiv:1802.01561).
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from tfagents_batch.algorithms.shared import advantages
from tfagents_batch.config import option
from tfagents_batch.interfaces import DefaultSource
from tfagents_batch.schedules import Constant, Schedule


@dataclasses.dataclass(frozen=True)
class Config(advantages.Settings):
    """Settings of A2C."""

    source: ClassVar[DefaultSource] = "rollout", {"length": 5}

    learning_rate: Schedule = option(Constant(7e-4), "step size", least=0)


class A2C(advantages.Learner):
    """A2C with an actor-critic network; satisfies ``interfaces.Algorithm``."""
