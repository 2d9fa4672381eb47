"""Expressions whose words differ between SQL engines: ``DuckDB`` and ``Spark``.

Both have the same methods, which return SQL. Types are written in the words of DuckDB
everywhere, such as ``MAP(BIGINT, DOUBLE)``; ``type`` translates them.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping
from pathlib import Path

_TYPES = {"VARCHAR": "STRING"}


def identifier(name: str) -> str:
    """Return the name of a column or a table, quoted."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a string, quoted."""
    return "'" + text.replace("'", "''") + "'"


def literals(texts: Iterable[str]) -> str:
    """Return a list of strings, quoted: ``['a', 'b']``."""
    return f"[{', '.join(map(literal, texts))}]"


def literal_paths(paths: Iterable[str | Path]) -> str:
    """Return a list of existing paths, which DuckDB would otherwise read as globs.

    It takes no escaped path with a backslash, but tries a glob as a path, too.
    """
    texts = map(str, paths)
    return literals(x if "\\" in x else glob.escape(x) for x in texts)


def enumeration(texts: Iterable[str]) -> str:
    """Return DuckDB's type of one of these strings: ``ENUM('a', 'b')``."""
    return f"ENUM({', '.join(map(literal, texts))})"


class DuckDB:
    """Words of DuckDB."""

    def name(self, text: str) -> str:
        """Return the name of a column or a table, quoted."""
        return identifier(text)

    def text(self, text: str) -> str:
        """Return a string, quoted."""
        return literal(text)

    def number(self, value: float) -> str:
        """Return a finite number."""
        return repr(float(value))

    def type(self, kind: str) -> str:
        """Return the type as it is."""
        return kind

    def map(self, keys: Iterable[str], values: Iterable[str], kind: str) -> str:
        """Return a map of a type, from expressions of its keys and values."""
        if not (keys := list(keys)):
            return f"MAP {{}}::{kind}"
        return f"MAP([{', '.join(keys)}], [{', '.join(values)}])::{kind}"

    def list(self, values: Iterable[str], kind: str) -> str:
        """Return a list of a type."""
        return f"[{', '.join(values)}]::{kind}"

    def is_empty(self, value: str) -> str:
        """Return whether a list has no elements."""
        return f"len({value}) = 0"

    def is_empty_map(self, value: str) -> str:
        """Return whether a map has no keys."""
        return f"cardinality({value}) = 0"

    def at(self, value: str, index: str) -> str:
        """Return an element of a list, counted from 1."""
        return f"{value}[{index}]"

    def lookup(self, value: str, key: str) -> str:
        """Return the value of a key in a map, NULL if it is not there."""
        return f"{value}[{key}]"

    def each(self, value: str, item: str, result: str) -> str:
        """Return the list of ``result`` for each ``item``."""
        return f"list_transform({value}, lambda {item}: {result})"

    def counted(self, values: str, view: str) -> str:
        """Return a query of the elements of lists: ``name`` and ``number``."""
        elements = f"SELECT unnest({values}) AS name FROM {view}"
        return f"SELECT name, count(*) AS number FROM ({elements}) GROUP BY name"

    def sum(self, count: str, index: str, summand: str) -> str:
        """Return the sum of ``summand`` for an index from 1 to ``count``."""
        return f"list_sum({self.each(f'range(1, {count} + 1)', index, summand)})"

    def frame(self, value: str, window: str) -> str:
        """Return the values of a window's frame as a list, NULL included."""
        return f"list({value}) OVER {window}"

    def later(self, value: str, count: int, window: str, frame: str) -> str:
        """Return a value of the row that is ``count`` later, or else of the last row.

        The window has all rows in their order, and the frame those from the current row
        to the ``count`` following ones.
        """
        del count, window
        return f"last_value({value}) OVER {frame}"

    def percentile(self, value: str, share: float) -> str:
        """Return the exact percentile of a column, interpolated linearly."""
        return f"quantile_cont({value}, {share!r})"

    def key(self, text: str) -> str:
        """Return the first 60 bits of the MD5 of a text, as a BIGINT."""
        return f"('0x' || substr(md5({text}), 1, 15))::BIGINT"

    def canonical(self, value: str, kind: str) -> str:
        """Return a text of a value that is the same in all engines."""
        if kind.endswith("[]"):
            texts = self.each(value, "item", self.canonical("item", kind[:-2]))
            text = f"'[' || array_to_string({texts}, ',') || ']'"
        elif kind == "DOUBLE":  # decimal digits of a double differ between engines
            text = f"replace(lower(printf('%a', {value})), 'p+', 'p')"
        elif kind.startswith("MAP"):
            pairs = f"list_sort(map_entries({value}))"
            key = self.canonical("pair.key", kind[4:].partition(",")[0])
            item = self.canonical("pair.value", "DOUBLE")
            texts = self.each(pairs, "pair", f"{key} || ':' || {item}")
            text = f"'{{' || array_to_string({texts}, ',') || '}}'"
        else:
            text = f"CAST({value} AS VARCHAR)"
        return f"coalesce({text}, 'null')"

    def group(self, column: str) -> str:
        """Return a value that tells apart the groups of ``GROUP BY column``.

        Sorting by a number is faster than by a text.
        """
        del column
        return "row_number() OVER ()"

    def gathered(self, query: str) -> str:
        """Return a query of the same rows, placed where they will be grouped."""
        return query

    def shuffled(self, *columns: str) -> str:
        """Return the clauses of an order that depends on columns and means nothing."""
        return f"ORDER BY hash({', '.join(columns)})"


