"""Quoting of names and values in SQL texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def identifier(name: str) -> str:
    """Return the name of a column or a table, quoted."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a string, quoted."""
    return "'" + text.replace("'", "''") + "'"


def weighted(column: str, weights: Mapping[str, float]) -> str:
    """Return the sum of a map's values times their weights; a missing one is 0."""
    terms = (
        f"{float(weight)!r} * coalesce({column}[{literal(name)}], 0)"
        for name, weight in weights.items()
    )
    return " + ".join(terms) or "0.0"


def literals(texts: Iterable[str]) -> str:
    """Return a list of strings, quoted: ``['a', 'b']``."""
    return f"[{', '.join(map(literal, texts))}]"
