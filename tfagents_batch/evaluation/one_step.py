"""Estimators of the reward of one decision, as ratios of sums over episodes.

As in ``sequential``, rows are read once, and a bootstrap is the same function of
weighted sums. rho = pi_e(a | s) / p is the evaluated policy's probability of the logged
action divided by its propensity, R(s, a) is the reward that a model predicts, and
R_e(s) = sum_a pi_e(a | s) R(s, a).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tfagents_batch.evaluation.episode_rows import starts

CANDIDATES = 21  # thresholds that ``thresholds`` compares


class Decisions(NamedTuple):
    """Sums over the decisions of n episodes, of each, ``[n, ...]``, or of all."""

    one: np.ndarray  # [], number of decisions
    weight: np.ndarray  # [], rho
    reward: np.ndarray  # [M], r
    direct: np.ndarray  # [M], R_e(s)
    ips: np.ndarray  # [M], rho r
    control: np.ndarray  # [M], rho (r - R(s, a))
    # [M], R_e(s), and the control where rho is at most a threshold
    switched: np.ndarray


def decisions(
    episode: np.ndarray,
    reward: np.ndarray,
    weight: np.ndarray,
    model_logged: np.ndarray,
    model_expected: np.ndarray,
    threshold: np.ndarray,
) -> Decisions:
    """Return what each episode adds.

    Args:
      episode: i64 ``[N]``, key of the episode of each row.
      reward: f64 ``[N, M]``, r.
      weight: f64 ``[N]``, rho.
      model_logged, model_expected: f64 ``[N, M]``, R(s, a) and R_e(s).
      threshold: f64 ``[M]``, largest rho that switch-DR uses. 0 gives the direct
        method, the largest rho gives doubly robust estimation.
    """
    rho = weight[:, np.newaxis]
    control = rho * (reward - model_logged)
    rows = Decisions(
        np.ones(len(weight)),
        weight,
        reward,
        model_expected,
        rho * reward,
        control,
        np.where(rho > threshold, 0.0, control) + model_expected,
    )
    first = starts(episode)
    return Decisions(*(np.add.reduceat(x, first) for x in rows))


def thresholds(
    reward: np.ndarray,
    weight: np.ndarray,
    model_logged: np.ndarray,
    model_expected: np.ndarray,
    count: int,
) -> np.ndarray:
    """Return the threshold of switch-DR for each metric, f64 ``[M]``.

    It is the one with the smallest estimated mean squared error: the variance of the
    mean, and the square of max |r| mean(rho 1[rho > threshold]), which bounds the bias
    (Wang et al. 2017, arXiv 1612.01205). It is estimated from some of ``count`` rows,
    see ``decisions``.
    """
    rho = weight[:, np.newaxis]
    control = rho * (reward - model_logged)
    bound = np.abs(reward).max(0)
    tried = candidates(weight)
    errors = []
    for threshold in tried:
        above = rho > threshold
        terms = np.where(above, 0.0, control) + model_expected
        bias = bound * np.where(above, rho, 0.0).mean()
        errors.append(terms.var(0) / count + bias**2)
    return tried[np.argmin(errors, 0)]


def candidates(weight: np.ndarray) -> np.ndarray:
    """Return candidates for a threshold, f64 ``[21]``: 0, then a geometric series.

    The series runs from the smallest positive weight to the largest.
    """
    positive = weight[weight > 0]
    if not len(positive):
        return np.zeros(CANDIDATES)
    series = np.geomspace(positive.min(), positive.max(), CANDIDATES - 1)
    series[-1] = positive.max()  # rounding must not cut off the largest weight
    return np.concatenate([[0.0], series])


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
    (Wang et al. 2017, arXiv 1612.01205). It needs all the logger's probabilities, which
    rows do not have.

    Args:
      reward: f64 ``[n]``.
      weight: f64 ``[n]``, rho of the logged action.
      weights: f64 ``[n, A]``, rho of every action.
      policy: f64 ``[n, A]``, pi_e of every action.
      model: f64 ``[n, A]``, R of every action.
      threshold: largest weight that is used.
    """
    used = np.where(weight > threshold, 0.0, weight)
    return used * reward + (policy * model * (weights > threshold)).sum(1)


def model_error(sums: Decisions, drawn: Decisions, fitted: float) -> dict:
    """Return standard errors of estimates by the fit of their model, ``[M]`` each.

    The mean of rho (r - R(s, a)), over the decisions for which an estimate uses the
    model alone, is 0 for a right model. Its variance over the episodes, by resamples
    ``[B, ...]``, is that of the model's part if the model was fitted to as many; what
    is more is a bias. It was fitted to a share ``fitted`` of as many episodes.
    """
    rests = {
        "dm": lambda x: _mean(x.control, x),
        "switch_dr": lambda x: _mean(x.control - (x.switched - x.direct), x),
    }
    errors = {}
    for name, rest in rests.items():
        variance = rest(drawn).var(0)
        bias = np.maximum(rest(sums) ** 2 - variance, 0)
        errors[name] = np.sqrt(variance / fitted + bias)
    return errors


def _mean(total: np.ndarray, sums: Decisions) -> np.ndarray:
    return total / np.asarray(sums.one)[..., np.newaxis]


def _normalized(total: np.ndarray, sums: Decisions) -> np.ndarray:
    return total / np.asarray(sums.weight)[..., np.newaxis]


def logged(sums: Decisions) -> np.ndarray:
    """Return the mean reward of a logged decision, ``[..., M]``."""
    return _mean(sums.reward, sums)


# Dudik et al. 2011 (dm, dr); Swaminathan and Joachims 2015 (snips, and sndr likewise);
# Wang et al. 2017 (switch_dr).
ESTIMATORS = {
    "dm": lambda sums: _mean(sums.direct, sums),
    "ips": lambda sums: _mean(sums.ips, sums),
    "snips": lambda sums: _normalized(sums.ips, sums),
    "dr": lambda sums: _mean(sums.direct + sums.control, sums),
    "sndr": lambda sums: _mean(sums.direct, sums) + _normalized(sums.control, sums),
    "switch_dr": lambda sums: _mean(sums.switched, sums),
}
