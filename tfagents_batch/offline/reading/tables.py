"""Ordinary tables, such as CSV files of a database, whose columns are read by type.

A CSV file is read as text, without guesses: a column of ids such as 00123 stays one,
and what a value has to be is known only by those who ask for it.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Sequence
from pathlib import Path

import duckdb

from tfagents_batch.errors import UserError
from tfagents_batch.offline.reading import files
from tfagents_batch.offline.reading.conversion import converted
from tfagents_batch.offline.reading.dialect import (
    identifier,
    literal,
    literal_paths,
    literals,
)
from tfagents_batch.offline.reading.duckdb_engine import interruptible
from tfagents_batch.settings.suggest import hint

CSV = (".csv", ".tsv")
ROW = "row of the table"  # column with the position of a row, counted from 1
_DELIMITERS = ",;\t|"
_TIMES = "date", "timestamp"  # beginnings of DuckDB's types of times
MICROSECONDS = 1_000_000
_LINE = re.compile(  # DuckDB's words of a line that is too short or too long
    r"CSV Error on Line: (\d+)\nOriginal Line: (.*)\n"
    r"Expected Number of Columns: (\d+) Found: (\d+)"
)
_NO_UTF8 = (
    "has characters that are not UTF-8; save it as UTF-8, such as by iconv -f latin1 "
    "-t utf-8"
)


class SourceTable:
    """Rows of files as a table of DuckDB; UserError if one cannot be read.

    Args:
      connection: where the table is made.
      name: of the table in SQL.
      paths: files or globs of CSV, Parquet or JSON lines, all of the same kind.
      nulls: texts of a CSV file that are no value.

    Attributes:
      columns: names of its columns.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        name: str,
        paths: Sequence[str],
        nulls: Sequence[str],
    ):
        self._connection, self.name = connection, name
        self._label = ", ".join(paths)
        source = _source(_files(paths), nulls)
        self.run(
            f"CREATE TABLE {name} AS SELECT *, row_number() OVER () AS "
            f"{identifier(ROW)} FROM ({source})"
        )
        relation = connection.table(name)
        self._types = dict(zip(relation.columns, relation.types, strict=True))
        self.columns = tuple(x for x in relation.columns if x != ROW)
        ((self._rows,),) = self.run(f"SELECT count(*) FROM {name}")
        if not self._rows:
            raise UserError(f"{self._label} has no rows; expected at least one")

    def run(self, query: str) -> list[tuple]:
        """Return the result of a query; UserError for a line that is no CSV, say."""
        execute = self._connection.execute
        try:
            return interruptible(self._connection, lambda: execute(query).fetchall())
        except duckdb.Error as error:
            if "not utf-8" in str(error):
                raise UserError(f"{self._label} {_NO_UTF8}") from error
            if found := _LINE.search(str(error)):
                number, line, right, count = found.groups()
                raise UserError(
                    f"line {number} of {self._label}, {line[:100]!r}, has {count} "
                    f"columns; expected {right}, as many as the first line"
                ) from error
            first = [x.strip() for x in str(error).splitlines() if x.strip()][:3]
            raise UserError(
                f"{self._label} cannot be read: {'; '.join(first):.500}"
            ) from error

    def text(self, flag: str, column: str, needed: bool = True) -> str:
        """Return the SQL of a column of names; 7.0 of a table of numbers is "7"."""
        return self._read(flag, column, "VARCHAR", "names", needed)

    def number(self, flag: str, column: str, needed: bool = True) -> str:
        """Return the SQL of a column of numbers; true is 1, and NaN is no value."""
        expected = (
            "numbers such as 12.5, with a decimal point. If the text stands for no "
            "value, add it to --nulls"
        )
        if flag == "features":
            expected += f"; if these are names, add --categories={column}"
        number = self._read(flag, column, "DOUBLE", expected, needed)
        return f"CASE WHEN NOT isnan({number}) THEN {number} END"

    def probability(self, column: str) -> str:
        """Return the SQL of a column of probabilities of the actions taken."""
        number = self.number("probability", column)
        inside = f"CASE WHEN {number} > 0 AND {number} <= 1 THEN {number} END"
        self._check("probability", column, inside, "numbers above 0 and up to 1", True)
        return number

    def flag(self, flag: str, column: str) -> str:
        """Return the SQL of a column of flags, where none is false."""
        value = self._read(flag, column, "BOOLEAN", "true or false", False)
        return f"coalesce({value}, false)"

    def time(self, flag: str, column: str) -> tuple[str, int]:
        """Return the SQL of a column of times as whole numbers, and those in a second.

        Of time stamps these are microseconds since 1970, in UTC where no zone is given.
        """
        value, kind = self._find(flag, column)
        expected = "seconds since 1970, or time stamps such as 2026-01-31 18:30:00"
        if kind.id == "varchar" and self._has_stamps(value):
            number = f"epoch_us(TRY_CAST({value} AS TIMESTAMPTZ))"
        elif kind.id.startswith(_TIMES):
            number = f"epoch_us({value}::TIMESTAMPTZ)"
        else:
            return self._read(flag, column, "BIGINT", expected, True), 1
        self._check(flag, column, number, expected, True)
        return number, MICROSECONDS

    def _has_stamps(self, value: str) -> bool:
        """Return whether the first value of a column of texts is a time stamp."""
        first = self.run(
            f"SELECT TRY_CAST({value} AS TIMESTAMPTZ) IS NOT NULL FROM {self.name} "
            f"WHERE {value} IS NOT NULL ORDER BY {identifier(ROW)} LIMIT 1"
        )
        return first == [(True,)]

    def _find(self, flag: str, column: str) -> tuple[str, duckdb.DuckDBPyType]:
        if column not in self.columns:
            raise UserError(
                f"--{flag}: {self._label} has no column {column!r}; "
                f"{hint(column, self.columns)}"
            )
        return identifier(column), self._types[column]

    def _read(
        self, flag: str, column: str, target: str, expected: str, needed: bool
    ) -> str:
        """Return the SQL of a column as another type, after a look at its values."""
        value, kind = self._find(flag, column)
        try:
            expression = converted(value, kind, target, column)
        except UserError:  # of a type that has no reading, such as a time as a number
            expression = f"NULL::{target}"
        if target == "DOUBLE" and kind.id == "varchar":
            expression = (
                f"CASE lower({value}) WHEN 'true' THEN 1.0 WHEN 'false' THEN 0.0 "
                f"ELSE {expression} END"
            )
        self._check(flag, column, expression, expected, needed)
        return expression

    def _check(
        self, flag: str, column: str, expression: str, expected: str, needed: bool
    ) -> None:
        """Refuse values that have no reading, and missing ones if all are needed."""
        value, row = identifier(column), identifier(ROW)
        wrong = "true" if needed else f"{value} IS NOT NULL"
        ((count, first, example),) = self.run(
            f"SELECT count(*), min({row}), arg_min({value}::VARCHAR, {row}) "
            f"FROM {self.name} WHERE ({expression}) IS NULL AND {wrong}"
        )
        if not count:
            return
        shown = "no value" if example is None else repr(example)
        raise UserError(
            f"--{flag}: column {column!r} has {shown} in row {first:,} of {self._label}"
            f" ({count:,} of {self._rows:,} rows are wrong); expected {expected}"
        )


