"""GA3C (Babaeizadeh et al. 2017, arXiv:1611.06256): asynchronous actor-critic.

Predictors select actions for whichever environments are ready, and updates learn from
pieces of experience as they arrive, see ``sources/queue.py``. V-trace corrects for the
older policy that acted (Espeholt et al. 2018, arXiv:1802.01561).
"""

from __future__ import annotations

import dataclasses

from tfagents_batch.algorithms import a2c


@dataclasses.dataclass(frozen=True)
class Config(a2c.Config):
    """Settings of GA3C."""


class GA3C(a2c.A2C):
    """A2C whose experience comes from a queue; satisfies ``interfaces.Algorithm``."""

    source = "queue"
    several_seeds = False
