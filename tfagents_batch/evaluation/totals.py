"""Sums over rows and episodes: those of a bootstrap, and those of diagnostics."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tfagents_batch.evaluation.episode_rows import PaddedEpisodes, starts

LEAST = 1e-3  # probability of an action by the imitator
# Of weights, as powers of 10; in the first and last bin also what lies beyond.
EDGES = np.linspace(-4, 4, 33)


class Judged(NamedTuple):
    """Columns of the rows of a block."""

    action: np.ndarray  # int [N], logged actions
    propensity: np.ndarray  # f64 [N], of the logged action
    policy: np.ndarray  # f64 [N, A], pi_e
    behavior: np.ndarray  # f64 [N, A], imitator of the logging policy
    ratio: np.ndarray  # f64 [N]
    error: np.ndarray  # f64 [N, M], r + discount v' - q
    visits: np.ndarray  # f64 [N], visits of pi_e to this decision for each logged one


class Totals:
    """Sums by name; ``largest`` is the largest weight of an episode."""

    def __init__(self) -> None:
        self._sums: dict[str, np.ndarray] = {}
        self.largest = 0.0

    def __getitem__(self, name: str) -> np.ndarray:
        return self._sums[name]

    def add_rows(self, rows: Judged, episode: np.ndarray) -> None:
        """Add rows of whole episodes; ``episode`` i64 ``[N]`` has their keys."""
        actions = rows.policy.shape[1]
        imitated = rows.behavior[np.arange(len(rows.action)), rows.action]
        surprise = np.log(np.maximum(imitated, LEAST)) - np.log(rows.propensity)
        first = starts(episode)
        surprise = np.add.reduceat(surprise, first)
        influence = np.add.reduceat(rows.visits[:, np.newaxis] * rows.error, first)
        self.add(
            rows=len(rows.action),
            logged=np.bincount(rows.action, minlength=actions),
            served=rows.policy.sum(0),
            rare=(rows.policy * (rows.behavior < 0.01)).sum(),
            surprise=surprise.sum(),
            surprise_squared=(surprise**2).sum(),
            influence=influence.sum(0),
            influence_squared=(influence**2).sum(0),
            ratios=_histogram(rows.ratio),
            ratio=rows.ratio.sum(),
            ratio_squared=(rows.ratio**2).sum(),
        )

    def add_episodes(self, episodes: PaddedEpisodes, cap: float) -> None:
        """Add padded episodes."""
        weight = episodes.weight
        last = weight[:, -1]
        scale = episodes.discount[:, :-1] * np.minimum(weight, cap)[:, 1:]
        with np.errstate(over="ignore"):
            self.add(
                episodes=len(last),
                cut=episodes.cut.sum(),
                weight=weight.sum(0),
                weight_squared=(weight**2).sum(0),
                capped=(weight > cap).any(1).sum(),
                weights=_histogram(last),
                noise=((scale**2)[..., np.newaxis] * episodes.noise).sum(0),
            )
        self.largest = max(self.largest, float(last.max()))

    def effective(self) -> tuple[float, float]:
        """Return the effective sample size of whole episodes, and its minimum over t.

        (sum W)^2 / sum W^2 (Kong 1992); 0 if all weights are 0.
        """
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            sizes = self["weight"] ** 2 / self["weight_squared"]
        sizes = np.nan_to_num(sizes, nan=0.0)
        return float(sizes[-1]), float(sizes.min())

    def effective_decisions(self) -> float:
        """Return the effective sample size of single decisions."""
        squared = float(self["ratio_squared"])
        return float(self["ratio"]) ** 2 / squared if squared else 0.0

    def mean_weight(self) -> tuple[float, float]:
        """Return the mean weight of episodes, which should be 1, and its error."""
        n = float(self["episodes"])
        mean = float(self["weight"][-1]) / n
        with np.errstate(invalid="ignore", over="ignore"):
            variance = float(self["weight_squared"][-1]) / n - mean**2
        return mean, math.sqrt(max(variance, 0.0) / n)

    def fit_bias(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the estimated bias of FQE, and its standard error, ``[M]`` each.

        It is the mean over the episodes of the errors r + discount v' - q, each as
        often as the policy would make this decision: 0 if the values are right.
        """
        mean, variance = self._influence()
        return mean, np.sqrt(variance / float(self["episodes"]))

    def fit_error(self, fitted: int) -> np.ndarray:
        """Return the standard error of FQE by the ``fitted`` episodes, ``[M]``.

        That is the chance of the fitted episodes, and the bias as far as it is more
        than chance: networks approximate, and unlogged actions have no values.
        """
        mean, variance = self._influence()
        bias = np.maximum(mean**2 - variance / float(self["episodes"]), 0)
        return np.sqrt(variance / max(fitted, 1) + bias)

    def add(self, **numbers: np.ndarray | float) -> None:
        """Add numbers to sums, by name."""
        for name, value in numbers.items():
            before = self._sums.get(name, 0)
            self._sums[name] = before + np.asarray(value, np.float64)

    def _influence(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of what an episode says of FQE, ``[M]`` each."""
        n = float(self["episodes"])
        mean = self["influence"] / n
        return mean, np.maximum(self["influence_squared"] / n - mean**2, 0)


def _histogram(weights: np.ndarray) -> np.ndarray:
    """Return the number of weights in each bin of ``EDGES``, weights 0 first."""
    positive = weights[weights > 0]
    logs = np.clip(np.log10(positive), EDGES[0], EDGES[-1])
    return np.r_[len(weights) - len(positive), np.histogram(logs, EDGES)[0]]


class Bootstrap:
    """Sums over all episodes and over resamples of them.

    In a resample, an episode is counted as often as a Poisson variable with mean 1
    says. For many episodes this is drawing with replacement (Chamandy et al. 2012), and
    needs no memory of them. Draws do not depend on how episodes are cut into blocks.
    There are B = ``resamples`` of them.
    """

    def __init__(self, resamples: int, seed: int):
        self._resamples, self._random = resamples, np.random.default_rng(seed)
        # Over all episodes and over resamples [B, ...], as tuples of the type that was
        # added; None before
        self.sums: Any = None
        self.resampled: Any = None

    def add(self, terms: Any) -> None:
        """Add the terms of n episodes, a named tuple of arrays ``[n, ...]``."""
        kind = type(terms)
        counts = self._random.poisson(1.0, (len(terms[0]), self._resamples)).T
        counts = counts.astype(np.float64)
        sums = kind(*(x.sum(0) for x in terms))
        resampled = kind(*(_times(counts, x) for x in terms))
        if self.sums is not None:
            sums = kind(*map(np.add, self.sums, sums))
            resampled = kind(*map(np.add, self.resampled, resampled))
        self.sums, self.resampled = sums, resampled


def _times(counts: np.ndarray, x: np.ndarray) -> np.ndarray:
    return (counts @ x.reshape(len(x), -1)).reshape(len(counts), *x.shape[1:])