class Spark:
    """Words of Spark in ANSI mode; methods without a text are as of ``DuckDB``.

    Rows may be grouped in one partition, by one thread.
    """

    def __init__(self, one_partition: bool = False):
        self._alone = one_partition

    def name(self, text: str) -> str:
        """Return a name in back quotes."""
        return "`" + text.replace("`", "``") + "`"

    def text(self, text: str) -> str:
        """Return a string in single quotes; a backslash begins an escape."""
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def number(self, value: float) -> str:
        """Return a number; without the D it would be a DECIMAL."""
        return f"{float(value)!r}D"

    def type(self, kind: str) -> str:
        """Return a type of DuckDB as one of Spark."""
        if kind.endswith("[]"):
            return f"ARRAY<{self.type(kind[:-2])}>"
        if kind.startswith("MAP("):
            key, _, value = kind[4:-1].partition(", ")
            return f"MAP<{self.type(key)}, {self.type(value)}>"
        return _TYPES.get(kind, kind)

    def map(self, keys: Iterable[str], values: Iterable[str], kind: str) -> str:
        pairs = (x for pair in zip(keys, values, strict=True) for x in pair)
        return f"CAST(map({', '.join(pairs)}) AS {self.type(kind)})"

    def list(self, values: Iterable[str], kind: str) -> str:
        return f"CAST(array({', '.join(values)}) AS {self.type(kind)})"

    def is_empty(self, value: str) -> str:
        return f"size({value}) = 0"

    def is_empty_map(self, value: str) -> str:
        return f"size({value}) = 0"

    def at(self, value: str, index: str) -> str:
        return f"try_element_at({value}, CAST({index} AS INT))"

    def lookup(self, value: str, key: str) -> str:
        return f"try_element_at({value}, {key})"

    def each(self, value: str, item: str, result: str) -> str:
        return f"transform({value}, {item} -> {result})"

    def counted(self, values: str, view: str) -> str:
        """Return a query of the elements of lists: ``name`` and ``number``.

        Equal lists are counted first, because many rows have the same keys.
        """
        lists = f"SELECT {values} AS names, count(*) AS lists FROM {view} GROUP BY 1"
        elements = f"SELECT explode(names) AS name, lists FROM ({lists})"
        return f"SELECT name, sum(lists) AS number FROM ({elements}) GROUP BY name"

    def sum(self, count: str, index: str, summand: str) -> str:
        numbers = f"sequence(CAST(1 AS BIGINT), CAST({count} AS BIGINT))"
        return f"aggregate({numbers}, 0D, (total, {index}) -> total + {summand})"

    def frame(self, value: str, window: str) -> str:
        # collect_list leaves out NULL, but not a struct of NULL.
        return f"(collect_list(struct({value} AS v)) OVER {window}).v"

    def later(self, value: str, count: int, window: str, frame: str) -> str:
        """Return a value of the row that is ``count`` later, or else of the last row.

        ``lead`` costs less, and gives the row itself where there is no later one.
        """
        if count == 1:
            return f"lead({value}, 1, {value}) OVER {window}"
        return f"last_value({value}) OVER {frame}"

    def percentile(self, value: str, share: float) -> str:
        return f"percentile({value}, {share!r}D)"

    def key(self, text: str) -> str:
        return f"CAST(conv(substr(md5({text}), 1, 15), 16, 10) AS BIGINT)"

    def canonical(self, value: str, kind: str) -> str:
        if kind.endswith("[]"):
            texts = self.each(value, "item", self.canonical("item", kind[:-2]))
            text = f"'[' || array_join({texts}, ',') || ']'"
        elif kind == "DOUBLE":
            # Zeros are 0x0.0p0 here and 0x0p+0 in C; 1 is 0x1.0p0 and 0x1p+0.
            text = f"lower(format_string('%a', {value}))"
            text = f"replace(replace({text}, '.0p', 'p'), 'infinity', 'inf')"
            text = f"CASE WHEN {value} IS NOT NULL THEN {text} END"
        elif kind.startswith("MAP"):
            key = self.canonical("pair.key", kind[4:].partition(",")[0])
            item = self.canonical("pair.value", "DOUBLE")
            pairs = f"array_sort(map_entries({value}))"
            texts = self.each(pairs, "pair", f"{key} || ':' || {item}")
            text = f"'{{' || array_join({texts}, ',') || '}}'"
        else:
            text = f"CAST({value} AS STRING)"
        return f"coalesce({text}, 'null')"

    def group(self, column: str) -> str:
        """Return the column: there is no number without sorting all groups."""
        return column

    def gathered(self, query: str) -> str:
        """Return the query, in one partition if there is only one for groups.

        Spark does not see by itself that all rows are there already: it would write
        them into files by their group, and read them.
        """
        return f"SELECT /*+ COALESCE(1) */ * FROM ({query})" if self._alone else query

    def shuffled(self, *columns: str) -> str:
        """Return the clauses of an order that depends on columns and means nothing.

        Each file is sorted by itself, and has all samples of its episodes: ``ORDER BY``
        would compute everything twice and move it between machines once more.
        """
        return f"SORT BY xxhash64({', '.join(columns)})"


Dialect = DuckDB | Spark
DUCKDB, SPARK = DuckDB(), Spark()


def weighted(dialect: Dialect, weights: Mapping[str, float]) -> str:
    """Return the sum of metrics times their weights; a missing one is 0."""
    terms = []
    for name, weight in weights.items():
        value = dialect.lookup("metrics", dialect.text(name))
        terms.append(f"{dialect.number(weight)} * coalesce({value}, 0)")
    return " + ".join(terms) or dialect.number(0)
