"""Values that are fitted to rows which are not judged by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from tfagents_batch.errors import UserError
from tfagents_batch.evaluation import cells, logged_rows
from tfagents_batch.evaluation.cells import Cells
from tfagents_batch.evaluation.logged_rows import EVERY, Judges
from tfagents_batch.evaluation.settings import EvaluationSettings
from tfagents_batch.evaluation.values import FitSample, Predictions, Tabular, Values
from tfagents_batch.offline.table_reader import TRAIN, Columns, Partition

_ERRORS = 200_000  # rows whose errors are measured, at most
# Root mean square of a column that is standardized; normalized ones have at most 1.
_LARGE = 1.5

Normalize = Callable[[np.ndarray], np.ndarray]


class Candidate(Protocol):
    """Policy that is evaluated."""

    name: str

    def probabilities(self, columns: Columns, part: str) -> np.ndarray:
        """Return pi_e(a | s), f ``[N, A]``, in the states of rows.

        Args:
          columns: see ``offline.table_reader.read``; missing features are NaN.
          part: "" for the states of decisions, "next_" for those after them.
        """
        ...


Networks = Callable[[FitSample, tuple[int, ...], EvaluationSettings], Values]


class Fitted(NamedTuple):
    """Values and cells of rows that do not judge."""

    values: Values  # values of actions
    normalize: Normalize  # states [N, F] to inputs of networks
    cells: Cells  # cells of inputs
    reach: float  # see cells.reach
    visits: np.ndarray  # f64 [C, A], visits of the policy for each logged decision
    noise: np.ndarray  # f64 [C, A, M], mean squared error of r + discount v' - q
    # rows, episodes: their numbers
    rows: int
    episodes: int


def fit(
    found: Partition,
    candidate: Candidate,
    settings: EvaluationSettings,
    networks: Networks,
    normalize: Normalize | None,
    judges: Judges = EVERY,
) -> Fitted:
    """Fit values and the model of cells, with the arguments of ``evaluate.evaluate``.

    UserError if there are no rows to which values could be fitted.
    """
    where = judges.where if settings.folds else f"split = '{TRAIN}'"
    spans = logged_rows.spans(found, where, settings.fit.rows)
    if not spans:
        raise UserError(
            f"{found.folder} has no rows for training, to which values could be "
            "fitted; leave --folds out to fit them to parts of the rows for evaluation"
        )
    columns, _ = logged_rows.read(found, spans[0])
    if not len(columns["reward"]):
        raise UserError(
            f"{found.folder} has no whole episode to which values could be fitted; "
            "rows are missing in all of them"
        )
    fold = folds(columns, settings)
    order = np.argsort(fold, kind="stable")
    columns = {k: x[order] for k, x in columns.items()}
    normalize = inputs(normalize, columns["state"])
    policy = candidate.probabilities(columns, "next_")
    discount = np.where(columns["terminated"], 0.0, columns["discount"])
    sample = FitSample(
        normalize(columns["state"]),
        normalize(columns["next_state"]),
        columns["action"],
        columns["mask"],
        policy.astype(np.float32),
        discount.astype(np.float32),
        rewards(columns).astype(np.float32),
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
    followed = policy, discount, sample.reward
    model = cells.model(grouped, cell, sample.action, after, *followed)
    start = cells.starts(grouped, cell[first], candidate.probabilities(starts, ""))
    values: Values
    if settings.values == "tabular":
        values = Tabular(sample, sizes, grouped, cell, after)
    else:
        values = networks(sample, sizes, settings)
    episodes = int(first.sum())
    visits = cells.occupancy(model, start) * episodes
    some = np.arange(0, len(cell), -(-len(cell) // _ERRORS))
    part = FitSample(*(x[some] for x in sample))
    masks, fold = columns["next_mask"][some], fold[order][some]
    q = predicted(values, part.state, part.mask, fold).q
    later = predicted(values, part.after, masks, fold).q
    error = part.reward + part.discount[:, np.newaxis] * expected(part.policy, later)
    error -= q[np.arange(len(some)), part.action]
    noise = cells.noise(model, cell[some], part.action, error)
    reach = min(cells.reach(model, start), 1.0)
    return Fitted(values, normalize, grouped, reach, visits, noise, len(cell), episodes)


def expected(policy: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the mean of values ``[N, A, M]`` over actions, ``[N, M]``."""
    return np.einsum("na,nam->nm", policy, values)


def inputs(normalize: Normalize | None, states: np.ndarray) -> Normalize:
    """Return a normalization to numbers that are not far from 0.

    Fitted Q evaluation diverges on large inputs. Columns that are large after
    ``normalize`` are standardized as in these rows: log odds of specifications of
    version 1, and raw features.

    Args:
      normalize: see ``evaluate.evaluate``; None standardizes all columns, missing is 0.
      states: ``[N, F]``.
    """
    first = normalize or np.nan_to_num
    seen = first(states).astype(np.float64)
    mean, deviation = seen.mean(0), seen.std(0)
    spread = deviation > 1e-9 * (1 + np.abs(mean))
    # Categories keep 0 and 1, however rare they are.
    changed = (normalize is None) | (np.hypot(mean, deviation) > _LARGE)
    mean = np.where(changed, mean, 0.0)
    scale = np.where(changed & spread, deviation, 1.0)

    def normalized(raw: np.ndarray) -> np.ndarray:
        return ((first(raw) - mean) / scale).astype(np.float32)

    return normalized


def predicted(
    values: Values, state: np.ndarray, mask: np.ndarray, fold: np.ndarray
) -> Predictions:
    """Return predictions of what has not seen the rows."""
    numbers = np.unique(fold)
    if len(numbers) == 1:
        return values.predict(state, mask, int(numbers[0]))
    index = [np.flatnonzero(fold == k) for k in numbers]
    pairs = zip(index, numbers, strict=True)
    found = [values.predict(state[i], mask[i], int(k)) for i, k in pairs]
    back = np.argsort(np.concatenate(index))
    return Predictions(*(np.concatenate(x)[back] for x in zip(*found, strict=True)))


def folds(columns: Columns, settings: EvaluationSettings) -> np.ndarray:
    """Return the fold of each row, by the key of its episode."""
    return columns["episode"] % max(settings.folds, 1)


def rewards(columns: Columns) -> np.ndarray:
    """Return rewards and metrics, f64 ``[N, M]``."""
    reward = columns["reward"].astype(np.float64)[:, np.newaxis]
    others = columns.get("metrics")
    return reward if others is None else np.hstack([reward, others])
