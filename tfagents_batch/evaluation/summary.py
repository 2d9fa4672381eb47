"""Estimates, intervals and warnings from the sums of an evaluation."""

from __future__ import annotations

import numpy as np

from tfagents_batch import config
from tfagents_batch.evaluation import cells, one_step, sequential
from tfagents_batch.evaluation.episode_rows import Judges
from tfagents_batch.evaluation.fitting import EvaluationSettings, Fitted
from tfagents_batch.evaluation.result import (
    Diagnostics,
    Estimate,
    OfflineEvaluation,
    estimate,
    interval,
)
from tfagents_batch.evaluation.sequential import Terms, magic
from tfagents_batch.evaluation.totals import Bootstrap, Totals
from tfagents_batch.offline.table_reader import Partition

_SUMMED = "direct", "ips", "pdis"  # estimates that are means of episodes
_WEIGHTED = "ips", "wis", "pdis", "wpdis"  # by weights alone
_ENOUGH = 50  # effective episodes with which intervals by weights alone are right
_WEIGHTED_STEPS = "ips", "snips", "dr", "sndr"


def squares(terms: Terms) -> np.ndarray:
    """Return the sums of squares of what is averaged over episodes, ``[3, M]``."""
    with np.errstate(over="ignore"):
        return np.stack([(getattr(terms, x) ** 2).sum(0) for x in _SUMMED])


def evaluation(
    timeline: Partition,
    name: str,
    settings: EvaluationSettings,
    fitted: Fitted,
    totals: Totals,
    sequences: Bootstrap,
    decisions: Bootstrap,
    judges: Judges,
) -> OfflineEvaluation:
    """Return the result, see ``result.OfflineEvaluation``."""
    metrics = "reward", *timeline.schema.metrics
    sums, drawn = sequences.sums, sequences.resampled
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # Rows of an episode are alike, so no interval is one of more than the episodes.
        episodes = float(sums.one)
        few, weighted = _student(episodes), _student(totals.effective()[1])
        logged = _wider((sequential.logged(sums), sequential.logged(drawn)), few)
        factors = dict.fromkeys(_WEIGHTED, weighted)
        estimates = {
            estimator: _wider((rule(sums), rule(drawn)), factors.get(estimator, few))
            for estimator, rule in sequential.ESTIMATORS.items()
        }
        errors = _formula_errors(sums, totals)
        for estimator in ("sdr", "wsdr"):
            error = weighted * errors[estimator]
            estimates[estimator] = _with_error(estimates[estimator], error)
        fit_error, seed = few * totals.fit_error(fitted.episodes), settings.seed
        estimates["fqe"] = _with_fit_error(estimates["fqe"], fit_error, seed)
        *blend, (model, weight) = magic(sums, drawn)
        blend = _wider(blend, few)
        estimates["magic"] = _with_fit_error(blend, (1 - weight) * fit_error, seed)
        step = decisions.sums, decisions.resampled
        logged_step = _wider([one_step.logged(x) for x in step], few)
        weighted = _student(min(totals.effective_decisions(), episodes))
        factors = dict.fromkeys(_WEIGHTED_STEPS, weighted)
        of_steps = {
            estimator: _wider([rule(x) for x in step], factors.get(estimator, few))
            for estimator, rule in one_step.ESTIMATORS.items()
        }
        share = fitted.episodes / episodes
        for estimator, error in one_step.model_error(*step, share).items():
            numbers = of_steps[estimator]
            of_steps[estimator] = _with_fit_error(numbers, few * error, seed)
    diagnostics = _diagnostics(timeline, fitted, totals)
    return OfflineEvaluation(
        name,
        str(timeline.folder),
        {"fingerprint": timeline.fingerprint, "settings": config.to_dict(settings)},
        _intervals(logged, metrics),
        _by_metric(estimates, logged, metrics, errors),
        _by_metric(of_steps, logged_step, metrics, {}),
        _intervals(logged_step, metrics),
        dict(zip(metrics, map(float, model), strict=True)),
        diagnostics,
        settings.propensities,
        judges.origin,
        "folds" if settings.folds else "rows for training",
        tuple(_warnings(diagnostics, settings)),
    )


def _with_error(numbers, error: np.ndarray):
    """Return an estimate whose resamples vary by a standard error.

    Resamples of a few episodes with large weights vary too little, because what is rare
    in these is in none of them. The formula knows how much the errors of values vary in
    all rows. In a grid where the log was worth 9 episodes, intervals of resamples had
    the true value in 76 of 100 logs, and these in 92.
    """
    value, drawn = numbers
    known = drawn[np.isfinite(drawn).all(1)]
    if not len(known):
        return numbers
    scale = error / known.std(0)
    scale = np.where(np.isfinite(scale), scale, 1.0)
    return value, value + (drawn - value) * scale


def _student(effective: float) -> float:
    """Return how much wider an interval of few episodes is than a normal one.

    It is the 97.5 % quantile of Student's t by that of the normal distribution, with
    one degree of freedom less than the effective sample size, and at least 3. Quantiles
    are those of Cornish and Fisher (Abramowitz and Stegun 1964, 26.7.5).
    """
    z, v = 1.959964, max(effective - 1, 3.0)
    powers = z, z**3, z**5, z**7
    terms = ((1, 1), 4), ((3, 16, 5), 96), ((-15, 17, 19, 3), 384)
    quantile = z + sum(
        np.dot(factors, powers[: len(factors)]) / divisor / v**k
        for k, (factors, divisor) in enumerate(terms, 1)
    )
    return float(quantile / z)


def _wider(numbers, factor: float):
    """Return an estimate whose resamples vary more by a factor."""
    value, drawn = numbers
    return value, value + (drawn - value) * factor


