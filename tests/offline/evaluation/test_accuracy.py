"""Estimates with exact values of a gridworld, and how often intervals cover."""

import numpy as np
import pytest

from tests.learning import gridworld
from tests.offline.evaluation import grid
from tfagents_batch.offline.evaluation import cells, estimators, magic
from tfagents_batch.offline.evaluation.bootstrap import Bootstrap
from tfagents_batch.offline.evaluation.episodes import Rows, pad

COVERED = (0.8, 0.2), (0.6, 0.4), (0.5, 0.5), (0.4, 0.6)


def estimates(logged, evaluated, seed, fitted=False, rows=10_000, resamples=300):
    """Return sums and resamples of a log with exact values, or fitted to half of it."""
    logging, policy = grid.policy(logged), grid.policy(evaluated)
    log = grid.log(logging, rows, seed)
    cell, action, after, end = (log[x] for x in ("cell", "action", "after", "end"))
    end = end.astype(bool)
    every = np.newaxis
    q = np.stack([gridworld.action_values(policy)] * 2)
    fold = log["episode"] % 2
    if fitted:
        q = np.stack([_fitted(log, policy, fold != k) for k in (0, 1)])
    value = (policy * q).sum(-1)
    given = Rows(
        log["episode"],
        policy[cell, action] / logging[cell, action],
        end[:, every].astype(float),
        np.full(len(cell), gridworld.GAMMA),
        end,
        q[fold, cell, action][:, every],
        value[fold, cell][:, every],
        np.where(end, 0, value[fold, after])[:, every],
    )
    padded = pad(given, int(np.bincount(log["episode"]).max()))
    found = Bootstrap(resamples, seed)
    found.add(estimators.terms(padded, 100))
    return found


def _fitted(log, policy, kept):
    states = np.eye(gridworld.CELLS)
    found = cells.Cells(gridworld.CELLS, True, states)
    cell, action, after, end = (
        log[x][kept] for x in ("cell", "action", "after", "end")
    )
    goes_on = (end == 0)[:, np.newaxis]
    none = np.zeros([0, 4]), np.zeros(0, int)
    factor = np.full(len(cell), gridworld.GAMMA)
    reward = end[:, np.newaxis].astype(float)
    given = policy[after] * goes_on, factor, reward
    return cells.values(cells.model(found, cell, action, after, *given, *none))[..., 0]


def _mean_errors(case, seeds):
    found = []
    for seed in range(seeds):
        bootstrap = estimates(*case, seed)
        values = [estimators.sdr(bootstrap.sums), estimators.wsdr(bootstrap.sums)]
        values.append(magic.magic(bootstrap.sums, bootstrap.resampled, 1)[0])
        found.append(np.ravel(values))
    return np.abs(np.array(found) / grid.value(grid.policy(case[1])) - 1).mean(0)


@pytest.mark.parametrize("case", [(1, 0.05), (0.4, 0.6)])
def test_exact_values_give_exact_estimates(case):
    assert _mean_errors(case, seeds=2).max() < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("case", grid.CASES)
def test_exact_values_give_exact_estimates_of_all_logs(case):
    sdr, wsdr, blend = _mean_errors(case, seeds=8)
    print(case, sdr, wsdr, blend)
    assert max(sdr, blend) <= 0.05
    assert wsdr <= 0.05 or case == (0.05, 1)


@pytest.mark.slow
@pytest.mark.parametrize("fitted", [False, True], ids=["exact", "fitted"])
@pytest.mark.parametrize("case", COVERED)
def test_intervals_cover_the_truth(case, fitted):
    truth = grid.value(grid.policy(case[1]))
    covered = np.zeros(2)
    for seed in range(100):
        found = estimates(*case, seed, fitted)
        for i, rule in enumerate((estimators.sdr, estimators.wsdr)):
            low, high = np.percentile(rule(found.resampled)[:, 0], [2.5, 97.5])
            covered[i] += low <= truth <= high
    print(case, fitted, covered)
    assert covered.min() >= 90
    assert covered.max() <= 98
