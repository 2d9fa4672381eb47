"""Estimators of one decision, as ratios of sums over episodes, see ``one_step``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tfagents_batch.offline.evaluation import one_step
from tfagents_batch.offline.evaluation.episodes import starts


class Decisions(NamedTuple):
    """What the decisions of episodes add; of n episodes ``[n, ...]``, or sums.

    Attributes:
      one: ``[]``, number of decisions.
      weight: ``[]``, their ratios.
      reward, direct, ips, control, switched: ``[M]``, rewards, and the terms of the
        direct method, of IPS, of the control of doubly robust, and of switch-DR.
    """

    one: np.ndarray
    weight: np.ndarray
    reward: np.ndarray
    direct: np.ndarray
    ips: np.ndarray
    control: np.ndarray
    switched: np.ndarray


def decisions(
    episode: np.ndarray,
    reward: np.ndarray,
    weight: np.ndarray,
    model_logged: np.ndarray,
    model_expected: np.ndarray,
    threshold: np.ndarray,
) -> Decisions:
    """Return what each episode adds.

    Args:
      episode: i64 ``[N]``, key of the episode of each row.
      reward: f64 ``[N, M]``.
      weight: f64 ``[N]``, ratios pi_e / pi_b.
      model_logged, model_expected: f64 ``[N, M]``, predicted reward of the logged
        action, and expected under pi_e.
      threshold: f64 ``[M]``, of switch-DR.
    """
    weights = weight[:, np.newaxis]
    given = reward, weights, model_logged, model_expected
    rows = Decisions(
        np.ones(len(weight)),
        weight,
        reward,
        one_step.direct_method(model_expected),
        one_step.ips(reward, weights),
        one_step.ips(reward - model_logged, weights),
        one_step.switch_doubly_robust(*given, threshold),
    )
    first = starts(episode)
    return Decisions(*(np.add.reduceat(x, first) for x in rows))


def thresholds(
    reward: np.ndarray,
    weight: np.ndarray,
    model_logged: np.ndarray,
    model_expected: np.ndarray,
    count: int,
) -> np.ndarray:
    """Return the threshold of switch-DR for each metric, f64 ``[M]``.

    Args:
      reward, weight, model_logged, model_expected: some rows, see ``decisions``.
      count: number of all rows.
    """
    columns = zip(reward.T, model_logged.T, model_expected.T, strict=True)
    return np.array(
        [one_step.choose_threshold(r, weight, q, v, count) for r, q, v in columns]
    )


def _mean(total: np.ndarray, sums: Decisions) -> np.ndarray:
    return total / np.asarray(sums.one)[..., np.newaxis]


def _normalized(total: np.ndarray, sums: Decisions) -> np.ndarray:
    return total / np.asarray(sums.weight)[..., np.newaxis]


def logged(sums: Decisions) -> np.ndarray:
    """Return the mean reward of a logged decision, ``[..., M]``."""
    return _mean(sums.reward, sums)


ESTIMATORS = {
    "dm": lambda sums: _mean(sums.direct, sums),
    "ips": lambda sums: _mean(sums.ips, sums),
    "snips": lambda sums: _normalized(sums.ips, sums),
    "dr": lambda sums: _mean(sums.direct + sums.control, sums),
    "sndr": lambda sums: _mean(sums.direct, sums) + _normalized(sums.control, sums),
    "switch_dr": lambda sums: _mean(sums.switched, sums),
}