def _with_fit_error(numbers, error: np.ndarray, seed: int):
    """Return an estimate by a model; its resamples also vary as the fit does."""
    value, drawn = numbers
    noise = np.random.default_rng(seed).standard_normal(drawn.shape)
    return value, drawn + error * noise


def _formula_errors(sums: Terms, totals: Totals) -> dict[str, np.ndarray]:
    """Return standard errors by formulas, ``[M]`` each.

    Those of means are their standard deviation. Errors of values have the mean 0 in
    each decision if Q is right, so variances of doubly robust estimates are sums over
    the steps of squared weights times the variance of the error, and that of v_0.
    """
    n = float(sums.one)
    means = np.stack([getattr(sums, x) for x in _SUMMED]) / n
    variance = np.maximum(totals["squares"] / n - means**2, 0) / n
    first, noise = variance[0], totals["noise"]
    weight = sums.weight[1:, np.newaxis]
    errors = dict(zip(_SUMMED[1:], np.sqrt(variance[1:]), strict=True))
    errors["sdr"] = np.sqrt(first + (noise / n**2).sum(0))
    errors["wsdr"] = np.sqrt(first + (noise / weight**2).sum(0))
    return errors


def _intervals(numbers, metrics):
    value, drawn = numbers
    return {m: interval(value[i], drawn[:, i]) for i, m in enumerate(metrics)}


def _by_metric(
    numbers, logged, metrics, errors: dict[str, np.ndarray]
) -> dict[str, dict[str, Estimate]]:
    estimates: dict[str, dict[str, Estimate]] = {}
    base, base_drawn = logged
    for name, (value, drawn) in numbers.items():
        size = len(drawn)  # MAGIC has fewer resamples
        estimates[name] = {
            m: estimate(
                float(value[i]),
                drawn[:, i],
                float(base[i]),
                base_drawn[:size, i],
                float(errors[name][i]) if name in errors else None,
            )
            for i, m in enumerate(metrics)
        }
    return estimates


def _diagnostics(timeline: Partition, fitted: Fitted, totals: Totals) -> Diagnostics:
    rows, episodes = float(totals["rows"]), float(totals["episodes"])
    effective, effective_least = totals.effective()
    mean_weight, mean_weight_error = totals.mean_weight()
    total = float(totals["weight"][-1])
    # Rows of an episode are alike, so errors are those of sums over episodes.
    surprise = float(totals["surprise"]) / episodes
    variance = float(totals["surprise_squared"]) / episodes - surprise**2
    length = rows / episodes
    bias, bias_error = (float(x[0]) for x in totals.fit_bias())
    losses = np.array([x[0] for x in fitted.values.losses])
    third = max(len(losses) // 3, 1)
    middle = losses[third:-third] if len(losses) > 2 * third else losses[:-third]
    names = timeline.schema.actions
    logged, served = (map(float, totals[x] / rows) for x in ("logged", "served"))
    return Diagnostics(
        rows=int(rows),
        episodes=int(episodes),
        fitted_rows=fitted.rows,
        fitted_episodes=fitted.episodes,
        cut=float(totals["cut"]) / episodes,
        gaps=int(totals["gaps"]),
        effective=effective,
        effective_least=effective_least,
        mean_weight=mean_weight,
        mean_weight_error=mean_weight_error,
        largest_share=totals.largest / total if total else 1.0,
        capped=float(totals["capped"]) / episodes,
        rare=float(totals["rare"]) / rows,
        reach=fitted.reach,
        exact_cells=fitted.cells.exact,
        cells=fitted.cells.number,
        surprise=surprise / length,
        surprise_error=float(np.sqrt(max(variance, 0) / episodes)) / length,
        fit_bias=bias,
        fit_bias_error=bias_error,
        outside=float(totals["outside"]) / rows,
        rising=bool(len(middle) and losses[-third:].mean() > 1.5 * middle.mean()),
        logged=dict(zip(names, logged, strict=True)),
        served=dict(zip(names, served, strict=True)),
        ratios=tuple(map(int, totals["ratios"])),
        weights=tuple(map(int, totals["weights"])),
    )


def _warnings(diagnostics: Diagnostics, settings: EvaluationSettings) -> list[str]:
    warnings = []
    if settings.propensities == "estimated":
        warnings.append(
            "Propensities are estimated from the logged actions, not logged; estimates "
            "are wrong where the logging policy knew more than the features."
        )
    if diagnostics.gaps:
        warnings.append(
            f"{diagnostics.gaps:,} episodes are left out: rows are missing in them."
        )
    if diagnostics.cut:
        warnings.append(
            f"{diagnostics.cut:.1%} of the episodes were cut off. What would have "
            "followed is the fitted value of their last state, for the policy and for "
            "the log."
        )
    if not diagnostics.effective:
        warnings.append("No episode was logged that this policy could have produced.")
    elif diagnostics.effective_least < _ENOUGH:
        warnings.append(
            f"The log is worth {diagnostics.effective_least:,.1f} episodes of this "
            "policy (effective sample size). Intervals of estimates by weights alone "
            f"({', '.join(_WEIGHTED)}) are too narrow then: they have the true value "
            "less often than in 95 of 100 logs, with few effective episodes far less."
        )
    weighted = (
        settings.propensities == "logged" and diagnostics.effective_least >= _ENOUGH
    )
    if diagnostics.reach > 0.05 and not weighted:
        warnings.append(
            f"The policy takes a decision that was logged less than {cells.SUPPORT} "
            f"times with a chance of {diagnostics.reach:.1%} in an episode; nothing is "
            "known of what follows."
        )
    return warnings
