"""Estimates, intervals and warnings from the sums of an evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfagents_batch.offline.dense import Partition
from tfagents_batch.offline.evaluation import cells, estimators, one_step_sums
from tfagents_batch.offline.evaluation.bootstrap import Bootstrap
from tfagents_batch.offline.evaluation.estimators import Terms
from tfagents_batch.offline.evaluation.magic import magic
from tfagents_batch.offline.evaluation.result import (
    Diagnostics,
    Estimate,
    Evaluation,
    estimate,
    interval,
)
from tfagents_batch.offline.evaluation.settings import EvaluationSettings
from tfagents_batch.offline.evaluation.totals import Totals

_SUMMED = "direct", "ips", "pdis", "sdr"  # estimates that are means of episodes


def squares(terms: Terms) -> np.ndarray:
    """Return the sums of the squares of what is averaged over episodes, ``[4, M]``."""
    with np.errstate(over="ignore"):
        return np.stack([(getattr(terms, x) ** 2).sum(0) for x in _SUMMED])


def evaluation(
    found: Partition,
    name: str,
    settings: EvaluationSettings,
    fitted: Any,
    totals: Totals,
    sequences: Bootstrap,
    decisions: Bootstrap,
    squared: np.ndarray,
    counts: dict[str, int],
) -> Evaluation:
    """Return the result, see ``result.Evaluation``."""
    metrics = "reward", *found.schema.metrics
    sums, drawn = sequences.sums, sequences.resampled
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        logged = estimators.logged(sums), estimators.logged(drawn)
        estimates = {
            each: (rule(sums), rule(drawn))
            for each, rule in estimators.ESTIMATORS.items()
        }
        estimates["fqe"] = _with_fit_error(estimates["fqe"], fitted, totals, settings)
        *estimates["magic"], model = magic(sums, drawn)
        errors = _formula_errors(sums, squared)
        step = decisions.sums, decisions.resampled
        logged_step = [one_step_sums.logged(x) for x in step]
        one_step = {
            each: [rule(x) for x in step]
            for each, rule in one_step_sums.ESTIMATORS.items()
        }
    diagnostics = _diagnostics(found, fitted, totals, counts)
    return Evaluation(
        name,
        str(found.folder),
        _intervals(logged, metrics),
        _by_metric(estimates, logged, metrics, errors),
        _by_metric(one_step, logged_step, metrics, {}),
        _intervals(logged_step, metrics),
        dict(zip(metrics, map(float, model), strict=True)),
        diagnostics,
        settings.propensities,
        tuple(_warnings(diagnostics, settings)),
    )


def _with_fit_error(given, fitted: Any, totals: Totals, settings: EvaluationSettings):
    """Return FQE's estimate; its resamples also vary as its fit does."""
    value, drawn = given
    error = totals.fit_error(fitted.episodes)
    noise = np.random.default_rng(settings.seed).standard_normal(drawn.shape)
    return value, drawn + error * noise


def _formula_errors(sums: Terms, squared: np.ndarray) -> dict[str, np.ndarray]:
    n = float(sums.one)
    means = np.stack([getattr(sums, x) for x in _SUMMED]) / n
    found = np.sqrt(np.maximum(squared / n - means**2, 0) / n)
    # FQE's own error is that of its fit, too.
    return dict(zip(_SUMMED[1:], found[1:], strict=True))


def _intervals(given, metrics):
    value, drawn = given
    return {m: interval(value[i], drawn[:, i]) for i, m in enumerate(metrics)}


def _by_metric(
    given, logged, metrics, errors: dict[str, np.ndarray]
) -> dict[str, dict[str, Estimate]]:
    found: dict[str, dict[str, Estimate]] = {}
    base, base_drawn = logged
    for name, (value, drawn) in given.items():
        size = len(drawn)  # MAGIC has fewer resamples
        found[name] = {
            m: estimate(
                float(value[i]),
                drawn[:, i],
                float(base[i]),
                base_drawn[:size, i],
                float(errors[name][i]) if name in errors else None,
            )
            for i, m in enumerate(metrics)
        }
    return found


def _diagnostics(
    found: Partition, fitted: Any, totals: Totals, counts: dict[str, int]
) -> Diagnostics:
    rows, episodes = float(totals["rows"]), float(totals["episodes"])
    effective, effective_step = totals.effective()
    total = float(totals["weight"][-1])
    surprise = float(totals["surprise"]) / rows
    variance = float(totals["surprise_squared"]) / rows - surprise**2
    losses = np.array([x[0] for x in fitted.values.losses])
    third = max(len(losses) // 3, 1)
    middle = losses[third:-third] if len(losses) > 2 * third else losses[:-third]
    error = np.sqrt(totals["error_squared"][0] / rows)
    spread = float(np.std(fitted.model.reward[:, 0])) or 1.0
    names = found.schema.actions
    shares = [dict(zip(names, map(float, totals[x] / rows), strict=True))
              for x in ("logged", "served")]  # fmt: skip
    return Diagnostics(
        rows=int(rows),
        episodes=int(episodes),
        fitted_rows=fitted.rows,
        fitted_episodes=fitted.episodes,
        cut=float(totals["cut"]) / episodes,
        gaps=counts["gaps"],
        effective=effective,
        effective_step=effective_step,
        mean_weight=totals.mean_weight()[0],
        mean_weight_error=totals.mean_weight()[1],
        largest_share=totals.largest / total if total else 1.0,
        capped=float(totals["capped"]) / episodes,
        rare=float(totals["rare"]) / rows,
        reach=min(cells.reach(fitted.model), 1.0),
        exact_cells=fitted.cells.exact,
        cells=fitted.cells.count,
        surprise=surprise,
        surprise_error=float(np.sqrt(max(variance, 0) / rows)),
        td_error=float(error) / spread,
        outside=counts["outside"] / rows,
        rising=bool(len(middle) and losses[-third:].mean() > 1.5 * middle.mean()),
        logged=shares[0],
        served=shares[1],
        ratios=tuple(map(int, totals["ratios"])),
        weights=tuple(map(int, totals["weights"])),
    )


def _warnings(given: Diagnostics, settings: EvaluationSettings) -> list[str]:
    found = []
    if settings.propensities == "estimated":
        found.append(
            "Propensities are estimated from the logged actions, not logged; estimates "
            "are wrong where the logging policy knew more than the features."
        )
    if given.gaps:
        found.append(f"{given.gaps:,} episodes are left out: rows are missing in them.")
    if given.cut:
        found.append(
            f"{given.cut:.1%} of the episodes were cut off. Estimates add the value of "
            "their last state; the value of the log has nothing after it."
        )
    if not given.effective:
        found.append("No episode was logged that this policy could have produced.")
    if given.reach > 0.05:
        found.append(
            f"The policy takes a decision that was logged less than {cells.SUPPORT} "
            f"times with a chance of {given.reach:.1%} in an episode; nothing is known "
            "of what follows."
        )
    return found
