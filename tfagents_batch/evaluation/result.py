"""Result of an evaluation, as Python objects and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tfagents_batch.evaluation.episode_rows import Origin

CONFIDENCE = 0.95


@dataclasses.dataclass(frozen=True)
class EstimateInterval:
    """Number with its uncertainty.

    Attributes:
      value: the estimate.
      std_error: standard deviation over the resamples.
      low, high: bounds of the 95 % interval, percentiles of the resamples.
      least: bound above which the number lies with 95 % (one-sided).
      most: bound below which it lies with 95 %.
    """

    value: float
    std_error: float
    low: float
    high: float
    least: float
    most: float


@dataclasses.dataclass(frozen=True)
class Estimate:
    """Estimate of one estimator for the reward or a metric.

    Attributes:
      value: discounted sum over an episode; of one-step estimators, the mean of a
        decision.
      difference: value minus that of the log.
      ratio: value divided by that of the log; None if the log's may be 0.
      formula_error: standard error by the formula of the mean's variance; None where
        none exists.
    """

    value: EstimateInterval
    difference: EstimateInterval
    ratio: EstimateInterval | None
    formula_error: float | None = None


@dataclasses.dataclass(frozen=True)
class Diagnostics:
    """Diagnostics of an evaluation: overlap, weights and errors of the fit.

    Attributes:
      rows, episodes: used for evaluation.
      fitted_rows, fitted_episodes: used to fit values.
      cut: share of the episodes that were cut off.
      gaps: number of episodes that were left out because rows of them are missing.
      effective: effective sample size of whole episodes, by weights without cap;
        ``effective_least`` is its minimum over the steps.
      mean_weight, mean_weight_error: mean weight of an episode, which should be 1.
      largest_share: share of the largest weight in the sum of all.
      capped: share of the episodes with a weight above the cap.
      rare: share of the policy's decisions, in logged states, that an imitator of the
        logging policy takes with a probability below 1 %.
      reach: discounted chance that the policy ever takes a decision that was logged
        less than 5 times.
      exact_cells: whether ``reach`` is of single states, or of similar ones.
      cells: number of states, or of groups of similar ones.
      surprise, surprise_error: mean over decisions of ln p - ln p_b, for an imitator p
        of the logged actions and the logged propensity p_b: above 0, propensities are
        wrong.
      fit_bias, fit_bias_error: estimated bias of FQE: its mean error on logged
        decisions, reweighted to the policy's decisions; near 0 if values are right.
      outside: share of the values that lie outside of what rewards make possible.
      rising: whether the loss of the fit rose in its last third.
      logged, served: share of each action, by name.
      ratios, weights: histograms, see ``totals.EDGES``, weights of 0 first.
    """

    rows: int
    episodes: int
    fitted_rows: int
    fitted_episodes: int
    cut: float
    gaps: int
    effective: float
    effective_least: float
    mean_weight: float
    mean_weight_error: float
    largest_share: float
    capped: float
    rare: float
    reach: float
    exact_cells: bool
    cells: int
    surprise: float
    surprise_error: float
    fit_bias: float
    fit_bias_error: float
    outside: float
    rising: bool
    logged: Mapping[str, float]
    served: Mapping[str, float]
    ratios: tuple[int, ...]
    weights: tuple[int, ...]

    @property
    def variation(self) -> float:
        """Total variation between the shares of served and logged actions."""
        return 0.5 * sum(abs(self.served[x] - self.logged[x]) for x in self.logged)


@dataclasses.dataclass(frozen=True)
class OfflineEvaluation:
    """Result of an evaluation.

    Attributes:
      policy, data: what was evaluated, on which rows.
      facts: what identifies them: the step of the checkpoint, the share of random
        decisions, the fingerprint of the rows, and the settings.
      logged: value of the log by metric; "reward" is the reward.
      estimates: by estimator and metric, of whole episodes.
      one_step: likewise, of one decision: reward per decision, not a value.
      logged_step: mean reward and metrics of a logged decision.
      magic_model: share of the model in MAGIC's blend, by metric.
      diagnostics: what tells whether they can be trusted.
      propensities: "logged" or "estimated".
      judged_by: rows that judge the policy: "unseen" by its training, "no rows" of its
        training were logged ones, "stated" by the user of a function, or "unknown".
      values_from: rows that values were fitted to: "folds" of those that judge, or
        "rows for training".
      warnings: what a reader should know, one sentence each.
    """

    policy: str
    data: str
    facts: Mapping[str, Any]
    logged: Mapping[str, EstimateInterval]
    estimates: Mapping[str, Mapping[str, Estimate]]
    one_step: Mapping[str, Mapping[str, Estimate]]
    logged_step: Mapping[str, EstimateInterval]
    magic_model: Mapping[str, float]
    diagnostics: Diagnostics
    propensities: str
    judged_by: Origin
    values_from: Literal["folds", "rows for training"]
    warnings: tuple[str, ...]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics, "reward" first."""
        return tuple(self.logged)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it; numbers that are not finite are None."""
        return _plain(dataclasses.asdict(self))


def interval(value: float, drawn: np.ndarray) -> EstimateInterval:
    """Return an interval from the values in resamples, f64 ``[B]``."""
    drawn = drawn[np.isfinite(drawn)]
    if len(drawn) < 2:
        return EstimateInterval(float(value), *[float("nan")] * 5)
    tail = 50 * (1 - CONFIDENCE)
    bounds = np.percentile(drawn, [tail, 100 - tail, 2 * tail, 100 - 2 * tail])
    return EstimateInterval(float(value), float(drawn.std(ddof=1)), *map(float, bounds))


def estimate(
    value: float,
    drawn: np.ndarray,
    logged: float,
    logged_drawn: np.ndarray,
    formula_error: float | None = None,
) -> Estimate:
    """Return an estimate beside the log, resampled together.

    Args:
      value, drawn: of the estimator: f64 ``[]`` and in resamples ``[B]``.
      logged, logged_drawn: of the log.
      formula_error: see ``Estimate``.
    """
    base = interval(logged, logged_drawn)
    clear = abs(logged) > 1e-6 and not base.low <= 0 <= base.high
    ratio = None
    if clear:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = interval(value / logged, drawn / logged_drawn)
    difference = interval(value - logged, drawn - logged_drawn)
    return Estimate(interval(value, drawn), difference, ratio, formula_error)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _plain(x) for k, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(x) for x in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return value
