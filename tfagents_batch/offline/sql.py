"""Quoting of names and values in SQL texts."""

from __future__ import annotations

from collections.abc import Iterable


def identifier(name: str) -> str:
    """Return the name of a column or a table, quoted."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a string, quoted."""
    return "'" + text.replace("'", "''") + "'"


def literals(texts: Iterable[str]) -> str:
    """Return a list of strings, quoted: ``['a', 'b']``."""
    return f"[{', '.join(map(literal, texts))}]"


def enumeration(texts: Iterable[str]) -> str:
    """Return DuckDB's type of one of these strings: ``ENUM('a', 'b')``."""
    return f"ENUM({', '.join(map(literal, texts))})"
