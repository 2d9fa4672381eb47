"""Settings of an evaluation, and values fitted to rows which are not judged by them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

import numpy as np

from tfagents_batch import config
from tfagents_batch.config import number, option
from tfagents_batch.errors import UserError
from tfagents_batch.evaluation import cells, episode_rows
from tfagents_batch.evaluation.cells import Cells
from tfagents_batch.evaluation.episode_rows import EVERY, Judges
from tfagents_batch.offline.table_reader import TRAIN, Columns, Partition

_ERRORS = 200_000  # rows whose errors are measured, at most
# Root mean square of a column that is standardized; normalized ones have at most 1.
_LARGE = 1.5

_PASSES = 500  # over the rows of a fit, at most, unless few steps are too few

Normalize = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class FitSettings:
    """Settings of fitted Q evaluation by networks."""

    steps: int | None = option(
        None,
        "gradient steps; none: 500 passes over the rows of a fit, 500 to 10,000 steps",
        least=1,
    )
    batch_size: int = option(512, "rows of a step, of each fold", least=1)
    hidden: tuple[int, ...] = option((64, 64), "units of the hidden layers", least=1)
    learning_rate: float = number(
        3e-3, "learning rate at the start; it falls linearly to 0", above=0
    )
    target_tau: float = number(0.05, "step of the target network", above=0, most=1)
    rows: int = option(1_000_000, "rows to fit, at most", least=1)

    def steps_of(self, rows: int) -> int:
        """Return the gradient steps of a fit to so many rows.

        Many passes over few rows learn the chance in them, and estimates that use these
        values have a larger error than those without.
        """
        if self.steps is not None:
            return self.steps
        return min(max(_PASSES * rows // self.batch_size, 500), 10_000)


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


class FitSample(NamedTuple):
    """Rows to fit, in the order of their folds."""

    # state, after: f32 [N, F], normalized states and next states
    state: np.ndarray
    after: np.ndarray
    action: np.ndarray  # int32 [N]
    mask: np.ndarray  # bool [N, A], actions that were possible
    policy: np.ndarray  # f32 [N, A], pi_e(a | s')
    discount: np.ndarray  # f32 [N], 0 after a terminal row
    reward: np.ndarray  # f32 [N, M]


class Predictions(NamedTuple):
    """Predictions in N states."""

    # q, reward: f64 [N, A, M], value and next reward of every action
    q: np.ndarray
    reward: np.ndarray
    behavior: np.ndarray  # f [N, A], the logging policy
    logged: np.ndarray  # f64 [N, M], value of the logging policy


class Values(Protocol):
    """Values that were fitted to rows, in folds."""

    # Losses of the steps of the fit, one row for each call of a program, that of Q
    # first; or empty
    losses: list[np.ndarray]

    def predict(self, state: np.ndarray, mask: np.ndarray, fold: int) -> Predictions:
        """Return what was fitted to all rows but those of a fold; 0 without folds.

        ``state`` is f32 ``[N, F]``, normalized, and ``mask`` bool ``[N, A]``.
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
    timeline: Partition,
    candidate: Candidate,
    settings: EvaluationSettings,
    networks: Networks,
    normalize: Normalize | None,
    judges: Judges = EVERY,
) -> Fitted:
    """Fit values and the model of cells, with the arguments of ``evaluate``.

    UserError if there are no rows to which values could be fitted.
    """
    where = judges.where if settings.folds else f"split = '{TRAIN}'"
    spans = episode_rows.spans(timeline, where, settings.fit.rows)
    if not spans:
        raise UserError(
            f"{timeline.folder} has no rows for training, to which values could be "
            "fitted; leave --folds out to fit them to parts of the rows for evaluation"
        )
    columns, _ = episode_rows.read(timeline, spans[0])
    if not len(columns["reward"]):
        raise UserError(
            f"{timeline.folder} has no whole episode to which values could be fitted; "
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
            f"all episodes for evaluation in {timeline.folder} are in one fold; "
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
    ``normalize`` are standardized as in these ``states [N, F]``: log odds of
    specifications of version 1, and raw features. None standardizes all columns, and
    missing is 0.
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
    parts = [values.predict(state[i], mask[i], int(k)) for i, k in pairs]
    back = np.argsort(np.concatenate(index))
    return Predictions(*(np.concatenate(x)[back] for x in zip(*parts, strict=True)))


def folds(columns: Columns, settings: EvaluationSettings) -> np.ndarray:
    """Return the fold of each row, by the key of its episode."""
    return columns["episode"] % max(settings.folds, 1)


def rewards(columns: Columns) -> np.ndarray:
    """Return rewards and metrics, f64 ``[N, M]``."""
    reward = columns["reward"].astype(np.float64)[:, np.newaxis]
    others = columns.get("metrics")
    return reward if others is None else np.hstack([reward, others])


class Tabular:
    """Values of cells, of K folds; some ``Values``; see ``cells``.

    Args:
      rows: the rows.
      folds: number of rows of each fold, K >= 2; or empty: values of all rows.
      grouped: the cells.
      cell, after: int ``[N]``, cells of the states and next states.
    """

    def __init__(
        self,
        rows: FitSample,
        folds: tuple[int, ...],
        grouped: Cells,
        cell: np.ndarray,
        after: np.ndarray,
    ):
        self._cells = grouped
        self.losses: list[np.ndarray] = []  # there are no steps
        self._folds: list[Predictions] = []
        sizes = folds or (0,)
        for end, size in zip(np.cumsum(sizes), sizes, strict=True):
            kept = np.r_[0 : end - size, end : len(cell)]
            part = FitSample(*(x[kept] for x in rows))
            self._folds.append(_predictions(part, grouped, cell[kept], after[kept]))

    def predict(self, state: np.ndarray, mask: np.ndarray, fold: int) -> Predictions:
        """Return predictions of what has not seen a fold, see ``Values``."""
        cell = cells.number(self._cells, state)
        q, reward, behavior, logged = (x[cell] for x in self._folds[fold])
        behavior = np.where(mask, behavior, 0)
        total = behavior.sum(1, keepdims=True)
        behavior = np.where(total > 0, behavior / np.maximum(total, 1e-12), 0)
        return Predictions(q, reward, behavior, logged)


def _predictions(
    rows: FitSample, grouped: Cells, cell: np.ndarray, after: np.ndarray
) -> Predictions:
    """Return the values of all cells."""
    followed = rows.discount, rows.reward
    model = cells.model(grouped, cell, rows.action, after, rows.policy, *followed)
    reward = model.reward.reshape(*model.rows.shape, -1)
    logged = cells.logged_values(grouped.number, cell, after, *followed)
    # Few rows of a cell do not tell that an action is never taken there: all cells
    # count as one row.
    behavior = model.rows + model.rows.sum(0) / model.rows.sum()
    return Predictions(cells.values(model), reward, behavior, logged)
