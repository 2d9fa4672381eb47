"""Evaluation of a policy from the rows that another one logged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tfagents_batch.errors import UserError
from tfagents_batch.evaluation import (
    cells,
    episode_rows,
    one_step,
    sequential,
    summary,
)
from tfagents_batch.evaluation.episode_rows import (
    EVERY,
    EpisodeRows,
    Judges,
    RowsExtent,
    pad,
    parts,
)
from tfagents_batch.evaluation.fitting import (
    Candidate,
    EvaluationSettings,
    Fitted,
    Networks,
    Normalize,
    expected,
    fit,
    folds,
    predicted,
    rewards,
)
from tfagents_batch.evaluation.result import OfflineEvaluation
from tfagents_batch.evaluation.totals import LEAST, Bootstrap, Judged, Totals
from tfagents_batch.offline.table_reader import Columns, Partition

_BLOCK_ROWS = 200_000  # read at once
_PADDED = 2_000_000  # numbers of an array of padded episodes
_LONGEST = 5_000  # rows of an episode, times the number of metrics


def evaluate(
    timeline: Partition,
    candidate: Candidate,
    settings: EvaluationSettings,
    networks: Networks,
    normalize: Normalize | None = None,
    say: Callable[[str], Any] = lambda text: None,
    judges: Judges = EVERY,
) -> OfflineEvaluation:
    """Estimate what a policy is worth, see ``docs/evaluation.md``.

    Rows are read in blocks; memory does not grow with the table. UserError if they do
    not allow an evaluation.

    Args:
      timeline: timeline with one reward in each sample.
      candidate: the policy.
      settings: settings.
      networks: fits networks to rows, see ``fitted_q.Fit``.
      normalize: from raw states f32 ``[N, F]``, NaN where a feature is missing, to
        inputs of networks; None standardizes each feature.
      say: called with a line when a part begins.
      judges: rows that judge the policy, of the rows for evaluation.
    """
    extent = check(timeline, settings, judges)
    say(f"fitting values of {candidate.name}")
    fitted = fit(timeline, candidate, settings, networks, normalize, judges)
    say(f"reading {extent.rows:,} rows of {extent.episodes:,} episodes")
    totals = Totals()
    sequences = Bootstrap(settings.resamples, settings.seed)
    decisions = Bootstrap(settings.resamples, settings.seed)
    threshold = None
    factor = _largest_factor(timeline, extent)
    for span in episode_rows.spans(timeline, judges.where, _BLOCK_ROWS):
        columns, gaps = episode_rows.read(timeline, span)
        totals.add(gaps=gaps)
        if not len(columns["reward"]):
            continue
        rows, block, model = _judged(columns, candidate, fitted, settings)
        step = rows.reward, rows.ratio, *model
        if threshold is None:
            threshold = one_step.thresholds(*step, extent.rows)
        decisions.add(one_step.decisions(rows.episode, *step, threshold))
        totals.add_rows(block, rows.episode)
        totals.add(outside=_outside(rows.q[:, 0], extent, factor))
        size = extent.longest * rows.reward.shape[1]
        for part in parts(rows, max(_PADDED // size, 1)):
            padded = pad(part, extent.longest)
            terms = sequential.terms(padded, settings.cap)
            sequences.add(terms)
            totals.add(squares=summary.squares(terms))
            totals.add_episodes(padded, settings.cap)
    if sequences.sums is None:
        raise UserError(
            f"{timeline.folder} has no whole episode for evaluation; rows are missing "
            "in all of them"
        )
    say("resampling")
    sums = totals, sequences, decisions
    return summary.evaluation(timeline, candidate.name, settings, fitted, *sums, judges)


def _judged(
    columns: Columns, candidate: Candidate, fitted: Fitted, settings: EvaluationSettings
) -> tuple[EpisodeRows, Judged, tuple[np.ndarray, np.ndarray]]:
    """Return rows with values, and the predicted rewards of their decisions."""
    action, number = columns["action"], np.arange(len(columns["action"]))
    policy = candidate.probabilities(columns, "").astype(np.float64)
    after = candidate.probabilities(columns, "next_").astype(np.float64)
    state, later = (fitted.normalize(columns[x]) for x in ("state", "next_state"))
    fold = folds(columns, settings)
    now = predicted(fitted.values, state, columns["mask"], fold)
    nexts = predicted(fitted.values, later, columns["next_mask"], fold)
    propensity = columns["propensity"].astype(np.float64)
    if settings.propensities == "estimated":
        imitated = now.behavior[number, action]
        propensity = np.maximum(imitated, LEAST).astype(np.float64)
    ratio = policy[number, action] / propensity
    reward, q = rewards(columns), now.q[number, action]
    cell, ends = cells.number(fitted.cells, state), columns["terminated"]
    next_v = np.where(ends[:, np.newaxis], 0.0, expected(after, nexts.q))
    discount = columns["discount"].astype(np.float64)
    rows = EpisodeRows(
        columns["episode"],
        ratio,
        reward,
        discount,
        ends,
        q,
        expected(policy, now.q),
        next_v,
        nexts.logged,
        fitted.noise[cell, action],
    )
    error = reward + discount[:, np.newaxis] * next_v - q
    visits = fitted.visits[cell, action]
    block = Judged(action, propensity, policy, now.behavior, ratio, error, visits)
    return rows, block, (now.reward[number, action], expected(policy, now.reward))


def check(
    timeline: Partition, settings: EvaluationSettings, judges: Judges = EVERY
) -> RowsExtent:
    """Return what a timeline contains; UserError if it allows no evaluation."""
    episode_rows.check(timeline)
    extent = episode_rows.extent(timeline, judges.where)
    every = episode_rows.extent(timeline, EVERY.where).episodes
    if not extent.rows and every:
        raise UserError(
            f"training has seen all {every:,} episodes for evaluation in "
            f"{timeline.folder}, so none can judge its policy; log more episodes, or "
            "make the timeline again with a larger --eval_share and train on it"
        )
    if not extent.rows:
        raise UserError(
            f"{timeline.folder} has no rows for evaluation; make the timeline again "
            "with a larger --eval_share"
        )
    missing = extent.rows - extent.propensities
    if settings.propensities == "logged" and missing:
        raise UserError(
            f"{missing:,} of {extent.rows:,} rows for evaluation in {timeline.folder} "
            "have no action_probability; log it, or pass --propensities=estimated to "
            "estimate it from the logged actions"
        )
    longest = _LONGEST // (1 + len(timeline.schema.metrics))
    if extent.longest > longest:
        raise UserError(
            f"an episode in {timeline.folder} has {extent.longest:,} rows; expected at "
            f"most {longest:,}, or fewer metrics. Make the timeline again with "
            "--max_length_percentile or --time_window_limit"
        )
    return extent


def _largest_factor(timeline: Partition, extent: RowsExtent) -> float:
    """Return the sum of the discounts of the longest episode."""
    config = timeline.manifest["config"]
    if config["discount"] != "step" or config["gamma"] == 1.0:
        return float(extent.longest)
    return 1 / (1 - config["gamma"])


def _outside(q: np.ndarray, extent: RowsExtent, factor: float) -> int:
    """Return how many values are larger or smaller than rewards make possible."""
    low, high = min(extent.least, 0) * factor, max(extent.most, 0) * factor
    slack = 0.05 * (high - low)
    return int(((q < low - slack) | (q > high + slack)).sum())