def is_csv(path: Path) -> bool:
    """Return whether a file is read as CSV, by the end of its name."""
    return path.name.lower().removesuffix(".gz").endswith(CSV)


def _files(paths: Sequence[str]) -> list[Path]:
    """Return the files of paths and globs, which are of one kind."""
    expanded = [
        x
        for path in (Path(path).expanduser() for path in paths)
        for x in files.matches(path) or [path]
    ]
    kinds = {CSV if is_csv(x) else files.kind(x) for x in expanded}
    for path in expanded:
        if not path.is_file():
            raise UserError(f"{path} is no file; expected a table, such as a CSV file")
        if not (is_csv(path) or files.kind(path)):
            known = ", ".join(CSV + files.PARQUET + files.JSON)
            raise UserError(f"{path} is no table; expected one of {known}")
    if len(kinds) != 1:
        raise UserError(
            f"{', '.join(map(str, expanded))}: files of different kinds; expected "
            "tables of one kind"
        )
    return expanded


def _source(sources: Sequence[Path], nulls: Sequence[str]) -> str:
    """Return the query of the rows of files, in their order."""
    if is_csv(sources[0]):
        return " UNION ALL BY NAME ".join(_csv(path, nulls) for path in sources)
    paths = literal_paths(sources)
    if files.kind(sources[0]) in files.PARQUET:
        return f"FROM read_parquet({paths}, union_by_name=true)"
    return f"FROM read_json({paths}, union_by_name=true, sample_size=-1)"


def _csv(path: Path, nulls: Sequence[str]) -> str:
    """Return the query of a CSV file; nothing of its form is guessed but the delimiter.

    DuckDB would take a file with one broken line for another form, and go on.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            first = file.readline()
    except UnicodeDecodeError:
        raise UserError(f"{path} {_NO_UTF8}") from None
    except (OSError, EOFError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    delimiter = max(_DELIMITERS, key=first.count)
    names = next(csv.reader([first], delimiter=delimiter), [])
    if not names or "" in names or len({x.lower() for x in names}) < len(names):
        raise UserError(
            f"the first line of {path} is {first.strip()!r:.200}; expected the names "
            "of the columns, each once"
        )
    columns = ", ".join(f"{literal(x)}: 'VARCHAR'" for x in names)
    return (
        f"FROM read_csv({literal_paths([path])}, auto_detect=false, header=true, "
        f"delim={literal(delimiter)}, quote='\"', escape='\"', "
        f"nullstr={literals(('', *nulls))}, columns={{{columns}}})"
    )
