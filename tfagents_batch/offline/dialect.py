"""Expressions whose words differ between SQL engines, in the words of DuckDB."""

from __future__ import annotations

from collections.abc import Iterable


class DuckDB:
    """Words of DuckDB. Another engine's dialect has the same methods."""

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

    def first(self, value: str, count: str) -> str:
        """Return the first elements of a list."""
        return f"list_slice({value}, 1, {count})"

    def each(self, value: str, item: str, result: str) -> str:
        """Return the list of ``result`` for each ``item``."""
        return f"list_transform({value}, lambda {item}: {result})"

    def sum(self, count: str, index: str, summand: str) -> str:
        """Return the sum of ``summand`` for an index from 1 to ``count``."""
        return f"list_sum({self.each(f'range(1, {count} + 1)', index, summand)})"

    def frame(self, value: str, window: str) -> str:
        """Return the values of a window's frame as a list, NULL included."""
        return f"coalesce(list({value}) OVER {window}, [])"  # no row gives NULL

    def key(self, text: str) -> str:
        """Return the first 60 bits of the MD5 of a text, as a BIGINT."""
        return f"('0x' || substr(md5({text}), 1, 15))::BIGINT"

    def shuffled(self, *columns: str) -> str:
        """Return a number of the columns that has no order."""
        return f"hash({', '.join(columns)})"


DUCKDB = DuckDB()
