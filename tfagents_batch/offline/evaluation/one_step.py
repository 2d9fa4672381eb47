"""Estimates of the reward of one decision, as terms of rows.

The value of an estimator is the mean of its terms, so a bootstrap draws rows and takes
means. Each function takes some of these arrays, one entry for each logged decision:

* ``reward``: f64 ``[n]``, reward r of the logged action.
* ``weight``: f64 ``[n]``, rho = pi_e(a|s) / p_b, the evaluated policy's probability of
  the logged action divided by the logged probability.
* ``model_logged``: f64 ``[n]``, reward model R(s, a) of the logged action.
* ``model_expected``: f64 ``[n]``, sum over actions of pi_e(a|s) R(s, a).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

CANDIDATES = 21  # thresholds that ``choose_threshold`` compares


class Ratio(NamedTuple):
    """Terms of a self-normalized estimator.

    Attributes:
      numerator: f64 ``[n]``.
      denominator: f64 ``[n]``, the weights.
      model: f64 ``[n]``, terms that are not normalized.
    """

    numerator: np.ndarray
    denominator: np.ndarray
    model: np.ndarray

    def estimate(self) -> float:
        """Return mean(model) + sum(numerator) / sum(denominator); NaN if that is 0."""
        total = self.denominator.sum()
        correction = self.numerator.sum() / total if total else np.nan
        return float(self.model.mean() + correction)


def direct_method(model_expected: np.ndarray) -> np.ndarray:
    """Return the terms of the direct method: sum_a pi_e(a|s) R(s, a)."""
    return np.asarray(model_expected, np.float64)


def ips(reward: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the terms of inverse propensity scoring: rho r."""
    return np.asarray(weight, np.float64) * reward


def snips(reward: np.ndarray, weight: np.ndarray) -> Ratio:
    """Return the terms of self-normalized IPS: sum(rho r) / sum(rho).

    Swaminathan and Joachims 2015, "The Self-Normalized Estimator for Counterfactual
    Learning".
    """
    weighted = ips(reward, weight)
    return Ratio(weighted, np.asarray(weight, np.float64), np.zeros_like(weighted))


def doubly_robust(
    reward: np.ndarray,
    weight: np.ndarray,
    model_logged: np.ndarray,
    model_expected: np.ndarray,
) -> np.ndarray:
    """Return the terms of doubly robust estimation: rho (r - R(s, a)) + sum_b pi_e R.

    Dudik et al. 2011, arXiv 1103.4601.
    """
    return ips(np.subtract(reward, model_logged), weight) + model_expected


def normalized_doubly_robust(
    reward: np.ndarray,
    weight: np.ndarray,
    model_logged: np.ndarray,
    model_expected: np.ndarray,
) -> Ratio:
    """Return the terms of doubly robust estimation, its correction self-normalized."""
    correction = snips(np.subtract(reward, model_logged), weight)
    return correction._replace(model=direct_method(model_expected))


def switch(
    reward: np.ndarray,
    weight: np.ndarray,
    weights: np.ndarray,
    policy: np.ndarray,
    model: np.ndarray,
    threshold: float,
) -> np.ndarray:
    """Return the terms of the switch estimator: IPS for small weights, else the model.

    A term is rho r 1[rho <= threshold] + sum_b pi_e(b|s) R(s, b) 1[rho(b) > threshold]
    (Wang et al. 2017, arXiv 1612.01205). A threshold of 0 gives the direct method, the
    largest weight gives IPS.

    Args:
      reward: f64 ``[n]``.
      weight: f64 ``[n]``, rho of the logged action.
      weights: f64 ``[n, A]``, rho of every action: it needs all the logger's
        probabilities.
      policy: f64 ``[n, A]``, pi_e of every action.
      model: f64 ``[n, A]``, R of every action.
      threshold: largest weight that is used.
    """
    above = np.asarray(weights) > threshold
    return ips(reward, _small(weight, threshold)) + (policy * model * above).sum(1)


def switch_doubly_robust(
    reward: np.ndarray,
    weight: np.ndarray,
    model_logged: np.ndarray,
    model_expected: np.ndarray,
    threshold: float,
) -> np.ndarray:
    """Return the terms of switch-DR: doubly robust, with 0 for too large weights.

    Wang et al. 2017, arXiv 1612.01205. A threshold of 0 gives the direct method, the
    largest weight gives doubly robust estimation.
    """
    small = _small(weight, threshold)
    return doubly_robust(reward, small, model_logged, model_expected)


def thresholds(weight: np.ndarray) -> np.ndarray:
    """Return candidates for a threshold, f64 ``[21]``: 0, then a geometric series.

    The series runs from the smallest positive weight to the largest.
    """
    positive = np.asarray(weight, np.float64)[np.greater(weight, 0)]
    if not len(positive):
        return np.zeros(CANDIDATES)
    series = np.geomspace(positive.min(), positive.max(), CANDIDATES - 1)
    series[-1] = positive.max()  # rounding must not cut off the largest weight
    return np.concatenate([[0.0], series])


def choose_threshold(
    reward: np.ndarray,
    weight: np.ndarray,
    model_logged: np.ndarray,
    model_expected: np.ndarray,
    count: int | None = None,
    bound: float | None = None,
) -> float:
    """Return the threshold of switch-DR with the smallest estimated mean squared error.

    The error is var(terms) / n + (bound * mean(rho 1[rho > threshold]))^2; the second
    part bounds the squared bias (Wang et al. 2017, arXiv 1612.01205).

    Args:
      reward: f64 ``[n]``.
      weight: f64 ``[n]``.
      model_logged: f64 ``[n]``.
      model_expected: f64 ``[n]``.
      count: number of rows of the estimate; None for those that are given.
      bound: largest magnitude of a reward; ``None`` uses the largest of the log.
    """
    bound = float(np.abs(reward).max()) if bound is None else bound
    errors = {}
    for threshold in thresholds(weight).tolist():
        given = reward, weight, model_logged, model_expected, threshold
        left_out = np.subtract(weight, _small(weight, threshold)).mean()
        variance = switch_doubly_robust(*given).var() / (count or len(reward))
        errors[threshold] = variance + (bound * left_out) ** 2
    return min(errors, key=errors.__getitem__)


def _small(weight: np.ndarray, threshold: float) -> np.ndarray:
    """Return the weights, with those above the threshold set to 0."""
    return np.where(np.greater(weight, threshold), 0.0, weight)
