"""SQL expressions that convert a column to the type which the schema gives it.

A value that cannot be converted becomes NULL; nothing here fails on a single row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tfagents_batch.errors import UserError
from tfagents_batch.offline.reading.dialect import identifier, literal
from tfagents_batch.offline.schema import FEATURES

UNREAD = "MAP(VARCHAR, VARCHAR)"  # type of ``unread``
INTEGER = "-?[0-9]+"
# A key of a JSON object that is not an integer.
OTHER_KEY = r'"[^"]*[^-0-9"][^"]*"\s*:'
_WHOLE = {
    *("tinyint", "smallint", "integer", "bigint", "hugeint"),
    *("utinyint", "usmallint", "uinteger", "ubigint", "uhugeint"),
}
# From here on, neighbouring whole numbers are the same float: ids would be mixed up.
EXACT = {"float": 2**24, "double": 2**53}
_FRACTIONS = {*EXACT, "decimal"}
_NUMBERS = _WHOLE | _FRACTIONS
_NESTED = "map", "list", "struct", "array"
# JSON texts that are no names as they are: objects, lists, and floats, in lists too.
_NO_NAME = r"(\{|\[|-?([0-9]+[.eE]|NaN|nan|Inf))"
# Before a text in an object. A name among features is no number that is not known: the
# map has no reading, so that the name is shown.
_TEXT = r':\s*"'


def converted(
    value: str, source: Any, target: str, column: str, present: str = ""
) -> str:
    """Return an expression of the type ``target``.

    Maps are read from maps, structs (a field is a key, NULL is an absent one), lists of
    pairs, lists of numbers (the keys are 0, 1, ...) and JSON texts. Where a whole
    number or a name is expected, 7.0 is 7, and 7.5 has no reading. UserError if no
    value of the source's type can be converted.

    Args:
      value: expression of the column.
      source: its ``DuckDBPyType``.
      target: a type of ``schema.types``.
      column: name of the column, for the error.
      present: of lists of numbers, an expression of flags; "" if all are present.
    """
    if str(source) == target:
        return value
    if source.id == "null":
        return f"NULL::{target}"
    if target == "VARCHAR" and source.id not in _NESTED:
        return _name(value, source)
    if source.id == "varchar" and target not in ("BIGINT", "DOUBLE", "BOOLEAN"):
        return _nested_of_json(value, target)
    if source.id == "varchar" or source.id in _NUMBERS or source.id == "boolean":
        if target == "BIGINT":
            return _integer(value, source)
        if target == "BOOLEAN":
            return _flag(value, source)
        if target == "DOUBLE":
            return _double(value, source)
    if target.endswith("[]") and source.id in ("list", "array"):
        child, inner = _child(source), target[:-2]
        result = f"list_transform({value}, lambda item: "
        result += f"{converted('item', child, inner, column)})"
        return result if is_safe(child, inner) else _if_all_are_read(value, result)
    if target.startswith("MAP"):
        result = _map(value, source, target, present)
        if result:
            return result
    raise UserError(
        f"column {column} has the type {source}; expected {target}. If it holds the "
        "features of an action, pass mode='parametric' or 'continuous'; of a table "
        "with time stamps or names, make rows by tfagents-batch convert"
    )


def is_safe(source: Any, target: str) -> bool:
    """Return whether every value of a type can be converted."""
    if str(source) == target or source.id == "null":
        return True
    if target == "VARCHAR":
        return source.id in _WHOLE
    return target == "DOUBLE" and source.id in _NUMBERS


def name_of_json(text: str, value: str) -> str:
    """Return a name, such as that of an action, in a JSON object; 7.0 is "7".

    In the text, "7.0" and 7.0 look the same. JSON is computed only where needed.
    """
    other = f"regexp_matches({text}, {literal('^' + _NO_NAME)})"
    return f"CASE WHEN {other} THEN {_scalar_of_json(value)} ELSE {text} END"


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


# ---- names and numbers


def _name(value: str, source: Any) -> str:
    """Return a text: of a float its whole number, of a time zone's time that of UTC."""
    if str(source) == "JSON":
        return _scalar_of_json(value)
    if source.id in _FRACTIONS:
        return f"{_whole(value, source.id)}::VARCHAR"
    if source.id == "timestamp with time zone":
        value = f"make_timestamp(epoch_us({value}))"
    return f"TRY_CAST({value} AS VARCHAR)"


def _whole(value: str, kind: str) -> str:
    """Return the whole number that a float or a decimal is; else NULL."""
    is_whole = f"trunc({value}) = {value}"
    if kind in EXACT:
        is_whole = f"abs({value}) < {EXACT[kind]} AND {is_whole}"
    return f"CASE WHEN {is_whole} THEN TRY_CAST({value} AS HUGEINT) END"


def _double(value: str, source: Any) -> str:
    """Return a DOUBLE; NULL for the text 1_0, which DuckDB alone reads as 10."""
    number = f"TRY_CAST({value} AS DOUBLE)"
    if source.id == "varchar":
        return f"CASE WHEN NOT contains({value}, '_') THEN {number} END"
    return number


def _integer(value: str, source: Any) -> str:
    """Return a BIGINT; NULL for 3.5, which a cast would round."""
    if source.id in _FRACTIONS:
        return f"TRY_CAST({_whole(value, source.id)} AS BIGINT)"
    integer = f"TRY_CAST({value} AS BIGINT)"
    if source.id != "varchar":
        return integer
    number = _whole(_double(value, source), "double")
    is_integer = f"regexp_full_match({value}, {literal(INTEGER)})"
    return (
        f"CASE WHEN {is_integer} THEN {integer} ELSE TRY_CAST({number} AS BIGINT) END"
    )


