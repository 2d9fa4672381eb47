"""Expressions of Spark that give a column the type which the schema has for it.

They read what ``conversion`` reads in DuckDB. A value that cannot be read ends the
query, because the rows of Spark are not validated.
"""

from __future__ import annotations

import re
from typing import Any

from tfagents_batch.errors import UserError
from tfagents_batch.offline.reading.conversion import EXACT, INTEGER
from tfagents_batch.offline.reading.dialect import SPARK
from tfagents_batch.offline.schema import FEATURES

_WHOLE = "byte", "short", "integer", "long"
_FRACTIONS = (*EXACT, "decimal")
_NUMBERS = _WHOLE + _FRACTIONS
_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"


def converted(
    value: str, source: Any, target: str, column: str, flags: str = ""
) -> str:
    """Return an expression of the type ``target``, see ``conversion.converted``.

    ``source`` is a ``DataType``, and ``flags`` what is ``present`` there.
    """
    kind, result = source.typeName(), ""
    if kind == "void":
        result = "NULL"
    elif target == "VARCHAR":
        result = _name(value, kind, column)
    elif target in ("BIGINT", "DOUBLE", "BOOLEAN"):
        result = _number(value, kind, target, column)
    elif kind == "string":
        result = _nested_of_json(value, target, column)
    elif target.endswith("[]") and kind == "array":
        item = converted("item", source.elementType, target[:-2], column)
        result = f"transform({value}, item -> {item})"
    elif target.startswith("MAP"):
        result = _map(value, source, target, column, flags)
    if not result:
        raise UserError(
            f"column {column} has the type {source.simpleString()} in Spark; expected "
            f"{SPARK.type(target)}. If it holds the features of an action, pass "
            "mode='parametric' or 'continuous'; otherwise convert it"
        )
    return f"CAST({result} AS {SPARK.type(target)})"


def type_in_json(target: str) -> str:
    """Return Spark's type in which a value of JSON loses nothing."""
    if target.endswith("[]"):
        return f"ARRAY<{type_in_json(target[:-2])}>"
    if target.startswith("MAP"):
        return "MAP<STRING, DOUBLE>"
    return "VARIANT" if target == "VARCHAR" else "STRING"


def _checked(
    condition: str, result: str, value: str, column: str, expected: str
) -> str:
    """Return ``result``, or an error unless a condition holds; NULL stays NULL."""
    text = SPARK.text(f"; expected {expected}")
    message = f"concat({SPARK.text(f'{column} is ')}, CAST({value} AS STRING), {text})"
    return (
        f"CASE WHEN {value} IS NULL THEN NULL WHEN {condition} THEN {result} "
        f"ELSE raise_error({message}) END"
    )


# ---- names and numbers


def _name(value: str, kind: str, column: str) -> str:
    if kind in ("map", "array", "struct"):
        return ""
    if kind == "variant":
        return _name_of_variant(value, column)
    if kind in _FRACTIONS:
        return _whole(value, kind, column)
    if kind == "timestamp":  # the text of a time depends on the session's time zone
        return f"timestampadd(MICROSECOND, unix_micros({value}), {_EPOCH})"
    return value


def _name_of_variant(value: str, column: str) -> str:
    kind = f"schema_of_variant({value})"
    text = f"CAST({value} AS STRING)"
    number = _whole(f"CAST({value} AS DOUBLE)", "double", column)
    wrong = f"{kind} LIKE 'OBJECT%' OR {kind} LIKE 'ARRAY%' OR ({kind} LIKE 'DECIMAL%' "
    wrong += f"AND {text} LIKE '%.%')"
    name = f"CASE {kind} WHEN 'VOID' THEN NULL WHEN 'DOUBLE' THEN CAST({number} AS "
    name += f"STRING) ELSE {text} END"
    expected = "text or a whole number"
    return _checked(f"NOT ({wrong})", name, value, column, expected)


def _number(value: str, kind: str, target: str, column: str) -> str:
    """Return a number or a flag; "" if the type has no reading as one."""
    expected = {"BIGINT": "a whole number", "DOUBLE": "a number"}
    expected = expected.get(target, "true or false")
    if kind == "string":
        result = f"try_cast({value} AS {target})"
        if target == "BIGINT":
            number = f"try_cast({value} AS DOUBLE)"
            whole = _is_whole(number, "double")
            rest = f"CASE WHEN {whole} THEN CAST({number} AS BIGINT) END"
            is_integer = f"{value} RLIKE {SPARK.text(f'^{INTEGER}$')}"
            result = f"CASE WHEN {is_integer} THEN {result} ELSE {rest} END"
        if target == "BOOLEAN":
            rest = f"CASE {value} WHEN '1.0' THEN true WHEN '0.0' THEN false END"
            result = f"coalesce({result}, {rest})"
        return _checked(f"{result} IS NOT NULL", result, value, column, expected)
    if kind == "boolean":
        return "" if target == "BIGINT" else value
    if kind not in _NUMBERS:
        return ""
    if target == "BOOLEAN":
        is_flag = f"{value} IN (0, 1)"
        return _checked(is_flag, f"{value} = 1", value, column, expected)
    if target == "BIGINT" and kind in _FRACTIONS:
        return _whole(value, kind, column)
    return value


