"""A model of logged decisions in which states are cells, solved exactly.

Equal states are a cell, or similar ones where there are too many. The model tells what
no average over rows can: how often a policy goes where the log has no decisions
(``reach``), and where values matter that were fitted to the log (``occupancy``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SUPPORT = 5  # rows with which a decision counts as known
MOST_PAIRS = 2048  # of a cell and an action: a dense system of equations is solved
_ROUNDS = 10  # of k-means
_SAMPLE = 20_000  # rows from which the centers are found


class Cells(NamedTuple):
    """Cells of states."""

    number: int  # of cells
    exact: bool  # whether each cell is one state
    centers: np.ndarray  # f64 [C, F]; of normalized states if not exact


class CellModel(NamedTuple):
    """The logged decisions by cell and action."""

    rows: np.ndarray  # f64 [C, A], number of rows
    # f64 [C A, C A], mean over the rows of a pair of the discount times the probability
    # of the next pair under the evaluated policy
    moves: np.ndarray
    reward: np.ndarray  # f64 [C A, M], mean reward and metrics


def find(states: np.ndarray, actions: int, seed: int = 0) -> Cells:
    """Return cells of normalized states, f ``[N, F]``; ``actions`` is their number."""
    most = max(MOST_PAIRS // actions, 1)
    states = np.ascontiguousarray(states, np.float64) + 0.0  # one sign of 0
    keys = _keys(states)
    first = np.unique(keys, return_index=True)[1]
    if len(first) <= min(most, len(states) // (SUPPORT * actions)):
        return Cells(len(first), True, states[first])
    random = np.random.default_rng(seed)
    sample = states
    if len(states) > _SAMPLE:
        sample = states[random.choice(len(states), _SAMPLE, replace=False)]
    most = max(min(most, 256, len(sample) // 50), 1)
    return Cells(most, False, _centers(sample, most, random))


def number(cells: Cells, states: np.ndarray) -> np.ndarray:
    """Return the cell of each state, int ``[N]``: the nearest center's."""
    states = np.asarray(states, np.float64)
    nearest = np.empty(len(states), np.int64)
    norm = (cells.centers**2).sum(1)
    size = max(2**22 // cells.number, 1)
    for i in range(0, len(states), size):
        part = states[i : i + size]
        nearest[i : i + size] = (norm - 2 * part @ cells.centers.T).argmin(1)
    return nearest


def model(
    cells: Cells,
    cell: np.ndarray,
    action: np.ndarray,
    after: np.ndarray,
    policy: np.ndarray,
    factor: np.ndarray,
    reward: np.ndarray,
) -> CellModel:
    """Return the model of rows.

    Args:
      cells: the cells.
      cell, after: int ``[N]``, cells of the state and of the next one.
      action: int ``[N]``, logged action.
      policy: f ``[N, A]``, pi_e(a | s') in the next states.
      factor: f ``[N]``, discount, 0 after a terminal row.
      reward: f ``[N, M]``.
    """
    actions = policy.shape[1]
    size = cells.number * actions
    pair = cell * actions + action
    rows = np.bincount(pair, minlength=size).astype(np.float64)
    known = np.maximum(rows, 1)[:, np.newaxis]
    moves = np.empty([size, cells.number, actions])
    where = pair * cells.number + after
    for a in range(actions):
        total = np.bincount(where, factor * policy[:, a], size * cells.number)
        moves[..., a] = total.reshape(size, cells.number)
    total = [np.bincount(pair, x, size) for x in reward.T]
    return CellModel(
        rows.reshape(cells.number, actions),
        moves.reshape(size, size) / known,
        np.stack(total, 1) / known,
    )


def starts(cells: Cells, first: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """Return the share of each pair at the start of n episodes, f64 ``[C A]``.

    ``first`` are the cells of the first states, int ``[n]``, and ``policy`` is
    pi_e(a | s) there, f ``[n, A]``.
    """
    total = np.zeros([cells.number, policy.shape[1]])
    np.add.at(total, first, policy)
    return total.ravel() / len(first)


def values(model: CellModel) -> np.ndarray:
    """Return Q of the evaluated policy in the model, ``[C, A, M]``.

    An action without rows has the mean value of the actions of its cell that have rows,
    each counted once, and 0 where the cell has none.
    """
    seen = model.rows > 0
    share = seen / np.maximum(seen.sum(1, keepdims=True), 1)

    def filled(x: np.ndarray) -> np.ndarray:
        by_cell = x.reshape(*seen.shape, -1)
        mean = np.einsum("ca,cam->cm", share, by_cell)[:, np.newaxis]
        return np.where(seen[..., np.newaxis], by_cell, mean).reshape(x.shape)

    q = np.linalg.solve(_less(filled(model.moves)), filled(model.reward))
    return q.reshape(*seen.shape, -1)


def logged_values(
    count: int,
    cell: np.ndarray,
    after: np.ndarray,
    factor: np.ndarray,
    reward: np.ndarray,
) -> np.ndarray:
    """Return values of the logging policy, f64 ``[C, M]``, see ``model``."""
    known = np.maximum(np.bincount(cell, minlength=count), 1)[:, np.newaxis]
    moves = np.bincount(cell * count + after, factor, count * count)
    total = np.stack([np.bincount(cell, x, count) for x in reward.T], 1)
    return np.linalg.solve(_less(moves.reshape(count, count) / known), total / known)


def noise(
    model: CellModel, cell: np.ndarray, action: np.ndarray, error: np.ndarray
) -> np.ndarray:
    """Return the mean of the squared ``error`` of each pair, f64 ``[C, A, M]``.

    Rows are in ``cell`` and have ``action``, int ``[N]``, and an error f64 ``[N, M]``.
    """
    size = model.rows.size
    pair = cell * model.rows.shape[1] + action
    rows = np.maximum(np.bincount(pair, minlength=size), 1)
    means = [np.bincount(pair, x**2, size) / rows for x in error.T]
    return np.stack(means, 1).reshape(*model.rows.shape, -1)


def reach(model: CellModel, start: np.ndarray) -> float:
    """Return the discounted chance that the policy ever takes an unsupported decision.

    That is one with less than ``SUPPORT`` rows. U(s, a) = 1 if it is unsupported, else
    the mean of the discount times sum_a pi_e(a | s') U(s', a). For ``start`` see
    ``starts``.
    """
    unsupported = model.rows.ravel() < SUPPORT
    moves = np.where(unsupported[:, np.newaxis], 0.0, model.moves)
    chance = np.linalg.solve(_less(moves), unsupported.astype(np.float64))
    return float(start @ chance)


def occupancy(model: CellModel, start: np.ndarray) -> np.ndarray:
    """Return the discounted number of visits of the policy per row, ``[C, A]``.

    It is the ratio by which a row of a pair counts in the value of the policy, times
    the number of rows (Liu et al. 2018; here from the model).
    """
    visits = np.linalg.solve(_less(model.moves.T), start)
    return visits.reshape(model.rows.shape) / np.maximum(model.rows, 1)


def _less(moves: np.ndarray) -> np.ndarray:
    """Return 1 - moves, which can be inverted even if a loop is never left."""
    return np.eye(len(moves)) - moves * (1 - 1e-9)


def _keys(states: np.ndarray) -> np.ndarray:
    """Return a hash of each state, u64 ``[N]``."""
    bits = states.view(np.uint64)
    random = np.random.default_rng(0)
    odd = random.integers(0, 2**63, bits.shape[1], np.uint64) * 2 + 1
    mixed = (bits ^ (bits >> np.uint64(29))) * odd
    return (mixed ^ (mixed >> np.uint64(32))).sum(1, dtype=np.uint64)


def _centers(sample: np.ndarray, count: int, random: np.random.Generator):
    """Return centers by k-means, from rows far from each other (k-means++)."""
    chosen = [sample[random.integers(len(sample))]]
    distance = ((sample - chosen[0]) ** 2).sum(1)
    for _ in range(count - 1):
        total = distance.sum()
        weight = distance / total if total else None
        chosen.append(sample[random.choice(len(sample), p=weight)])
        distance = np.minimum(distance, ((sample - chosen[-1]) ** 2).sum(1))
    centers = np.array(chosen)
    for _ in range(_ROUNDS):
        nearest = number(Cells(count, False, centers), sample)
        size = np.bincount(nearest, minlength=count)[:, np.newaxis]
        total = np.stack([np.bincount(nearest, x, count) for x in sample.T], 1)
        centers = np.where(size, total / np.maximum(size, 1), centers)
    return centers
