"""Whole episodes of a timeline for an evaluation, in blocks and padded."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from tfagents_batch.errors import UserError
from tfagents_batch.logged.seen import Keys
from tfagents_batch.offline import table_reader
from tfagents_batch.offline.table_reader import EVALUATE, Columns, Partition

LARGEST_LOG = 690.0  # of a product of ratios: exp of more is infinite in float64
Origin = Literal["unseen", "no rows", "unknown", "stated"]
"""Origin of the rows that judge a policy, see ``Judges``."""


class RowsExtent(NamedTuple):
    """Contents of the rows that judge."""

    # rows, episodes: their numbers
    rows: int
    episodes: int
    longest: int  # rows of the longest episode
    propensities: int  # rows with a propensity
    # least, most: smallest and largest reward
    least: float
    most: float


class KeySpan(NamedTuple):
    """Episodes that a condition chooses, with keys from ``low`` to ``high``."""

    where: str  # SQL condition of their rows
    # low, high: bounds of the keys
    low: int
    high: int


class Judges(NamedTuple):
    """Rows that judge a policy."""

    where: str  # SQL condition of the rows
    # "unseen": training has not seen them; "no rows": training saw no logged rows at
    # all; "unknown": training may have seen them; "stated": of a function, whose user
    # has to know
    origin: Origin


EVERY = Judges(f"split = '{EVALUATE}'", "stated")


def check(timeline: Partition) -> None:
    """Check that a policy can be evaluated on a timeline; UserError if not."""
    if timeline.schema.mode != "discrete":
        raise UserError(
            f"the actions in {timeline.folder} are {timeline.schema.mode}; a policy "
            "can be evaluated where actions are discrete"
        )
    steps = timeline.manifest["config"]["n_step"]
    if steps != 1:
        raise UserError(
            f"{timeline.folder} has samples of {steps} rewards; expected one reward "
            "for each decision. Make another timeline with --n_step=1 from the same "
            "rows"
        )


def extent(timeline: Partition, where: str) -> RowsExtent:
    """Return what the rows of a condition contain."""
    facts = ("count(*)", "count(DISTINCT mdp_key)", "max(sequence_number_ordinal)")
    facts += ("count(action_probability)", "min(reward)", "max(reward)")
    own = [f"{fact} FILTER ({where})" for fact in facts]
    return RowsExtent(*(x or 0 for x in table_reader.facts(timeline, *own)))


def spans(timeline: Partition, where: str, most: int) -> list[KeySpan]:
    """Return spans of the rows of a condition, each of about ``most`` rows at most.

    Keys are hashes, so equal ranges of them have nearly equally many episodes.
    """
    names = "count(*)", "min(mdp_key)", "max(mdp_key)"
    own = (f"{x} FILTER ({where})" for x in names)
    rows, low, high = table_reader.facts(timeline, *own)
    if not rows:
        return []
    count = -(-rows // most)
    edges = [low + (high + 1 - low) * i // count for i in range(count + 1)]
    return [KeySpan(where, a, b - 1) for a, b in itertools.pairwise(edges)]


def read(timeline: Partition, span: KeySpan) -> tuple[Columns, int]:
    """Return whole episodes, in order, and how many were left out.

    An episode is left out if rows of it are missing between others. Features that are
    missing are NaN.
    """
    where = f"{span.where} AND {Keys(span.low, span.high).sql}"
    columns = table_reader.episodes(timeline, where, np.nan)
    key, ordinal = columns["episode"], columns["ordinal"]
    first = starts(key)
    length = np.diff(np.r_[first, len(key)])
    whole = ordinal[first + length - 1] == length
    if whole.all():
        return columns, 0
    kept = np.repeat(whole, length)
    return {k: x[kept] for k, x in columns.items()}, int((~whole).sum())


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
    """Return episodes of rows; T = ``steps`` is at least the longest length."""
    first = starts(rows.episode)
    length = np.diff(np.r_[first, len(rows.episode)])
    inside = np.arange(steps) < length[:, np.newaxis]
    number = np.arange(len(length))

    def padded(column: np.ndarray, fill: float, more: int = 0) -> np.ndarray:
        filled = np.full([len(length), steps + more, *column.shape[1:]], fill)
        filled[:, :steps][inside] = column
        return filled

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
