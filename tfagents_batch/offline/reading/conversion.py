"""SQL expressions that convert a column to the type which the schema gives it.

A value that cannot be converted becomes NULL; nothing here fails on a single row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfagents_batch.errors import UserError
from tfagents_batch.offline.schema import FEATURES
from tfagents_batch.offline.sql import identifier, literal

UNREAD = "MAP(VARCHAR, VARCHAR)"  # type of ``unread``
_INTEGER_KEY = "-?[0-9]+"
# A key of a JSON object that is not an integer.
OTHER_KEY = r'"[^"]*[^-0-9"][^"]*"\s*:'
_NUMBERS = {
    *("tinyint", "smallint", "integer", "bigint", "hugeint", "decimal"),
    *("utinyint", "usmallint", "uinteger", "ubigint", "uhugeint", "float", "double"),
}


def converted(
    value: str, source: Any, target: str, column: str, present: str = ""
) -> str:
    """Return an expression of the type ``target``.

    Maps are read from maps, structs (a field is a key, NULL is an absent one), lists of
    pairs, lists of numbers (the keys are 0, 1, ...) and JSON texts.

    Args:
      value: expression of the column.
      source: its ``DuckDBPyType``.
      target: a type of ``schema.types``.
      column: name of the column, for the error.
      present: for lists of numbers, an expression of a list of flags; "" if all are
        present.

    Raises:
      UserError: if no value of the source's type can be converted.
    """
    if str(source) == target:
        return value
    if target == "VARCHAR" and source.id not in ("map", "list", "struct", "array"):
        if str(source) == "JSON":
            return _scalar_of_json(value)
        return f"TRY_CAST({value} AS VARCHAR)"
    if source.id == "varchar" and target not in ("BIGINT", "DOUBLE", "BOOLEAN"):
        return _nested_of_json(value, target)
    if source.id == "varchar" or source.id in _NUMBERS or source.id == "boolean":
        if target == "BIGINT":
            return _integer(value)
        if target in ("DOUBLE", "BOOLEAN"):
            return f"TRY_CAST({value} AS {target})"
    if target.endswith("[]") and source.id in ("list", "array"):
        item = converted("item", _child(source), target[:-2], column)
        return f"list_transform({value}, lambda item: {item})"
    if target.startswith("MAP"):
        found = _map(value, source, target, present)
        if found:
            return found
    raise UserError(
        f"column {column} has the type {source}; expected {target}. If it holds the "
        "features of an action, pass mode='parametric' or 'continuous'; otherwise "
        "convert it, for example a time by epoch_ms"
    )


def is_safe(source: Any, target: str) -> bool:
    """Return whether every value of a type can be converted."""
    safe = ("VARCHAR", "DOUBLE") if source.id in _NUMBERS else ()
    return str(source) == target or target in safe


def unread(failures: Mapping[str, tuple[str, str]]) -> str:
    """Return a map from columns that could not be converted to their values as JSON.

    ``failures`` has a condition and the value of each column that may fail.
    """
    if not failures:
        return f"NULL::{UNREAD}"
    pairs = ", ".join(
        f"CASE WHEN {condition} THEN {{'key': {literal(name)}, "
        f"'value': {value}::VARCHAR}} END"
        for name, (condition, value) in failures.items()
    )
    some = " OR ".join(f"({condition})" for condition, _ in failures.values())
    return (
        f"CASE WHEN {some} THEN map_from_entries(list_filter([{pairs}], "
        "lambda pair: pair IS NOT NULL)) END"
    )


def _integer(value: str) -> str:
    """Return a BIGINT; 3.0 is 3, and 3.5 is NULL where a cast would round."""
    whole = f"TRY_CAST({value} AS BIGINT)"
    return (
        f"CASE WHEN TRY_CAST({value} AS DOUBLE) = TRY_CAST({whole} AS DOUBLE) "
        f"THEN {whole} END"
    )


def _scalar_of_json(value: str) -> str:
    scalar = f"json_type({value}) NOT IN ('OBJECT', 'ARRAY')"
    return f"CASE WHEN {scalar} THEN {value}->>'$' END"


def _nested_of_json(value: str, target: str) -> str:
    cast = f"TRY_CAST(TRY_CAST({value} AS JSON) AS {target})"
    if FEATURES not in target:
        return cast
    other = f"regexp_matches({value}, {literal(OTHER_KEY)})"
    return f"CASE WHEN NOT {other} THEN {cast} END"


def _child(source: Any) -> Any:
    return dict(source.children)["child"]


def _map(value: str, source: Any, target: str, present: str) -> str:
    """Return a map; "" if the type has no reading as one."""
    if source.id == "map":
        cast = f"TRY_CAST({value} AS {target})"
        if target != FEATURES or dict(source.children)["key"].id != "varchar":
            return cast
        integer = f"regexp_full_match(key, {literal(_INTEGER_KEY)})"
        others = f"list_filter(map_keys({value}), lambda key: NOT {integer})"
        return f"CASE WHEN len({others}) = 0 THEN {cast} END"
    if source.id == "struct":
        fields = [(name, f"{value}.{identifier(name)}") for name, _ in source.children]
        pairs = ", ".join(
            f"{{'key': {literal(name)}, 'value': TRY_CAST({field} AS DOUBLE)}}"
            for name, field in fields
        )
        entries = f"list_filter([{pairs}], lambda pair: pair.value IS NOT NULL)"
        return _map_of_pairs(value, entries, target)
    if source.id not in ("list", "array"):
        return ""
    child = _child(source)
    if child.id == "struct" and len(child.children) == 2:
        return f"TRY_CAST(TRY(map_from_entries({value})) AS {target})"
    if child.id in _NUMBERS:
        given = f"{present}[i + 1]" if present else "true"
        entries = (
            f"list_transform(list_filter(range(len({value})), lambda i: {given}), "
            f"lambda i: {{'key': i, 'value': {value}[i + 1]}})"
        )
        return _map_of_pairs(value, entries, target)
    return ""


def _map_of_pairs(value: str, entries: str, target: str) -> str:
    cast = f"TRY_CAST(map_from_entries({entries}) AS {target})"
    return f"CASE WHEN {value} IS NOT NULL THEN {cast} END"
