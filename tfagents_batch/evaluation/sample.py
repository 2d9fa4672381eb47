"""Rows to which values are fitted, and what is predicted from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Sample(NamedTuple):
    """Rows to fit, in the order of their folds.

    Attributes:
      state, after: f32 ``[N, F]``, normalized states and next states.
      action: int32 ``[N]``.
      mask: bool ``[N, A]``, actions that were possible.
      policy: f32 ``[N, A]``, pi_e(a | s').
      discount: f32 ``[N]``, 0 after a terminal row.
      reward: f32 ``[N, M]``.
    """

    state: np.ndarray
    after: np.ndarray
    action: np.ndarray
    mask: np.ndarray
    policy: np.ndarray
    discount: np.ndarray
    reward: np.ndarray


class Predictions(NamedTuple):
    """Predictions in N states.

    Attributes:
      q, reward: f64 ``[N, A, M]``, value and next reward of every action.
      behavior: f ``[N, A]``, the logging policy.
      logged: f64 ``[N, M]``, value of the logging policy.
    """

    q: np.ndarray
    reward: np.ndarray
    behavior: np.ndarray
    logged: np.ndarray
