"""Logged episodes as arrays of one shape, for the estimators."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

LARGEST_LOG = 690.0  # of a product of ratios: exp of more is infinite in float64


class EpisodeRows(NamedTuple):
    """Rows of whole episodes, one after the other, in order of time."""

    episode: np.ndarray  # i64 [N], a key of the episode
    ratio: np.ndarray  # f64 [N], pi_e(a | s) / pi_b(a | s)
    reward: np.ndarray  # f64 [N, M], reward and metrics
    discount: np.ndarray  # f64 [N], factor of what follows the row
    terminated: np.ndarray  # bool [N], whether the episode ended after the row
    q: np.ndarray  # f64 [N, M], Q(s, a) of the logged action
    v: np.ndarray  # f64 [N, M], sum_a pi_e(a | s) Q(s, a)
    next_v: np.ndarray  # f64 [N, M], the same of the next state
    next_logged: np.ndarray  # f64 [N, M], value of the logging policy in the next state
    noise: np.ndarray  # f64 [N, M], expected squared error of r + discount v' - q


class PaddedEpisodes(NamedTuple):
    """n episodes, padded to T steps.

    After its end an episode stays in a state where all policies agree: the weight does
    not change, and rewards and values are 0. An episode that was cut off ends with the
    value of its last state. (Padding with weights 0 would bias weighted estimators:
    by 10 % in a grid with two equal policies.)
    """

    # f64 [n, T + 1], products of the ratios before step t; 1 at step 0
    weight: np.ndarray
    discount: np.ndarray  # f64 [n, T + 1], products of the discounts before step t
    # reward, q, noise: f64 [n, T, M]
    reward: np.ndarray
    q: np.ndarray
    noise: np.ndarray
    v: np.ndarray  # f64 [n, T + 1, M]
    # f64 [n, M], value of the logging policy after the end; 0 if terminal
    closing: np.ndarray
    length: np.ndarray  # int [n], number of steps
    cut: np.ndarray  # bool [n], whether it was cut off


def starts(episode: np.ndarray) -> np.ndarray:
    """Return the first row of each episode, int ``[n]``; ``episode`` has the keys."""
    if not len(episode):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.r_[True, episode[1:] != episode[:-1]])


def pad(rows: EpisodeRows, steps: int) -> PaddedEpisodes:
    """Return episodes of rows.

    Args:
      rows: the rows.
      steps: T, at least the length of the longest episode.
    """
    first = starts(rows.episode)
    length = np.diff(np.r_[first, len(rows.episode)])
    inside = np.arange(steps) < length[:, np.newaxis]
    number = np.arange(len(length))

    def padded(column: np.ndarray, fill: float, more: int = 0) -> np.ndarray:
        shape = len(length), steps + more, *column.shape[1:]
        found = np.full(shape, fill)
        found[:, :steps][inside] = column
        return found

    with np.errstate(divide="ignore"):
        log = np.cumsum(np.log(padded(rows.ratio, 1.0)), 1)
    weight = np.exp(np.minimum(log, LARGEST_LOG))
    discount = np.cumprod(padded(rows.discount, 1.0), 1)
    last = first + length - 1
    cut = ~rows.terminated[last]
    v = padded(rows.v, 0.0, more=1)
    v[number, length] = np.where(cut[:, np.newaxis], rows.next_v[last], 0.0)
    closing = np.where(cut[:, np.newaxis], rows.next_logged[last], 0.0)
    one = np.ones([len(length), 1])
    return PaddedEpisodes(
        np.hstack([one, weight]),
        np.hstack([one, discount]),
        padded(rows.reward, 0.0),
        padded(rows.q, 0.0),
        padded(rows.noise, 0.0),
        v,
        closing,
        length,
        cut,
    )


def parts(rows: EpisodeRows, most: int) -> Iterator[EpisodeRows]:
    """Yield rows of at most ``most`` episodes at a time."""
    edges = [*starts(rows.episode)[::most], len(rows.episode)]
    for start, end in itertools.pairwise(edges):
        yield EpisodeRows(*(column[start:end] for column in rows))
