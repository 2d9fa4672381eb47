"""Estimators of a policy's value from episodes of another policy, as ratios of sums.

Each estimator is a function of sums over episodes. So rows are read once, in blocks,
and a bootstrap over episodes (``totals.Bootstrap``) is that function of weighted sums.

W_t is the product of the ratios pi_e / pi_b up to step t, and W_{-1} = 1. D_t is the
product of the discounts before step t. q_t = Q(s_t, a_t), and v_t = sum_a pi_e(a | s_t)
Q(s_t, a).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tfagents_batch.evaluation.episode_rows import PaddedEpisodes

BLENDS = 25  # of MAGIC, at most
_INTERVAL = (5, 95)  # percentiles of resamples between which no bias is assumed
_ROUNDS = 200


class Terms(NamedTuple):
    """Summands of episodes; of n episodes ``[n, ...]``, or their sums ``[...]``."""

    one: np.ndarray  # [], 1
    # [M], sum_t D_t r_t, and the value of the last state if it goes on
    returned: np.ndarray
    direct: np.ndarray  # [M], v_0
    ips: np.ndarray  # [M], W of the whole episode times its return
    pdis: np.ndarray  # [M], sum_t D_t W_t r_t
    sdr: np.ndarray  # [M], sum_t D_t (W_t (r_t - q_t) + W_{t-1} v_t)
    weight: np.ndarray  # [T + 1], W_{t-1}
    decision: np.ndarray  # [T, M], D_t W_t r_t
    control: np.ndarray  # [T, M], D_t W_t (r_t - q_t)
    model: np.ndarray  # [T + 1, M], D_t W_{t-1} v_t
    # [T + 1, M], the part of model after episodes that were cut off
    closing: np.ndarray


def terms(episodes: PaddedEpisodes, cap: float = np.inf) -> Terms:
    """Return what each episode adds.

    Weights above ``cap`` count as this (Ionides 2008). It bounds the variance. Doubly
    robust estimates stay unbiased if Q is right.
    """
    weight = np.minimum(episodes.weight, cap)[..., np.newaxis]
    discount = episodes.discount[..., np.newaxis]
    after = np.arange(episodes.v.shape[1]) == episodes.length[:, np.newaxis]
    after &= episodes.cut[:, np.newaxis]
    end = np.where(after[..., np.newaxis], episodes.v, 0.0)
    reward, closed = discount[:, :-1] * episodes.reward, discount * end
    error = reward - discount[:, :-1] * episodes.q
    returned = reward.sum(1)
    # An episode that was cut off ends with the value of its last state: that of pi_e,
    # or of the logging policy in the return of the log.
    ips = weight[:, -1] * (returned + closed.sum(1))
    decision, control = weight[:, 1:] * reward, weight[:, 1:] * error
    model, closing = weight * discount * episodes.v, weight * closed
    return Terms(
        np.ones(len(episodes.length)),
        returned + discount[:, -1] * episodes.closing,
        episodes.v[:, 0],
        ips,
        decision.sum(1) + closing.sum(1),
        control.sum(1) + model.sum(1),
        weight[..., 0],
        decision,
        control,
        model,
        closing,
    )


def logged(sums: Terms) -> np.ndarray:
    """Return the mean discounted return of the log, ``[..., M]``."""
    return _mean(sums.returned, sums)


def direct(sums: Terms) -> np.ndarray:
    """Return the mean of v_0, the direct method; with a fitted Q, FQE's estimate."""
    return _mean(sums.direct, sums)


def ips(sums: Terms) -> np.ndarray:
    """Return importance sampling of whole episodes (Precup et al. 2000)."""
    return _mean(sums.ips, sums)


def wis(sums: Terms) -> np.ndarray:
    """Return weighted importance sampling of whole episodes (Precup et al. 2000)."""
    return sums.ips / sums.weight[..., -1:]


def pdis(sums: Terms) -> np.ndarray:
    """Return per-decision importance sampling (Precup et al. 2000)."""
    return _mean(sums.pdis, sums)


