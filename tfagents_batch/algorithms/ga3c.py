"""GA3C (Babaeizadeh et al. 2017, arXiv:1611.06256): asynchronous actor-critic.

Predictors select actions for whichever environments are ready, and updates learn from
rollouts as they arrive, see ``sources/predictors.py``. V-trace corrects for the
older policy that acted (Espeholt et al. 2018, arXiv:1802.01561).
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
    """Settings of GA3C."""

    source: ClassVar[DefaultSource] = "queue", {}

    learning_rate: Schedule = option(Constant(7e-4), "step size", least=0)


class GA3C(advantages.Learner):
    """A2C with experience from a queue; satisfies ``interfaces.Algorithm``."""

    several_seeds = False
