"""Rows of a timeline for an evaluation: whole episodes, in blocks."""

from __future__ import annotations

import itertools
from typing import Literal, NamedTuple

import numpy as np

from tfagents_batch.errors import UserError
from tfagents_batch.evaluation.episodes import starts
from tfagents_batch.logged.seen import Keys
from tfagents_batch.offline import table_reader
from tfagents_batch.offline.table_reader import EVALUATE, Columns, Partition

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


def check(found: Partition) -> None:
    """Check that a policy can be evaluated on a timeline; UserError if not."""
    if found.schema.mode != "discrete":
        raise UserError(
            f"the actions in {found.folder} are {found.schema.mode}; a policy can be "
            "evaluated where actions are discrete"
        )
    steps = found.manifest["config"]["n_step"]
    if steps != 1:
        raise UserError(
            f"{found.folder} has samples of {steps} rewards; expected one reward for "
            "each decision. Make another timeline with --n_step=1 from the same rows"
        )


def extent(found: Partition, where: str) -> RowsExtent:
    """Return what the rows of a condition contain."""
    facts = ("count(*)", "count(DISTINCT mdp_key)", "max(sequence_number_ordinal)")
    facts += ("count(action_probability)", "min(reward)", "max(reward)")
    own = [f"{fact} FILTER ({where})" for fact in facts]
    return RowsExtent(*(x or 0 for x in table_reader.facts(found, *own)))


def spans(found: Partition, where: str, most: int) -> list[KeySpan]:
    """Return spans of the rows of a condition, each of about ``most`` rows at most.

    Keys are hashes, so equal ranges of them have nearly equally many episodes.
    """
    names = "count(*)", "min(mdp_key)", "max(mdp_key)"
    own = (f"{x} FILTER ({where})" for x in names)
    rows, low, high = table_reader.facts(found, *own)
    if not rows:
        return []
    count = -(-rows // most)
    edges = [low + (high + 1 - low) * i // count for i in range(count + 1)]
    return [KeySpan(where, a, b - 1) for a, b in itertools.pairwise(edges)]


def read(found: Partition, span: KeySpan) -> tuple[Columns, int]:
    """Return whole episodes, in order, and how many were left out.

    An episode is left out if rows of it are missing between others. Features that are
    missing are NaN.
    """
    where = f"{span.where} AND {Keys(span.low, span.high).sql}"
    columns = table_reader.episodes(found, where, np.nan)
    key, ordinal = columns["episode"], columns["ordinal"]
    first = starts(key)
    length = np.diff(np.r_[first, len(key)])
    whole = ordinal[first + length - 1] == length
    if whole.all():
        return columns, 0
    kept = np.repeat(whole, length)
    return {k: x[kept] for k, x in columns.items()}, int((~whole).sum())
