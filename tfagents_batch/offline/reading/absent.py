"""Columns that some Parquet files have and others lack.

A row of JSON may leave a value out. A whole Parquet file without a column is more
likely of another program, or of another version of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pyarrow import parquet

from tfagents_batch.errors import UserError
from tfagents_batch.offline.reading import files
from tfagents_batch.offline.schema import ALIAS, NEEDED, Mode, types

_FLAGS = ("terminated", "truncated")


def notices(
    paths: Sequence[Path],
    mode: Mode,
    extra: Sequence[str],
    has: Callable[[str], bool],
) -> list[str]:
    """Return a line on each column that some Parquet files lack.

    Columns that every row needs are left to the check of the rows.

    Args:
      paths: files of any kind.
      mode: kind of actions, see ``Schema``.
      extra: names of further columns that are read.
      has: whether any row of the files has a value in a column.

    Raises:
      UserError: if some lack a flag that others have, or rows of JSON: their episodes
        would end in another way.
    """
    tables = [path for path in paths if files.kind(path) in files.PARQUET]
    columns = {path: _columns(path) for path in tables}
    found = []
    for name in [*(types(mode).keys() - {*NEEDED}), *extra]:
        lack = [path for path in tables if name not in columns[path]]
        if not lack:
            continue
        some = f"{len(lack):,} of {len(tables):,} Parquet files, such as {lack[0]}"
        in_rows = ""
        if len(lack) == len(tables):
            if name not in _FLAGS or len(tables) == len(paths) or not has(name):
                continue
            in_rows = ", which rows of JSON have"
        if name in _FLAGS:
            raise UserError(
                f"{some}, has no column {name}{in_rows}, so its episodes would end in "
                "another way; add the column, with NULL where it is not known, or read "
                "the files apart"
            )
        found.append(f"column {name} is missing in {some}; it is NULL there")
    return sorted(found)


def _columns(path: Path) -> set[str]:
    found = {*parquet.read_schema(path).names}
    return found | {"action_probability"} if ALIAS in found else found
