"""Facts on features and samples of their values, by SQL over logged rows.

Missing features and NaN count as missing. Values are float32, as agents see them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tfagents_batch.errors import UserError
from tfagents_batch.offline.features.identify import Facts
from tfagents_batch.offline.reader import LoggedRows
from tfagents_batch.offline.reading.duckdb_engine import interruptible

_FEW = 32  # values that are listed, at least
_MORE = 1.1  # part of a sample that is drawn beyond its size, which varies
_AT_ONCE = 4_000_000  # values of samples in memory
_BITS = 2.0**-64


class FeatureSample(NamedTuple):
    """Values of a feature, in an order without meaning."""

    values: np.ndarray  # f32 [n]
    rewards: np.ndarray  # f64 [n], of their rows; NaN if missing


def facts(
    rows: LoggedRows, listed: int, always: Sequence[int] = ()
) -> dict[int, Facts]:
    """Return facts on all features of rows, by id; UserError if there are no rows.

    Up to ``listed`` different values are listed, and of some ids ``always`` all.
    """
    ((count,),) = rows.fetch(f"SELECT count(*) FROM {rows.view}")
    if not count:
        raise UserError("there are no rows; expected at least one")
    features = rows.fetch(
        f"""
        SELECT id, count(*) FILTER (finite), min(v) FILTER (finite),
          max(v) FILTER (finite), approx_count_distinct(v) FILTER (finite),
          coalesce(bool_and(v = trunc(v)) FILTER (finite), false),
          count(*) FILTER (NOT finite)
        FROM ({_entries(rows)}) GROUP BY id ORDER BY id
        """
    )
    most = max(listed, _FEW)
    few = [row[0] for row in features if row[4] <= 1.2 * most or row[0] in always]
    values: dict[int, list[float]] = {}
    if few:
        lists = rows.fetch(
            f"SELECT id, list_sort(list(DISTINCT v)) FROM ({_entries(rows)}) "
            f"WHERE finite AND id IN ({', '.join(map(str, few))}) GROUP BY id"
        )
        values = dict(lists)
    result = {}
    for i, present, low, high, distinct, whole, infinite in features:
        known = values.get(i, [])
        distinct = len(known) if known else min(distinct, present)  # an estimate
        if len(known) > most and i not in always:
            known = []
        numbers = (0.0, 0.0) if low is None else (low, high)
        result[i] = Facts(
            count, present, *numbers, distinct, whole, tuple(known), infinite
        )
    return result


def samples(
    rows: LoggedRows, known: Mapping[int, Facts], size: int, seed: int
) -> Iterator[tuple[int, FeatureSample]]:
    """Yield a sample of the values of each feature, by ascending id.

    A row is drawn by the MD5 of its key and the seed, so a sample depends neither on
    the order of rows nor on the number of threads. It has at most ``size`` values.
    """
    group: list[int] = []
    total = 0
    for i, feature_facts in known.items():
        count = min(feature_facts.present, size)
        if group and total + count > _AT_ONCE:
            yield from _group(rows, known, group, size, seed)
            group, total = [], 0
        group.append(i)
        total += count
    if group:
        yield from _group(rows, known, group, size, seed)


def example(rows: LoggedRows, feature: int) -> tuple[str, int, float]:
    """Return file, row and value of an infinite value of a feature."""
    ((file, row, value),) = rows.fetch(
        f"SELECT file, row, value FROM ({_entries(rows)}) "
        f"WHERE id = {int(feature)} AND NOT finite ORDER BY file, row LIMIT 1"
    )
    return file, row, value


def unread(rows: LoggedRows) -> tuple[int, str | None, int | None, str | None]:
    """Return how many rows have features or a reward that cannot be read.

    Also file, row and value of the first one, or None. A NULL in a map is a value of
    JSON that is no number; NaN is only missing.
    """
    null = "list_filter(map_values(state_features), lambda v: v IS NULL)"
    ((count, first),) = rows.fetch(
        f"""
        SELECT count(*), min({{'file': file, 'row': row, 'value': coalesce(
            unread['state_features'], unread['reward'], unread[''],
            state_features::VARCHAR)}})
        FROM {rows.view} WHERE len({null}) > 0
          OR list_has_any(map_keys(unread), ['state_features', 'reward', ''])
        """
    )
    return count, *(first.values() if first else (None, None, None))


def _group(
    rows: LoggedRows, known: Mapping[int, Facts], ids: list[int], size: int, seed: int
) -> Iterator[tuple[int, FeatureSample]]:
    shares = {i: min(1.0, _MORE * size / max(known[i].present, 1)) for i in ids}
    # Of small samples, the number of draws varies more.
    shares = {i: 1.0 if known[i].present < 2 * size else x for i, x in shares.items()}
    drawn = ", ".join(f"({i}, {x!r}::DOUBLE)" for i, x in shares.items())
    query = f"""
      SELECT id, v, reward, u FROM ({_entries(rows, _drawn(rows, seed, shares))})
      JOIN (VALUES {drawn}) AS shares(id, share) USING (id)
      WHERE finite AND u < share ORDER BY id, u
    """
    fetched = interruptible(
        rows.connection, lambda: rows.connection.execute(query).fetchnumpy()
    )
    rows.check_unchanged()
    columns = {name: np.ma.filled(x) for name, x in fetched.items() if name != "reward"}
    reward = np.ma.filled(np.ma.asarray(fetched["reward"], np.float64), np.nan)
    starts = np.searchsorted(columns["id"], [*ids, np.iinfo(np.int64).max])
    for i, first, last in zip(ids, starts, starts[1:], strict=False):
        part = slice(first, min(first + size, last))
        yield i, FeatureSample(columns["v"][part], reward[part])


def _drawn(rows: LoggedRows, seed: int, shares: Mapping[int, float]) -> str:
    """Return the query of the rows that samples need, with u, uniform in [0, 1)."""
    key = f"concat(mdp_id, ' ', sequence_number, ' ', {int(seed)})"
    u = f"md5_number_upper({key})::DOUBLE * {_BITS!r}"
    return f"(SELECT *, {u} AS u FROM {rows.view} WHERE {u} < {max(shares.values())!r})"


def _entries(rows: LoggedRows, origin: str = "") -> str:
    """Return the query of all values: id, v (f32), finite, value, file, row.

    Those of an ``origin``, see ``_drawn``, have reward and u instead of file and row.
    """
    others = "reward, u" if origin else "file, row"
    return f"""
      SELECT *, TRY_CAST(value AS FLOAT) AS v,
        coalesce(isfinite(TRY_CAST(value AS FLOAT)), false) AS finite
      FROM (SELECT {others}, unnest(map_keys(state_features)) AS id,
          unnest(map_values(state_features)) AS value FROM {origin or rows.view})
      WHERE value IS NOT NULL AND NOT isnan(value)
    """