def _is_whole(value: str, kind: str) -> str:
    if kind == "decimal":
        return f"{value} % 1 = 0"
    return f"abs({value}) < {EXACT[kind]} AND rint({value}) = {value}"


def _whole(value: str, kind: str, column: str) -> str:
    """Return the whole number that a float or a decimal is."""
    whole = f"CAST({value} AS {'DECIMAL(38, 0)' if kind == 'decimal' else 'BIGINT'})"
    limit = "" if kind == "decimal" else f" below {EXACT[kind]:,}"
    expected = f"a whole number{limit}, or text"
    return _checked(_is_whole(value, kind), whole, value, column, expected)


# ---- lists and maps


def _nested_of_json(value: str, target: str, column: str) -> str:
    from pyspark.sql.types import DataType

    kind = type_in_json(target)
    parsed = f"from_json({value}, {SPARK.text(kind)}, map('mode', 'FAILFAST'))"
    source = DataType.fromDDL(kind)
    return converted(parsed, source, target, column)


def _map(value: str, source: Any, target: str, column: str, flags: str) -> str:
    """Return a map; "" if the type has no reading as one."""
    kind = source.typeName()
    if kind == "map":
        keys, values = f"map_keys({value})", f"map_values({value})"
        key, item = source.keyType, source.valueType
        is_same = (key.typeName() in _WHOLE) == (target == FEATURES)
        is_same &= item.typeName() in _NUMBERS and key.typeName() in (*_WHOLE, "string")
        if is_same:
            return _unique(keys, value, value, column)
        return _of_arrays(value, keys, key, values, item, target, column)
    if kind == "struct":
        return _map_of_struct(value, source, target, column)
    if kind != "array":
        return ""
    child = source.elementType
    if child.typeName() == "struct" and len(child.fields) == 2:
        key, item = child.fields
        keys, values = (
            f"transform({value}, pair -> pair.{SPARK.name(x.name)})"
            for x in (key, item)
        )
        return _of_arrays(
            value, keys, key.dataType, values, item.dataType, target, column
        )
    if child.typeName() not in (*_NUMBERS, "void"):
        return ""
    is_present = f"get({flags}, index)" if flags else "true"
    pairs = (
        f"transform({value}, (item, index) -> struct(CAST(index AS BIGINT) AS key, "
        f"CAST(item AS DOUBLE) AS value, {is_present} AS given))"
    )
    pairs = f"transform(filter({pairs}, pair -> pair.given), pair -> "
    pairs = f"map_from_entries({pairs}struct(pair.key, pair.value)))"
    if not flags:
        return pairs
    complete = f"coalesce(size(filter({flags}, flag -> flag IS NOT NULL)), -1)"
    expected = f"one flag in {flags} for each number"
    complete = f"{complete} = size({value}) AND size({flags}) = size({value})"
    return _checked(complete, pairs, value, column, expected)


def _of_arrays(
    value: str, keys: str, key: Any, values: str, item: Any, target: str, column: str
) -> str:
    """Return the map of two lists with the types ``key`` and ``item``."""
    kind = "BIGINT" if target == FEATURES else "VARCHAR"
    if (key.typeName(), kind) == ("string", "BIGINT"):
        number = _checked(
            f"key RLIKE {SPARK.text(f'^{INTEGER}$')}",
            "CAST(key AS BIGINT)",
            "key",
            f"a key of {column}",
            "a whole number",
        )
    else:
        number = converted("key", key, kind, f"a key of {column}")
    keys = f"transform({keys}, key -> {number})"
    values = f"transform({values}, item -> {converted('item', item, 'DOUBLE', column)})"
    result = f"map_from_arrays({keys}, {values})"
    return _unique(keys, result, value, column)


def _unique(keys: str, result: str, value: str, column: str) -> str:
    is_unique = f"size(array_distinct({keys})) = size({keys})"
    return _checked(is_unique, result, value, column, "each key once")


def _map_of_struct(value: str, source: Any, target: str, column: str) -> str:
    kind = "BIGINT" if target == FEATURES else "STRING"
    pairs, others = [], []
    for part in source.fields:
        field = f"{value}.{SPARK.name(part.name)}"
        if target == FEATURES and not re.fullmatch(INTEGER, part.name):
            others.append(f"{field} IS NULL")
            continue
        item = converted(field, part.dataType, "DOUBLE", column)
        key = f"CAST({SPARK.text(part.name)} AS {kind})"
        pairs.append(f"struct({key} AS key, {item} AS value)")
    if not pairs:
        result = f"CAST(map() AS {SPARK.type(target)})"
    else:
        entries = f"filter(array({', '.join(pairs)}), pair -> pair.value IS NOT NULL)"
        keys = f"transform({entries}, pair -> pair.key)"
        result = _unique(keys, f"map_from_entries({entries})", value, column)
    condition = " AND ".join(others) or "true"
    return _checked(condition, result, value, column, "whole numbers as its fields")
