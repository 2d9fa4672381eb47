"""Settings of an evaluation from logged rows."""

from __future__ import annotations

import dataclasses
from typing import Literal

from tfagents_batch import config
from tfagents_batch.config import number, option


@dataclasses.dataclass(frozen=True)
class FitSettings:
    """Settings of fitted Q evaluation by networks."""

    steps: int = option(10_000, "gradient steps", least=1)
    batch_size: int = option(512, "rows of a step, of each fold", least=1)
    hidden: tuple[int, ...] = option((64, 64), "units of the hidden layers", least=1)
    learning_rate: float = number(
        3e-3, "learning rate at the start; it falls linearly to 0", above=0
    )
    target_tau: float = number(0.05, "step of the target network", above=0, most=1)
    rows: int = option(1_000_000, "rows to fit, at most", least=1)


@dataclasses.dataclass(frozen=True)
class EvaluationSettings:
    """Settings of an evaluation."""

    folds: int = option(
        2,
        "parts of the rows that judge, each judged by values that have not seen it; 0: "
        "by values of the rows for training, which must not have made the policy",
        least=0,
        most=10,
    )
    values: Literal["neural", "tabular"] = option(
        "neural",
        "fitted Q evaluation by networks, or by means of equal or similar states",
    )
    propensities: Literal["logged", "estimated"] = option(
        "logged", "those of the log, or estimated from its actions"
    )
    cap: float = number(
        100.0, "largest importance weight; larger ones count as this", least=1
    )
    resamples: int = option(1000, "resamples of the bootstrap", least=100)
    seed: int = option(0, "seed of networks, batches and resamples", least=0)
    fit: FitSettings = option(FitSettings(), "fitted Q evaluation")

    def check(self) -> EvaluationSettings:
        """Return the checked settings; UserError for a setting that is invalid."""
        return config.check(self)
