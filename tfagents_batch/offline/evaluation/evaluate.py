"""Evaluation of a policy from the rows that another one logged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from tfagents_batch.errors import UserError
from tfagents_batch.offline.dense import EVALUATE, TRAIN, Columns, Partition
from tfagents_batch.offline.evaluation import (
    cells,
    estimators,
    logged_rows,
    one_step_sums,
    summary,
)
from tfagents_batch.offline.evaluation.bootstrap import Bootstrap
from tfagents_batch.offline.evaluation.cells import Cells, Model
from tfagents_batch.offline.evaluation.episodes import Rows, pad, parts
from tfagents_batch.offline.evaluation.logged_rows import Extent
from tfagents_batch.offline.evaluation.result import Evaluation
from tfagents_batch.offline.evaluation.sample import Predictions, Sample
from tfagents_batch.offline.evaluation.settings import EvaluationSettings
from tfagents_batch.offline.evaluation.tabular import Tabular
from tfagents_batch.offline.evaluation.totals import Block, Totals

_BLOCK_ROWS = 100_000  # read at once
_PADDED = 2_000_000  # numbers of an array of padded episodes
_LONGEST = 10_000  # rows of an episode
_LEAST = 1e-3  # estimated propensity

Normalize = Callable[[np.ndarray], np.ndarray]


class Candidate(Protocol):
    """Policy that is evaluated."""

    name: str

    def probabilities(self, columns: Columns, part: str) -> np.ndarray:
        """Return pi_e(a | s), f ``[N, A]``, in the states of rows.

        Args:
          columns: see ``offline.dense.read``; missing features are NaN.
          part: "" for the states of decisions, "next_" for those after them.
        """
        ...


class Values(Protocol):
    """Values that were fitted to rows, in folds; ``tabular.Tabular`` has some.

    Attributes:
      losses: of the steps of the fit, ``[calls, 3]``; or empty.
    """

    losses: list[np.ndarray]

    def predict(self, state: np.ndarray, mask: np.ndarray, fold: int) -> Predictions:
        """Return what was fitted to all rows but those of a fold.

        Args:
          state: f32 ``[N, F]``, normalized.
          mask: bool ``[N, A]``, possible actions.
          fold: number of the fold; 0 without folds.
        """
        ...


Networks = Callable[[Sample, tuple[int, ...], EvaluationSettings], Values]


class Fitted(NamedTuple):
    """What was learned from rows that are not used for evaluation.

    Attributes:
      values: values of actions.
      normalize: states ``[N, F]`` to inputs of networks.
      cells: cells of inputs.
      model: decisions by cell.
      visits: f64 ``[C, A]``, visits of the policy for each logged decision.
      rows, episodes: their numbers.
    """

    values: Values
    normalize: Normalize
    cells: Cells
    model: Model
    visits: np.ndarray
    rows: int
    episodes: int


def evaluate(
    found: Partition,
    candidate: Candidate,
    settings: EvaluationSettings,
    networks: Networks,
    normalize: Normalize | None = None,
    say: Callable[[str], Any] = lambda text: None,
) -> Evaluation:
    """Estimate what a policy is worth, see ``docs/evaluation.md``.

    Rows are read in blocks; memory does not grow with the table.

    Args:
      found: timeline with one reward in each sample.
      candidate: the policy.
      settings: settings.
      networks: fits networks to rows, see ``serving.fitted_q``.
      normalize: from raw states f32 ``[N, F]``, NaN where a feature is missing, to
        inputs of networks; None standardizes each feature.
      say: called with a line when a part begins.

    Raises:
      UserError: if the rows do not allow an evaluation.
    """
    extent = check(found, settings)
    say(f"fitting values of {candidate.name} by {settings.fit.steps:,} steps")
    fitted = fit(found, candidate, settings, networks, normalize)
    say(f"reading {extent.rows:,} rows of {extent.episodes:,} episodes")
    totals, counts = Totals(), {"gaps": 0, "outside": 0}
    sequences = Bootstrap(settings.resamples, settings.seed)
    decisions = Bootstrap(settings.resamples, settings.seed)
    squares = np.zeros([])
    threshold = None
    factor = _largest_factor(found, extent)
    for span in logged_rows.spans(found, EVALUATE, _BLOCK_ROWS):
        columns, gaps = logged_rows.read(found, span)
        counts["gaps"] += gaps
        if not len(columns["reward"]):
            continue
        rows, block, model = _judged(columns, candidate, fitted, settings)
        step = rows.reward, rows.ratio, *model
        if threshold is None:
            threshold = one_step_sums.thresholds(*step)
        decisions.add(one_step_sums.decisions(rows.episode, *step, threshold))
        totals.add_rows(block, rows.episode)
        counts["outside"] += _outside(rows.q[:, 0], extent, factor)
        size = extent.longest * rows.reward.shape[1]
        for part in parts(rows, max(_PADDED // size, 1)):
            padded = pad(part, extent.longest)
            terms = estimators.terms(padded, settings.cap)
            sequences.add(terms)
            squares = squares + summary.squares(terms)
            totals.add_episodes(padded, settings.cap)
    if sequences.sums is None:
        raise UserError(
            f"{found.folder} has no whole episode for evaluation; rows are missing in "
            "all of them"
        )
    say("resampling")
    return summary.evaluation(
        found, candidate.name, settings, fitted, totals, sequences, decisions, squares,
        counts,
    )  # fmt: skip


def fit(
    found: Partition,
    candidate: Candidate,
    settings: EvaluationSettings,
    networks: Networks,
    normalize: Normalize | None,
) -> Fitted:
    """Fit values and the model of cells."""
    split = EVALUATE if settings.folds else TRAIN
    spans = logged_rows.spans(found, split, settings.fit.rows)
    if not spans:
        raise UserError(
            f"{found.folder} has no rows for training, to which values could be "
            "fitted; pass --folds=5 to fit them to parts of the rows for evaluation"
        )
    columns, _ = logged_rows.read(found, spans[0])
    fold = _folds(columns, settings)
    order = np.argsort(fold, kind="stable")
    columns = {k: x[order] for k, x in columns.items()}
    if normalize is None:
        normalize = standardized(columns["state"])
    policy = candidate.probabilities(columns, "next_")
    policy = np.where(columns["terminated"][:, np.newaxis], 0.0, policy)
    sample = Sample(
        normalize(columns["state"]),
        normalize(columns["next_state"]),
        columns["action"],
        columns["mask"],
        policy.astype(np.float32),
        columns["discount"],
        _rewards(columns).astype(np.float32),
    )
    sizes: tuple[int, ...] = ()
    if settings.folds:
        sizes = tuple(map(int, np.bincount(fold, minlength=settings.folds)))
    if sizes and max(sizes) == len(fold):
        raise UserError(
            f"all episodes for evaluation in {found.folder} are in one fold; "
            "cross-fitting needs at least two. Log more episodes"
        )
    first = columns["ordinal"] == 1
    starts = {k: x[first] for k, x in columns.items()}
    grouped = cells.find(sample.state, policy.shape[1], settings.seed)
    cell, after = (cells.number(grouped, x) for x in (sample.state, sample.after))
    model = cells.model(
        grouped,
        cell,
        sample.action,
        after,
        policy,
        columns["discount"],
        sample.reward,
        candidate.probabilities(starts, ""),
        cell[first],
    )
    values: Values
    if settings.values == "tabular":
        values = Tabular(sample, sizes, grouped, cell, after)
    else:
        values = networks(sample, sizes, settings)
    episodes = int(first.sum())
    visits = cells.occupancy(model) * episodes
    return Fitted(values, normalize, grouped, model, visits, len(cell), episodes)


def standardized(states: np.ndarray) -> Normalize:
    """Return a function that standardizes features as in these rows; missing is 0."""
    states = np.nan_to_num(states).astype(np.float64)
    mean, deviation = states.mean(0), states.std(0)
    scale = np.where(deviation > 1e-9 * (1 + np.abs(mean)), deviation, 1.0)

    def normalize(raw: np.ndarray) -> np.ndarray:
        return ((np.nan_to_num(raw) - mean) / scale).astype(np.float32)

    return normalize


def _judged(
    columns: Columns, candidate: Candidate, fitted: Fitted, settings: EvaluationSettings
) -> tuple[Rows, Block, tuple[np.ndarray, np.ndarray]]:
    """Return rows with values, and the predicted rewards of their decisions."""
    action, number = columns["action"], np.arange(len(columns["action"]))
    policy = candidate.probabilities(columns, "").astype(np.float64)
    after = candidate.probabilities(columns, "next_").astype(np.float64)
    state = fitted.normalize(columns["state"])
    masks = columns["mask"], columns["next_mask"]
    fold = _folds(columns, settings)
    now = _predicted(fitted.values, state, masks[0], fold)
    nexts = _predicted(
        fitted.values, fitted.normalize(columns["next_state"]), masks[1], fold
    )
    logged = np.maximum(now.behavior[number, action], _LEAST).astype(np.float64)
    if settings.propensities == "logged":
        logged = columns["probability"].astype(np.float64)
    ratio = policy[number, action] / logged
    reward, q = _rewards(columns), now.q[number, action]
    ends = columns["terminated"]
    next_v = np.where(ends[:, np.newaxis], 0.0, _expected(after, nexts.q))
    discount = columns["discount"].astype(np.float64)
    rows = Rows(
        columns["episode"],
        ratio,
        reward,
        discount,
        ends,
        q,
        _expected(policy, now.q),
        next_v,
    )
    cell = cells.number(fitted.cells, state)
    error = reward + discount[:, np.newaxis] * next_v - q
    visits = fitted.visits[cell, action]
    block = Block(action, logged, policy, now.behavior, ratio, error, visits)
    return rows, block, (now.reward[number, action], _expected(policy, now.reward))


def _expected(policy: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.einsum("na,nam->nm", policy, values)


def _predicted(
    values: Values, state: np.ndarray, mask: np.ndarray, fold: np.ndarray
) -> Predictions:
    """Return predictions of what has not seen the rows."""
    numbers = np.unique(fold)
    if len(numbers) == 1:
        return values.predict(state, mask, int(numbers[0]))
    index = [np.flatnonzero(fold == k) for k in numbers]
    found = [
        values.predict(state[i], mask[i], int(k))
        for i, k in zip(index, numbers, strict=True)
    ]
    back = np.argsort(np.concatenate(index))
    return Predictions(*(np.concatenate(x)[back] for x in zip(*found, strict=True)))


def _folds(columns: Columns, settings: EvaluationSettings) -> np.ndarray:
    """Return the fold of each row, by the key of its episode."""
    return columns["episode"] % max(settings.folds, 1)


def _rewards(columns: Columns) -> np.ndarray:
    """Return rewards and metrics, f64 ``[N, M]``."""
    reward = columns["reward"].astype(np.float64)[:, np.newaxis]
    others = columns.get("metrics")
    return reward if others is None else np.hstack([reward, others])


def check(found: Partition, settings: EvaluationSettings) -> Extent:
    """Check that a policy can be evaluated on a timeline; return what it contains.

    Raises:
      UserError: if not.
    """
    logged_rows.check(found)
    extent = logged_rows.extent(found, EVALUATE)
    if not extent.rows:
        raise UserError(
            f"{found.folder} has no rows for evaluation; make the timeline again with "
            "a larger --eval_share"
        )
    missing = extent.rows - extent.propensities
    if settings.propensities == "logged" and missing:
        raise UserError(
            f"{missing:,} of {extent.rows:,} rows for evaluation in {found.folder} "
            "have no action_probability; log it, or pass --propensities=estimated to "
            "estimate it from the logged actions"
        )
    if extent.longest > _LONGEST:
        raise UserError(
            f"an episode in {found.folder} has {extent.longest:,} rows; expected at "
            f"most {_LONGEST:,}. Make the timeline again with --max_length_percentile "
            "or --time_window_limit"
        )
    return extent


def _largest_factor(found: Partition, extent: Extent) -> float:
    """Return the sum of the discounts of the longest episode."""
    gamma = found.manifest["config"]["gamma"]
    if found.manifest["config"]["discount"] != "step":
        gamma = 1.0
    if gamma == 1.0:
        return float(extent.longest)
    return 1 / (1 - gamma)


def _outside(q: np.ndarray, extent: Extent, factor: float) -> int:
    """Return how many values are larger or smaller than rewards make possible."""
    low, high = min(extent.least, 0) * factor, max(extent.most, 0) * factor
    slack = 0.05 * (high - low)
    return int(((q < low - slack) | (q > high + slack)).sum())