def wpdis(sums: Terms) -> np.ndarray:
    """Return weighted per-decision importance sampling.

    It divides by the sum of the weights at each step (Thomas 2015, section 3.9).
    """
    weight = sums.weight[..., np.newaxis]
    ended = (sums.closing / weight).sum(-2)
    return (sums.decision / weight[..., 1:, :]).sum(-2) + ended


def sdr(sums: Terms) -> np.ndarray:
    """Return the doubly robust estimate for sequences (Jiang and Li 2016, eq. 10)."""
    return _mean(sums.sdr, sums)


def wsdr(sums: Terms) -> np.ndarray:
    """Return weighted doubly robust (Thomas and Brunskill 2016, section 5)."""
    return blends(sums)[..., -1, :]


def blends(sums: Terms) -> np.ndarray:
    """Return blends of weights up to a step and the model, ``[..., T + 1, M]``.

    Entry j + 1 is g^(j) of Thomas and Brunskill (2016), section 6: weighted doubly
    robust terms up to step j, and the model's value from step j + 1 on. The first entry
    is the direct method, the last one weighted doubly robust.
    """
    weight = sums.weight[..., np.newaxis]
    control = np.cumsum(sums.control / weight[..., 1:, :], -2)
    model = np.cumsum(sums.model / weight, -2)
    return model + np.concatenate([np.zeros_like(control[..., :1, :]), control], -2)


ESTIMATORS = {
    "fqe": direct,
    "ips": ips,
    "wis": wis,
    "pdis": pdis,
    "wpdis": wpdis,
    "sdr": sdr,
    "wsdr": wsdr,
}


def _mean(total: np.ndarray, sums: Terms) -> np.ndarray:
    return total / np.asarray(sums.one)[..., np.newaxis]


def magic(sums: Terms, resampled: Terms, resamples: int = 200):
    """Return MAGIC's estimate, and those of at most ``resamples`` resamples.

    It is the best blend of importance weights and a model (Thomas and Brunskill 2016,
    section 6). The covariance of the blends is that of the resamples ``[B, ...]``. The
    bias of a blend is its distance from the 90 % interval of weighted doubly robust.

    Returns:
      The estimate ``[M]``, those of resamples ``[B', M]``, and the shares in the blend
      ``[2, M]``: of the model, and of weighted doubly robust.
    """
    # [T + 1, M], [B, T + 1, M]
    whole, drawn = blends(sums), blends(resampled)
    steps = np.unique(np.linspace(0, len(whole) - 1, BLENDS).round().astype(int))
    whole, drawn = whole[steps], drawn[:, steps]
    known = np.isfinite(drawn).all((-2, -1))
    if known.sum() < 2 or not np.isfinite(whole).all():  # all weights are 0
        unknown = np.full(whole.shape[-1], np.nan)
        return unknown, np.zeros([0, len(unknown)]), np.stack([unknown, unknown])
    estimates, others, shares = [], [], []
    for metric in range(whole.shape[-1]):
        all_, parts = whole[:, metric], drawn[..., metric]
        covariance = np.cov(parts[known], rowvar=False)
        low, high = np.percentile(parts[known, -1], _INTERVAL) - all_[-1]

        def blend(g, covariance=covariance, low=low, high=high):
            far = g - g[-1]
            bias = far - np.clip(far, low, high)
            return smallest(covariance + np.outer(bias, bias))

        share = blend(all_)
        estimates.append(share @ all_)
        shares.append(share[[0, -1]])
        pairs = zip(parts[:resamples], known, strict=False)
        others.append([blend(g) @ g if fine else np.nan for g, fine in pairs])
    return np.array(estimates), np.array(others).T, np.array(shares).T


def smallest(matrix: np.ndarray) -> np.ndarray:
    """Return x >= 0 with sum 1 that makes x' A x smallest, f64 ``[K]``.

    A is positive semidefinite, f64 ``[K, K]``. An active-set method: a coordinate that
    would become negative is left out, and the one that lowers the value most comes
    back, until none does.
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
