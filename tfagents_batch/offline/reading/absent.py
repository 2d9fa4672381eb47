"""Columns that some Parquet files have and others lack.

A row of JSON may leave a value out. A whole Parquet file without a column is more
likely of another program, or of another version of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow
from pyarrow import parquet

from tfagents_batch.errors import UserError
from tfagents_batch.offline.reading import files
from tfagents_batch.offline.schema import ALIAS, NEEDED, PRESENCE, Mode, types

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
      UserError: if some lack a flag of ends that others have, or rows of JSON: their
        episodes would end in another way. Or if some have lists of numbers without the
        flags of presence that others have.
    """
    tables = [path for path in paths if files.kind(path) in files.PARQUET]
    columns = {path: _columns(path) for path in tables}
    _check_presence(columns)
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


def _check_presence(columns: Mapping[Path, set[str]]) -> None:
    """Check that lists of numbers have flags in all files, or in none.

    Raises:
      UserError: if some lack them: what fills their gaps would count as values.
    """
    for name in {x for found in columns.values() for x in found}:
        if not name.endswith(PRESENCE):
            continue
        of = name.removesuffix(PRESENCE)
        lack = [x for x, found in columns.items() if of in found and name not in found]
        lack = [path for path in lack if _is_list(parquet.read_schema(path), of)]
        if lack:
            raise UserError(
                f"{len(lack):,} of {len(columns):,} Parquet files, such as {lack[0]}, "
                f"has no column {name}, so what fills the gaps of {of} would count as "
                "values; add the column, or read the files apart"
            )


def _is_list(schema: pyarrow.Schema, name: str) -> bool:
    if name not in schema.names:  # it has the old name
        return False
    kind = schema.field(name).type
    kinds = pyarrow.types
    is_list = kinds.is_list(kind) or kinds.is_large_list(kind)
    is_list |= kinds.is_fixed_size_list(kind)
    return is_list and not kinds.is_struct(kind.value_type)  # pairs of a map


def _columns(path: Path) -> set[str]:
    found = {*parquet.read_schema(path).names}
    return found | {"action_probability"} if ALIAS in found else found
