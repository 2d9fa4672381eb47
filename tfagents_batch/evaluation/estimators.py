"""Estimators of a policy's value from episodes of another policy, as ratios of sums.

Each estimator is a function of sums over episodes. So rows are read once, in blocks,
and a bootstrap over episodes (see ``bootstrap``) is the same function of weighted sums.

W_t is the product of the ratios pi_e / pi_b up to step t, and W_{-1} = 1. D_t is the
product of the discounts before step t. q_t = Q(s_t, a_t), and v_t = sum_a pi_e(a | s_t)
Q(s_t, a).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tfagents_batch.evaluation.episodes import Episodes


class Terms(NamedTuple):
    """What episodes add to the sums; of n episodes ``[n, ...]``, or sums ``[...]``.

    Attributes:
      one: ``[]``, 1.
      returned: ``[M]``, sum_t D_t r_t, and the value of the last state if it goes on.
      direct: ``[M]``, v_0.
      ips: ``[M]``, W of the whole episode times its return.
      pdis: ``[M]``, sum_t D_t W_t r_t.
      sdr: ``[M]``, sum_t D_t (W_t (r_t - q_t) + W_{t-1} v_t).
      weight: ``[T + 1]``, W_{t-1}.
      decision: ``[T, M]``, D_t W_t r_t.
      control: ``[T, M]``, D_t W_t (r_t - q_t).
      model: ``[T + 1, M]``, D_t W_{t-1} v_t.
      closing: ``[T + 1, M]``, the part of ``model`` after episodes that were cut off.
    """

    one: np.ndarray
    returned: np.ndarray
    direct: np.ndarray
    ips: np.ndarray
    pdis: np.ndarray
    sdr: np.ndarray
    weight: np.ndarray
    decision: np.ndarray
    control: np.ndarray
    model: np.ndarray
    closing: np.ndarray


def terms(given: Episodes, cap: float = np.inf) -> Terms:
    """Return what each episode adds.

    Args:
      given: the episodes.
      cap: largest weight; larger ones count as this (Ionides 2008). It bounds the
        variance. Doubly robust estimates stay unbiased if Q is right.
    """
    weight = np.minimum(given.weight, cap)[..., np.newaxis]
    discount = given.discount[..., np.newaxis]
    after = np.arange(given.v.shape[1]) == given.length[:, np.newaxis]
    after &= given.cut[:, np.newaxis]
    end = np.where(after[..., np.newaxis], given.v, 0.0)
    reward, closed = discount[:, :-1] * given.reward, discount * end
    error = reward - discount[:, :-1] * given.q
    returned = reward.sum(1)
    # An episode that was cut off ends with the value of its last state: that of pi_e,
    # or of the logging policy in the return of the log.
    ips = weight[:, -1] * (returned + closed.sum(1))
    decision, control = weight[:, 1:] * reward, weight[:, 1:] * error
    model, closing = weight * discount * given.v, weight * closed
    return Terms(
        np.ones(len(given.length)),
        returned + discount[:, -1] * given.closing,
        given.v[:, 0],
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
