"""Timelines as columns of numbers: one row for each transition."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfagents_batch.errors import UserError, first_line
from tfagents_batch.offline import arrow, manifest
from tfagents_batch.offline.reading.dialect import enumeration, literal, literal_paths
from tfagents_batch.offline.schema import Schema

TRAIN, EVALUATE = "train", "eval"  # values of the column split
_ALIGNMENT = 64  # bytes
_BATCH = 2**24  # numbers of possible actions that are there at a time
_BY_TIME = "ORDER BY mdp_key, sequence_number_ordinal"
UNKNOWN = -1  # number of a next action that was not taken
_POSSIBLE = {"": "possible_actions", "next_": "possible_next_actions"}

Columns = dict[str, np.ndarray]


class Partition(NamedTuple):
    """A published timeline."""

    folder: Path  # folder of its files
    schema: Schema  # what the rows contain
    manifest: Mapping[str, Any]  # content of its manifest, see manifest

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.manifest["rows"])

    @property
    def fingerprint(self) -> str:
        """Text that no other timeline has: the names of files are random."""
        text = json.dumps(self.manifest, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def table(self) -> str:
        """SQL of all rows."""
        return f"read_parquet({literal_paths(self.files)})"

    @property
    def files(self) -> list[str]:
        """Paths of the files, in order."""
        return [str(self.folder / part["name"]) for part in self.manifest["parts"]]


def partition(folder: str | Path) -> Partition:
    """Return the newest partition of a table, or the one that the folder is.

    UserError if there is none, it has no samples, or a file was changed.
    """
    folder = Path(folder)
    newest = folder if (folder / manifest.NAME).exists() else manifest.newest(folder)
    if newest is None:
        raise UserError(
            f"{folder} has no timeline; expected a folder that "
            "tfagents-batch timeline has written, with ds=... in it"
        )
    known = manifest.read(newest)
    if not known["rows"]:
        raise UserError(f"{newest} has 0 samples; expected at least one")
    manifest.check_parts(newest, known)
    return Partition(newest, Schema.from_dict(known["schema"]), known)


def row_bytes(schema: Schema, columns: int | None = None) -> int:
    """Return the bytes of a dense row, of whose state ``columns`` numbers are kept."""
    columns = len(schema.features) if columns is None else columns
    actions = len(schema.actions) or 4 * len(schema.action_features)
    return 2 * (4 * columns + actions) + 2 * 8 + 4 * 4 + 1


class Block(NamedTuple):
    """Consecutive rows of a partition."""

    groups: tuple[tuple[str, int], ...]  # pairs of a file and a row group in it
    rows: int  # number of rows


def blocks(timeline: Partition, most: int) -> list[Block]:
    """Return all rows as blocks of at most ``most`` rows, or of one row group."""
    from pyarrow import parquet

    done: list[Block] = []
    for path in timeline.files:
        with _reading(timeline):
            metadata = parquet.read_metadata(path)
        for i in range(metadata.num_row_groups):
            new = Block(((path, i),), metadata.row_group(i).num_rows)
            if done and done[-1].rows + new.rows <= most:
                last = done.pop()
                new = Block(last.groups + new.groups, last.rows + new.rows)
            done.append(new)
    return done


def read(
    timeline: Partition,
    block: Block | None = None,
    missing: float = 0.0,
    split: str | None = None,
) -> Columns:
    """Return rows as numbers.

    Args:
      timeline: the partition.
      block: rows to read, from ``blocks``; None for all.
      missing: value of a feature of a state that is missing, 0 or NaN.
      split: ``TRAIN`` or ``EVALUATE`` for only these rows; None for both.

    Returns:
      f32 ``state`` and ``next_state`` ``[N, F]``; f32 ``reward``, ``discount`` (factor
      of the value after the row) and ``propensity`` (NaN if not logged), bool
      ``terminated`` and ``trains`` (not kept for evaluation), i64 ``episode``, int32
      ``ordinal`` and ``step``, ``[N]`` each.
      Discrete and parametric: int32 ``action`` and ``next_action`` ``[N]``, ``UNKNOWN``
      if none was taken, and bool ``mask`` and ``next_mask`` ``[N, A]``. Parametric: f32
      ``candidates`` and ``next_candidates`` ``[N, A, G]``, to which actions point.
      Continuous: f32 ``action`` and ``next_action`` ``[N, G]``.
    """
    where = "" if split is None else f" WHERE split = '{split}'"
    with _reading(timeline):
        if block is None:
            return _select(timeline, timeline.table + where, missing=missing)
        # One row group at a time: as Arrow, rows take several times the memory.
        parts = (
            _select(timeline, f"rows{where}", _groups(Block((group,), 0)), missing)
            for group in block.groups
        )
        return joined(parts, block.rows)


def room(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """Return an uninitialized array, aligned so that TensorFlow uses it uncopied."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)  # not written to: not used yet
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def joined(parts: Iterator[Columns], most: int) -> Columns:
    """Return parts one after the other; only one of them is in memory beside it.

    There is at least one part; together they have at most ``most`` rows.
    """
    columns: Columns = {}
    rows = 0
    for part in parts:
        end = rows + len(part["reward"])
        for name, column in part.items():
            if name not in columns:
                columns[name] = room([most, *column.shape[1:]], column.dtype)
            columns[name][rows:end] = column
        rows = end
    return {name: column[:rows] for name, column in columns.items()}


