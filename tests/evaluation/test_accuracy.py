"""Estimates with exact values of a gridworld."""

import numpy as np
import pytest

from tests.evaluation import grid
from tests.learning import gridworld
from tfagents_batch.evaluation import sequential
from tfagents_batch.evaluation.episode_rows import EpisodeRows, pad
from tfagents_batch.evaluation.totals import Bootstrap


def estimates(logged, evaluated, seed):
    """Return sums and resamples of a log of 10,000 rows with exact values."""
    logging, policy = grid.policy(logged), grid.policy(evaluated)
    log = grid.log(logging, 10_000, seed)
    cell, action, after, end = (log[x] for x in ("cell", "action", "after", "end"))
    end = end.astype(bool)
    q = gridworld.action_values(policy)
    value = (policy * q).sum(-1)
    given = EpisodeRows(
        episode=log["episode"],
        ratio=policy[cell, action] / logging[cell, action],
        reward=end[:, np.newaxis].astype(float),
        discount=np.full(len(cell), gridworld.GAMMA),
        terminated=end,
        q=q[cell, action][:, np.newaxis],
        v=value[cell][:, np.newaxis],
        next_v=np.where(end, 0, value[after])[:, np.newaxis],
        next_logged=np.zeros([len(cell), 1]),
        noise=np.zeros([len(cell), 1]),
    )
    padded = pad(given, int(np.bincount(log["episode"]).max()))
    found = Bootstrap(300, seed)
    found.add(sequential.terms(padded, 100))
    return found


def _mean_errors(case, seeds):
    found = []
    for seed in range(seeds):
        bootstrap = estimates(*case, seed)
        values = [sequential.sdr(bootstrap.sums), sequential.wsdr(bootstrap.sums)]
        values.append(sequential.magic(bootstrap.sums, bootstrap.resampled, 1)[0])
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