def _flag(value: str, source: Any) -> str:
    """Return a BOOLEAN; of numbers, 1 is true and 0 is false."""
    if source.id == "boolean":
        return value
    if source.id == "varchar":
        whole = f"CASE {value} WHEN '1.0' THEN true WHEN '0.0' THEN false END"
        return f"coalesce(TRY_CAST({value} AS BOOLEAN), {whole})"
    return f"CASE WHEN {value} IN (0, 1) THEN {value} = 1 END"


def _scalar_of_json(value: str) -> str:
    text = f"({value}->>'$')"
    number = _whole(f"TRY_CAST({text} AS DOUBLE)", "double")
    return (
        f"CASE json_type({value}) WHEN 'OBJECT' THEN NULL WHEN 'ARRAY' THEN NULL "
        f"WHEN 'DOUBLE' THEN CASE WHEN regexp_full_match({text}, {literal(INTEGER)}) "
        f"THEN {text} ELSE {number}::VARCHAR END ELSE {text} END"
    )


# ---- lists and maps


def _if_all_are_read(value: str, result: str) -> str:
    """Return a list, or NULL if an element of ``value`` became NULL in it."""
    return f"CASE WHEN list_count({result}) = list_count({value}) THEN {result} END"


def _nested_of_json(value: str, target: str) -> str:
    cast = f"TRY_CAST(TRY_CAST({value} AS JSON) AS {target})"
    if target == "VARCHAR[]":
        items = f"TRY_CAST(TRY_CAST({value} AS JSON) AS JSON[])"
        names = f"list_transform({items}, lambda item: {_scalar_of_json('item')})"
        some = f"regexp_matches({value}, {literal(f'[[,][[:space:]]*{_NO_NAME}')})"
        return f"CASE WHEN {some} THEN {_if_all_are_read(items, names)} ELSE {cast} END"
    if FEATURES not in target:
        return cast
    is_map = f"NOT regexp_matches({value}, {literal(OTHER_KEY)})"
    if target == FEATURES:
        lost = f"list_count(map_values({cast})) < cardinality({cast})"
        some_text = f"regexp_matches({value}, {literal(_TEXT)})"
        is_map += f" AND NOT coalesce({lost} AND {some_text}, false)"
    return f"CASE WHEN {is_map} THEN {cast} END"


def _child(source: Any) -> Any:
    return dict(source.children)["child"]


def _map(value: str, source: Any, target: str, present: str) -> str:
    """Return a map; "" if the type has no reading as one."""
    if source.id == "map":
        return _map_of_map(value, *dict(source.children).values(), target)
    if source.id == "struct":
        return _map_of_struct(value, source, target)
    if source.id not in ("list", "array"):
        return ""
    child = _child(source)
    if child.id == "struct" and len(child.children) == 2:
        (_, keys), (_, items) = child.children
        return _map_of_map(f"TRY(map_from_entries({value}))", keys, items, target)
    if child.id in _NUMBERS or child.id == "null":
        is_present = f"{present}[i + 1]" if present else "true"
        entries = (
            f"list_transform(list_filter(range(len({value})), lambda i: {is_present}), "
            f"lambda i: {{'key': i, 'value': {value}[i + 1]}})"
        )
        # A flag that is missing says nothing of its number.
        counts = f"list_count({present}), len({present})"
        complete = f"({counts}) = (len({value}), len({value}))" if present else ""
        return _map_of_pairs(value, entries, target, complete)
    return ""


def _map_of_map(value: str, keys: Any, items: Any, target: str) -> str:
    """Return a map whose keys and items have other types in ``value``."""
    result = _with_keys(value, keys, target)
    if items.id != "varchar":
        return result
    numbers = f"map_values({value})"
    numbers = f"list_transform({numbers}, lambda item: {_double('item', items)})"
    all_are_read = f"list_count({numbers}) = list_count(map_values({value}))"
    return f"CASE WHEN {all_are_read} THEN {result} END"


def _with_keys(value: str, keys: Any, target: str) -> str:
    """Return a map whose keys have another type in ``value``."""
    cast = f"TRY_CAST({value} AS {target})"
    if keys.id in _FRACTIONS:
        names = (
            f"list_transform(map_keys({value}), lambda key: {_whole('key', keys.id)})"
        )
        # Keys that are NULL, or occur twice, make no map.
        return f"TRY_CAST(TRY(map({names}, map_values({value}))) AS {target})"
    if target != FEATURES or keys.id != "varchar":
        return cast
    integer = f"regexp_full_match(key, {literal(INTEGER)})"
    others = f"list_filter(map_keys({value}), lambda key: NOT {integer})"
    return f"CASE WHEN len({others}) = 0 THEN {cast} END"


def _map_of_struct(value: str, source: Any, target: str) -> str:
    pairs, conditions = [], []
    for name, kind in source.children:
        field = f"{value}.{identifier(name)}"
        number = _double(field, kind)
        if target == FEATURES and not re.fullmatch(INTEGER, name):
            conditions.append(f"{field} IS NULL")
            continue
        if kind.id not in _NUMBERS:
            conditions.append(f"({field} IS NULL OR {number} IS NOT NULL)")
        pairs.append(f"{{'key': {literal(name)}, 'value': {number}}}")
    # Without this, a struct of no good name is a list without a type.
    pairs.append("{'key': '', 'value': NULL::DOUBLE}")
    entries = f"list_filter([{', '.join(pairs)}], lambda pair: pair.value IS NOT NULL)"
    return _map_of_pairs(value, entries, target, " AND ".join(conditions))


def _map_of_pairs(value: str, entries: str, target: str, condition: str) -> str:
    cast = f"TRY_CAST(map_from_entries({entries}) AS {target})"
    present = f"{value} IS NOT NULL"
    return f"CASE WHEN {present}{condition and ' AND '}{condition} THEN {cast} END"