def _select(
    timeline: Partition,
    origin: str,
    rows: Any = None,
    missing: float = 0.0,
    metrics: bool = False,
) -> Columns:
    """Return the columns of rows that SQL names, or of a table of Arrow."""
    import duckdb

    schema, size = timeline.schema, len(timeline.schema.actions)
    numbers, sets, maps = _numbers(schema), _sets(schema), _maps(schema)
    parts = _candidates(schema)
    if metrics and schema.metrics:
        parts["metrics"] = [
            f"CAST(coalesce(metrics[{literal(name)}], 0) AS FLOAT)"
            for name in schema.metrics
        ]
    named = numbers | sets | {name: column for name, (column, _) in maps.items()}
    for name, part in parts.items():
        named |= {f"{name}.{i}": sql for i, sql in enumerate(part)}
    selected = ", ".join(f'{sql} AS "{name}"' for name, sql in named.items())
    with duckdb.connect() as connection:
        if rows is not None:
            connection.register("rows", rows)
        batch = min(max(_BATCH // max(size, 1), 1), 10**6)
        sql = f"SELECT {selected} FROM {origin}"
        table = connection.sql(sql).to_arrow_table(batch)
    columns = {name: arrow.numbers(table.column(name)) for name in numbers}
    for name, (_, ids) in maps.items():
        fill = missing if name.endswith("state") else 0.0
        columns[name] = arrow.dense(table.column(name), ids, fill)
    columns |= {name: arrow.contained(table.column(name), size) for name in sets}
    for name, part in parts.items():
        arrays = [table.column(f"{name}.{i}") for i in range(len(part))]
        join = arrow.joined if name == "metrics" else arrow.padded
        columns[name] = join(arrays)
    if schema.mode == "parametric":
        return _numbered(columns, most_candidates(timeline))
    return columns


@contextlib.contextmanager
def _reading(timeline: Partition) -> Iterator[None]:
    """Turn errors of reading a partition into UserErrors."""
    import duckdb
    import pyarrow

    try:
        yield
    except (duckdb.InterruptException, duckdb.OutOfMemoryException):
        raise
    except (duckdb.ConversionException, OverflowError) as error:
        raise UserError(
            f"a number of {timeline.folder} is beyond float32 ({first_line(error)}); "
            "make the timeline again with smaller numbers: see its --custom_reward"
        ) from error
    except (OSError, duckdb.Error, pyarrow.ArrowException) as error:
        if lost := [path for path in timeline.files if not Path(path).exists()]:
            raise UserError(
                f"{lost[0]} is gone: the timeline was made again while it was read. "
                "Start again to learn from the new rows, and write others to another "
                "--output"
            ) from error
        raise UserError(
            f"the rows of {timeline.folder} cannot be read ({first_line(error)}); "
            "restore its files from a copy, or make the timeline again"
        ) from error


def _groups(block: Block, columns: list[str] | None = None) -> Any:
    """Return the row groups of a block as a table of Arrow."""
    import pyarrow
    from pyarrow import parquet

    files: dict[str, list[int]] = {}
    for path, number in block.groups:
        files.setdefault(path, []).append(number)
    return pyarrow.concat_tables(
        parquet.ParquetFile(path).read_row_groups(numbers, columns)
        for path, numbers in files.items()
    )


def _numbers(schema: Schema) -> dict[str, str]:
    """Return SQL of the columns of one number, by name."""
    names = {
        "episode": "mdp_key",
        "ordinal": "CAST(sequence_number_ordinal AS INTEGER)",
        "step": "CAST(step AS INTEGER)",
        "terminated": "NOT CAST(not_terminal AS BOOLEAN)",
        "reward": "CAST(reward AS FLOAT)",
        "propensity": "CAST(coalesce(action_probability, 'nan'::DOUBLE) AS FLOAT)",
        "discount": "CAST(discount AS FLOAT)",
        "trains": f"split = '{TRAIN}'",
    }
    if schema.mode == "discrete":
        kind = enumeration(schema.actions)
        for part in ("action", "next_action"):
            number = f"CAST(enum_code(TRY_CAST({part} AS {kind})) AS INTEGER)"
            names[part] = f"coalesce({number}, {UNKNOWN})"
    return names


def _sets(schema: Schema) -> dict[str, str]:
    """Return SQL of lists of the numbers of possible actions, by name."""
    if schema.mode != "discrete":
        return {}
    # The cast finds a name by its hash: the work does not grow with their number.
    kind = f"{enumeration(schema.actions)}[]"
    return {
        f"{part}mask": f"list_transform(TRY_CAST({column} AS {kind}), "
        "lambda x: enum_code(x))"
        for part, column in _POSSIBLE.items()
    }


def _candidates(schema: Schema) -> dict[str, list[str]]:
    """Return SQL of each feature of the actions of parametric rows, by name."""
    if schema.mode != "parametric":
        return {}
    numbers = [_number("x", i) for i in schema.action_features]
    return {
        f"{part}candidates": [
            f"list_transform({column}, lambda x: {number})" for number in numbers
        ]
        for part, column in _POSSIBLE.items()
    }


def _maps(schema: Schema) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the columns of maps that become vectors, with their keys, by name."""
    maps = {x: (f"{x}_features", schema.features) for x in ("state", "next_state")}
    if schema.mode != "discrete":
        maps |= {x: (x, schema.action_features) for x in ("action", "next_action")}
    return maps


def _number(column: str, feature: int) -> str:
    return f"CAST(coalesce({column}[{int(feature)}], 0) AS FLOAT)"


def _numbered(columns: Columns, most: int) -> Columns:
    """Return the columns of parametric rows, with actions as numbers of candidates."""
    numbered = dict(columns)
    for part in ("", "next_"):
        rows = columns[f"{part}candidates"]
        more = [(0, 0), (0, most - rows.shape[1]), (0, 0)]
        rows = np.pad(rows, more, constant_values=np.nan)
        same = (rows == columns[f"{part}action"][:, np.newaxis]).all(-1)
        number = np.where(same.any(-1), same.argmax(-1), UNKNOWN)
        numbered[f"{part}action"] = number.astype(np.int32)
        numbered[f"{part}mask"] = ~np.isnan(rows[..., 0])
        numbered[f"{part}candidates"] = np.nan_to_num(rows)
    return numbered


def returns(columns: Columns) -> np.ndarray:
    """Return the discounted return of each row, f64 ``[N]``, as it was logged.

    It is NaN where an episode was cut off, or where rows of it are missing. G_k =
    reward_k + discount_k G_{k + step}, and the reward alone at the end.
    """
    size, last = len(columns["reward"]), columns["terminated"]
    end, unknown = size, size + 1  # two more rows, with returns 0 and NaN
    total = np.concatenate([columns["reward"], [0.0, np.nan]])
    factor = np.concatenate([np.where(last, 0.0, columns["discount"]), [0.0, 0.0]])
    after = np.where(last, end, _following(columns, unknown))
    after = np.concatenate([after, [end, unknown]])
    # Each round doubles the number of rows in a sum.
    while (after < size).any():
        total = total + factor * total[after]
        factor = factor * factor[after]
        after = after[after]
    return (total + factor * total[after])[:size]


def _following(columns: Columns, missing: int) -> np.ndarray:
    """Return the number of the row ``step`` rows later, or ``missing``, ``[N]``."""
    ordinal, step = (columns[x].astype(np.int64) for x in ("ordinal", "step"))
    episode = np.unique(columns["episode"], return_inverse=True)[1]
    most = ordinal.max(initial=0) + step.max(initial=0)
    key = episode * (most + 1) + ordinal
    order = np.argsort(key)
    place = np.searchsorted(key, key + step, sorter=order)
    row = order[np.minimum(place, len(key) - 1)]
    return np.where(key[row] == key + step, row, missing)


def steps_to_end(columns: Columns) -> np.ndarray:
    """Return the number of rewards from each row to the end, i64 ``[N]``.

    It is 1 in the last row of an episode, and 0 where an episode was cut off.
    """
    episode = np.unique(columns["episode"], return_inverse=True)[1]
    ordinal, last = columns["ordinal"].astype(np.int64), columns["terminated"]
    end = np.zeros(len(episode), np.int64)  # by episode; 0 where it is not known
    end[episode[last]] = (ordinal + columns["step"])[last]
    return np.maximum(end[episode] - ordinal, 0)


def of_split(
    timeline: Partition,
    split: str,
    most: int,
    missing: float = 0.0,
    last_key: int | None = None,
) -> Columns:
    """Return the first ``most`` rows of a split in the order of episodes and time.

    Other arguments as of ``read``; ``last_key`` is the largest key, None for any.
    """
    where, limit = f"WHERE split = '{split}'", f"LIMIT {int(most)}"
    if last_key is not None:
        where += f" AND mdp_key <= {int(last_key)}"
    # Whole rows are sorted only up to the last of these episodes, to save memory.
    first = f"SELECT mdp_key FROM {timeline.table} {where} ORDER BY mdp_key {limit}"
    where += f" AND mdp_key <= (SELECT max(mdp_key) FROM ({first}))"
    origin = f"{timeline.table} {where} {_BY_TIME} {limit}"
    with _reading(timeline):
        return _select(timeline, origin, missing=missing)


def episodes(timeline: Partition, where: str, missing: float = 0.0) -> Columns:
    """Return rows of an SQL condition in the order of episodes and time, see ``read``.

    Rows also have f32 ``metrics`` ``[N, M]`` if the schema has metrics; a metric that a
    row does not have is 0.
    """
    origin = f"{timeline.table} WHERE {where} {_BY_TIME}"
    with _reading(timeline):
        return _select(timeline, origin, missing=missing, metrics=True)


def training_rows(timeline: Partition, block: Block) -> int:
    """Return the number of rows of a block that are for training."""
    import pyarrow.compute as compute

    with _reading(timeline):
        split = _groups(block, ["split"]).column("split")
    return int(compute.sum(compute.equal(split, TRAIN)).as_py() or 0)


def masked(timeline: Partition) -> bool:
    """Return whether some actions of discrete rows were not possible."""
    if timeline.schema.mode == "parametric":
        return True
    size = len(timeline.schema.actions)
    after = "CASE WHEN not_terminal THEN len(possible_next_actions) END"
    sql = f"min(least(len(possible_actions), {after})) < {size}"
    return bool(facts(timeline, sql)[0])


def most_candidates(timeline: Partition) -> int:
    """Return the largest number of actions that parametric rows choose from."""
    most = [f"max(len({column}))" for column in _POSSIBLE.values()]
    return max(x or 0 for x in facts(timeline, *most))


def action_bounds(timeline: Partition) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest logged numbers of continuous actions."""
    numbers = [_number("action", i) for i in timeline.schema.action_features]
    both = [f"{rule}({x})" for rule in ("min", "max") for x in numbers]
    low, high = np.reshape(np.array(facts(timeline, *both), np.float32), [2, -1])
    return low, high


def facts(timeline: Partition, *sql: str) -> tuple:
    """Return values that are computed over all rows, once in a process."""
    return facts_of(timeline, timeline.table, *sql)


def facts_of(timeline: Partition, rows: str, *sql: str) -> tuple:
    """Return values over rows of a partition, once in a process; all are SQL."""
    with _reading(timeline):
        return _computed(rows, *sql)


@functools.lru_cache(maxsize=64)  # a file of another timeline has another name
def _computed(rows: str, *sql: str) -> tuple:
    import duckdb

    text = f"SELECT {', '.join(sql)} FROM {rows}"
    with duckdb.connect() as connection:
        return connection.execute(text).fetchone()
