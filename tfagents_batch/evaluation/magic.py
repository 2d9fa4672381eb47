"""MAGIC: the best blend of importance weights and a model.

Thomas and Brunskill (2016), Data-Efficient Off-Policy Policy Evaluation, section 6.
"""

from __future__ import annotations

import numpy as np

from tfagents_batch.evaluation import estimators
from tfagents_batch.evaluation.estimators import Terms

BLENDS = 25  # at most
_INTERVAL = (5, 95)  # percentiles of resamples between which no bias is assumed
_ROUNDS = 200


def magic(sums: Terms, resampled: Terms, resamples: int = 200):
    """Return the estimate, and those of resamples.

    The covariance of the blends is that of the resamples. The bias of a blend is its
    distance from the 90 % interval of weighted doubly robust.

    Args:
      sums: sums over all episodes.
      resampled: sums over resamples of the episodes, ``[B, ...]``.
      resamples: number of resamples whose estimate is returned, at most.

    Returns:
      The estimate ``[M]``, those of resamples ``[B', M]``, and the shares in the blend
      ``[2, M]``: of the model, and of weighted doubly robust.
    """
    # [T + 1, M], [B, T + 1, M]
    blends, drawn = estimators.blends(sums), estimators.blends(resampled)
    steps = np.unique(np.linspace(0, len(blends) - 1, BLENDS).round().astype(int))
    blends, drawn = blends[steps], drawn[:, steps]
    known = np.isfinite(drawn).all((-2, -1))
    if known.sum() < 2 or not np.isfinite(blends).all():  # all weights are 0
        unknown = np.full(blends.shape[-1], np.nan)
        return unknown, np.zeros([0, len(unknown)]), np.stack([unknown, unknown])
    found, others, shares = [], [], []
    for metric in range(blends.shape[-1]):
        all_, each = blends[:, metric], drawn[..., metric]
        covariance = np.cov(each[known], rowvar=False)
        low, high = np.percentile(each[known, -1], _INTERVAL) - all_[-1]

        def blend(g, covariance=covariance, low=low, high=high):
            far = g - g[-1]
            bias = far - np.clip(far, low, high)
            return smallest(covariance + np.outer(bias, bias))

        share = blend(all_)
        found.append(share @ all_)
        shares.append(share[[0, -1]])
        pairs = zip(each[:resamples], known, strict=False)
        others.append([blend(g) @ g if fine else np.nan for g, fine in pairs])
    return np.array(found), np.array(others).T, np.array(shares).T


def smallest(matrix: np.ndarray) -> np.ndarray:
    """Return x >= 0 with sum 1 that makes x' A x smallest, f64 ``[K]``.

    Args:
      matrix: A, positive semidefinite, f64 ``[K, K]``.

    An active-set method: a coordinate that would become negative is left out, and the
    one that lowers the value most comes back, until none does.
    """
    size = len(matrix)
    scale = np.trace(matrix) / size
    if not scale > 0:
        return np.full(size, 1 / size)
    matrix = matrix / scale + 1e-10 * np.eye(size)
    x = np.zeros(size)
    x[np.diag(matrix).argmin()] = 1.0
    for _ in range(_ROUNDS):
        gradient = matrix @ x
        value = x @ gradient
        best = gradient.argmin()
        if gradient[best] >= value - 1e-12:
            break
        used = x > 0
        used[best] = True
        while True:
            inside = np.zeros(size)
            solved = np.linalg.solve(matrix[np.ix_(used, used)], np.ones(used.sum()))
            inside[used] = solved / solved.sum()
            if (inside[used] > 0).all():
                break
            falling = used & (inside <= 0)
            ratio = x[falling] / np.maximum(x[falling] - inside[falling], 1e-300)
            share = ratio.min()
            x = x + share * (inside - x)
            used &= ~(falling & (x <= 1e-14))
            x = np.where(used, np.maximum(x, 0), 0.0)
        x = inside
    return x
