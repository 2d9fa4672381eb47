"""Values that are fitted to rows, and those of cells, which are solved exactly."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from tfagents_batch.evaluation import cells
from tfagents_batch.evaluation.cells import Cells


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
    """Values that were fitted to rows, in folds.

    Attributes:
      losses: of the steps of the fit, one row for each call of a program, that of Q
        first; or empty.
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


class Tabular:
    """Values of cells, of K folds; some ``Values``; see ``cells``.

    Args:
      rows: the rows.
      folds: number of rows of each fold, K >= 2; or empty: values of all rows.
      found: the cells.
      cell, after: int ``[N]``, cells of the states and next states.
    """

    def __init__(
        self,
        rows: FitSample,
        folds: tuple[int, ...],
        found: Cells,
        cell: np.ndarray,
        after: np.ndarray,
    ):
        self._cells = found
        self.losses: list[np.ndarray] = []  # there are no steps
        ends = np.cumsum(folds) if folds else [0]
        sizes = folds or (0,)
        self._folds: list[Predictions] = []
        for end, size in zip(ends, sizes, strict=True):
            kept = np.r_[0 : end - size, end : len(cell)]
            part = FitSample(*(x[kept] for x in rows))
            self._folds.append(_predictions(part, found, cell[kept], after[kept]))

    def predict(self, state: np.ndarray, mask: np.ndarray, fold: int) -> Predictions:
        """Return predictions of what has not seen a fold, see ``Values``."""
        found = self._folds[fold]
        number = cells.number(self._cells, state)
        behavior = np.where(mask, found.behavior[number], 0)
        total = behavior.sum(1, keepdims=True)
        behavior = np.where(total > 0, behavior / np.maximum(total, 1e-12), 0)
        values = found.q[number], found.reward[number], behavior
        return Predictions(*values, found.logged[number])


def _predictions(
    rows: FitSample, found: Cells, cell: np.ndarray, after: np.ndarray
) -> Predictions:
    """Return the values of all cells."""
    followed = rows.discount, rows.reward
    model = cells.model(found, cell, rows.action, after, rows.policy, *followed)
    reward = model.reward.reshape(*model.rows.shape, -1)
    logged = cells.logged_values(found.number, cell, after, *followed)
    # Few rows of a cell do not tell that an action is never taken there: all cells
    # count as one row.
    behavior = model.rows + model.rows.sum(0) / model.rows.sum()
    return Predictions(cells.values(model), reward, behavior, logged)
