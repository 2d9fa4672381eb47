"""Check logged rows before anything is built from them.

The rules run inside DuckDB, which reads the rows in a stream. Most work is one query
for the rules of single rows, one for their order, and one for the names that occur.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Mapping, Sequence

from tfagents_batch import config
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.offline.reading.conversion import OTHER_KEY
from tfagents_batch.offline.reading.dialect import literal, literals
from tfagents_batch.offline.report import (
    ERROR,
    WARNING,
    Example,
    ValidationReport,
    Violation,
)
from tfagents_batch.offline.rules import IN_ORDER, WARNINGS, marker, rules
from tfagents_batch.offline.schema import FEATURES, METRICS, Schema, types
from tfagents_batch.settings.suggest import closest, unknown

if typing.TYPE_CHECKING:
    from tfagents_batch.offline.reader import LoggedRows  # needs an extra
    from tfagents_batch.offline.reading.spark_rows import SparkRows

_EXAMPLES = 3
# Share of steps up to which a gap is an exception (otherwise the numbers are times),
# and up to which a wrong order is one (otherwise the files are shuffled).
_EXCEPTIONS = 0.1
_EXPECTED = {
    "VARCHAR": "text, or a whole number below 2^53 if it is a float",
    "BIGINT": "a whole number, such as seconds since 1970, or a time stamp in a table "
    "that tfagents-batch convert reads",
    "DOUBLE": "a number",
    "BOOLEAN": "true or false",
    FEATURES: 'a map from whole numbers to numbers, such as {"0": 1.5}; '
    "tfagents-batch convert makes numbers of names",
    METRICS: 'a map from names to numbers, such as {"click": 1}',
    "VARCHAR[]": "a list of names, which are text or whole numbers",
    f"{FEATURES}[]": 'a list of maps, such as [{"0": 1.5}]',
}
_WHOLE_FLOAT = r"-?[0-9]+\.0+"
Duplicates = typing.Literal["error", "first", "last"]


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the validation."""

    on_duplicate: Duplicates = option(
        "error", "rows with the same mdp_id and sequence_number: error, first or last"
    )
    propensities: bool = option(False, "a missing action_probability is an error")
    propensity_floor: float = option(
        1e-6, "action_probability below which there is a warning", least=0, most=1
    )
    continuing_task: bool = option(False, "no episode ends, so none needs a last row")
    metric_weights: dict | None = option(
        None, "weights of the metrics whose sum is the reward; none: not checked"
    )
    max_features: int = option(100_000, "most ids of features", least=1)
    rare_feature: int = option(20, "rows below which a feature is rare", least=0)
    common_action: float = option(
        0.999, "share of rows with one action above which there is a warning", most=1
    )
    errors: tuple[str, ...] = option((), "names of warnings that are errors")


def validate(
    rows: LoggedRows, schema: Schema | None = None, options: Options | None = None
) -> ValidationReport:
    """Check rows.

    UserError if an option is wrong, or a file cannot be read or changed meanwhile.

    Args:
      rows: result of ``reader.open_rows``.
      schema: expected schema: actions and features that it lacks are errors; None for
        that of the rows.
      options: see ``Options``.
    """
    options = config.check(options or Options())
    for name in options.errors:
        if name not in WARNINGS:
            raise UserError(unknown("rule", name, WARNINGS))
    count, findings = _single(rows, schema, options)
    findings += _unknown_columns(rows)
    if count:
        findings += _order(rows, options) + _names(rows, options) + _two_forms(rows)
    else:
        text = "there are no rows; expected at least one"
        findings.append(Violation("empty", ERROR, 1, text))
    if schema is None:
        findings += final_names(rows)
    else:
        findings += _difference(schema, rows.find_schema())
    rows.check_unchanged()
    findings = [
        dataclasses.replace(x, severity=ERROR) if x.rule in options.errors else x
        for x in findings
    ]
    return ValidationReport(
        count, tuple(sorted(findings, key=lambda x: x.severity != ERROR))
    )


def _single(
    rows: LoggedRows, schema: Schema | None, options: Options
) -> tuple[int, list[Violation]]:
    """Return the number of rows, and what the rules of single rows find."""
    broken = rules(
        rows.mode,
        schema.actions if schema else (),
        options.propensity_floor,
        options.propensities,
        options.metric_weights or {},
    )
    counts = ", ".join(f"count_if({rule.condition})" for rule in broken)
    ((count, unread, *numbers),) = rows.fetch(
        f"SELECT count(*), count(unread), {counts} FROM {rows.view}"
    )
    findings = _unread(rows) if unread else []
    failed = [
        (rule, number)
        for rule, number in zip(broken, numbers, strict=True)
        if number and not (rule.unless_all and number == count)
    ]
    if failed:
        shown = (f"{_examples(x.value)} FILTER ({x.condition})" for x, _ in failed)
        (examples,) = rows.fetch(f"SELECT {', '.join(shown)} FROM {rows.view}")
        findings += [
            Violation(rule.name, rule.severity, number, rule.text, _shown(some))
            for (rule, number), some in zip(failed, examples, strict=True)
        ]
    return count, findings


def _unread(rows: LoggedRows) -> list[Violation]:
    """Return the findings on values that could not be converted."""
    known = types(rows.mode)
    maps = literals(name for name, type_ in known.items() if FEATURES in type_)
    groups = rows.fetch(
        f"""
        SELECT name, list_contains({maps}, name) AND regexp_matches(value,
            {literal(OTHER_KEY)}) AS key, count(*), {_examples("value")}
        FROM (SELECT file, row, unnest(map_entries(unread), recursive := true)
          FROM {rows.view} WHERE unread IS NOT NULL) AS entries(file, row, name, value)
        GROUP BY ALL ORDER BY ALL
        """
    )
    findings = []
    for name, is_key, count, some in groups:
        if not name:
            rule, text = "not_json", "a line is no JSON object; expected one row a line"
        elif is_key:
            rule = "feature_key"
            text = f"a key of {name} is no whole number; expected ids such as 3"
        else:
            rule = "wrong_type"
            text = f"{name} cannot be read; expected {_EXPECTED[known[name]]}"
        findings.append(Violation(rule, ERROR, count, text, _shown(some)))
    return findings


def _order(rows: LoggedRows, options: Options) -> list[Violation]:
    """Return the findings on the order of the rows of an episode."""
    key = "concat(mdp_id, ' ', sequence_number)"
    ends = "(is_marker OR has_final OR coalesce(terminated OR truncated, false))"
    final = "cardinality(final_state_features) > 0"
    if rows.mode != "continuous":
        final = f"{final} OR len(final_possible_actions) > 0"
    conditions = {
        "duplicate_key": "sequence_number = earlier",
        "early_end": f"{ends} AND later > sequence_number",
        "day_backwards": "later_ds < ds",
        "clock_backwards": "later > sequence_number AND later_file = file "
        "AND later_row < row",
        "sequence_gap": "later > sequence_number + 1",
    }
    columns = ", ".join(
        f"count_if({condition}), {_examples(key)} FILTER ({condition})"
        for condition in conditions.values()
    )
    ((steps, terminals, *values),) = rows.fetch(
        f"""
        SELECT count(later), count_if(is_marker OR terminated), {columns} FROM (
          SELECT *, lag(sequence_number) OVER episode AS earlier,
            lead(sequence_number) OVER episode AS later, lead(ds) OVER episode AS
            later_ds, lead(file) OVER episode AS later_file,
            lead(row) OVER episode AS later_row
          FROM (SELECT mdp_id, sequence_number, ds, file, row, terminated, truncated,
              coalesce({final}, false) AS has_final,
              {marker(rows.mode)} AS is_marker FROM {rows.view}
            WHERE mdp_id IS NOT NULL AND sequence_number {IN_ORDER})
          WINDOW episode AS (PARTITION BY mdp_id ORDER BY sequence_number))
        """
    )
    chosen = options.on_duplicate
    then = f"only the {chosen} of these rows counts"
    if chosen == "error":
        then = "remove it, or pass on_duplicate=first or last"
    texts = {
        "duplicate_key": "a pair of mdp_id and sequence_number occurs again; " + then,
        "early_end": "an end marker, or a row with terminated, truncated, "
        "final_state_features or final_possible_actions, is not the last row of its "
        "mdp_id; give each episode its own mdp_id, and a final state to its last row "
        "only",
        "day_backwards": "ds falls while sequence_number rises; episodes are in the "
        "order of sequence_number",
        "clock_backwards": "sequence_number falls within a file; episodes are in the "
        "order of sequence_number, which may be that of a wrong clock",
        "sequence_gap": "sequence_number leaves out a number, though most rows follow "
        "the one before; rows may be lost",
    }
    findings = []
    for name, count, some in zip(conditions, values[::2], values[1::2], strict=True):
        rare = name in ("clock_backwards", "sequence_gap")
        if not count or (rare and count > _EXCEPTIONS * steps):
            continue
        is_error = name == "early_end" or (name, chosen) == ("duplicate_key", "error")
        severity = ERROR if is_error else WARNING
        findings.append(Violation(name, severity, count, texts[name], _shown(some)))
    if not terminals and not options.continuing_task:
        text = (
            "no row has terminated and there is no end marker, so the last row of an "
            "episode counts as its end, unless timeline gets --last_row=drop; log "
            "ends, unless the task never ends (continuing_task)"
        )
        findings.append(Violation("no_terminal", WARNING, 1, text))
    return findings


def _names(rows: LoggedRows, options: Options) -> list[Violation]:
    """Return the findings on ids of features and names of actions."""
    counts = {
        kind: {x.name: x.times for x in rows.contents if x.kind == kind}
        for kind in ("feature", "action_feature", "action")
    }
    features, of_actions = counts["feature"], counts["action_feature"]
    shared = sorted(features.keys() & of_actions.keys())
    text = "features of states and of actions share ids; give them different ids"
    findings = _of_names("shared_feature", ERROR, shared, text)
    ids = [*features, *of_actions]
    if len(ids) > options.max_features:
        text = f"there are more than {options.max_features:,} ids of features"
        findings += _of_names("too_many_features", ERROR, ids, text)
    few = [x for x, count in features.items() if count < options.rare_feature]
    text = f"a feature is present in less than {options.rare_feature} rows"
    findings += _of_names("rare_feature", WARNING, few, text)
    total = sum(counts["action"].values())
    most = [x for x, n in counts["action"].items() if n > options.common_action * total]
    text = f"more than {options.common_action:.1%} of the rows have one action"
    return findings + _of_names("common_action", WARNING, most, text)


def _of_names(rule: str, severity: str, names: Sequence, text: str) -> list[Violation]:
    """Return a finding on names; none if there are none."""
    some = tuple(Example(None, None, str(x)) for x in names[:_EXAMPLES])
    return [Violation(rule, severity, len(names), text, some)] if names else []


def _two_forms(rows: LoggedRows) -> list[Violation]:
    """Return a finding if a name is there as a whole number and as a float: 7, 7.0."""
    is_float = re.compile(_WHOLE_FLOAT)
    actions = {str(x.name) for x in rows.contents if x.kind.endswith("action")}
    names = {
        name
        for name in actions
        if is_float.fullmatch(name) and name.partition(".")[0] in actions
    }
    candidates = (
        f"(SELECT DISTINCT mdp_id AS name FROM {rows.view} WHERE contains(mdp_id, '.0')"
        f" AND regexp_full_match(mdp_id, {literal(_WHOLE_FLOAT)}))"
    )
    if rows.fetch(f"SELECT 1 FROM {candidates} LIMIT 1"):  # the rest costs more
        both = f"split_part(name, '.', 1) IN (SELECT mdp_id FROM {rows.view})"
        floats = rows.fetch(f"SELECT name FROM {candidates} WHERE {both}")
        names |= {name for (name,) in floats}
    text = (
        "a name of an episode or an action occurs as a whole number too, such as 7.0 "
        "and 7; they count as different: write each in one form"
    )
    return _of_names("two_forms", WARNING, sorted(names), text)


def final_names(rows: LoggedRows | SparkRows) -> list[Violation]:
    """Return a finding if an action occurs only after the last rows of episodes.

    It would count as an action of all rows without ``possible_actions``, unless a
    schema names the actions.
    """
    taken = "action", "possible_action"
    known = {x.name for x in rows.contents if x.kind in taken}
    final = {x.name for x in rows.contents if x.kind == "final_possible_action"}
    text = (
        "final_possible_actions has an action that no row took or could take; correct "
        "its name, or list all actions in a schema"
    )
    return _of_names("unknown_action", ERROR, sorted(final - known), text)


def _unknown_columns(rows: LoggedRows) -> list[Violation]:
    names = []
    for name in rows.unknown_columns:
        close = closest(name, types(rows.mode))
        names.append(name + (f" (did you mean {close}?)" if close else ""))
    text = "a column has no meaning; correct its name, or list it in extra_columns"
    return _of_names("unknown_column", ERROR, names, text)


def _difference(expected: Schema, schema: Schema) -> list[Violation]:
    """Return a finding if rows have another schema: an error if they have more."""
    if set(schema.actions) <= set(expected.actions):
        schema = dataclasses.replace(schema, actions=expected.actions)
    text = expected.difference(schema)
    if not text:
        return []
    more = any(
        set(getattr(schema, name)) - set(getattr(expected, name))
        for name in ("actions", "features", "action_features", "metrics")
    )
    text = f"the rows have another schema than expected: {text}"
    name, severity = ("schema", ERROR) if more else ("smaller_schema", WARNING)
    return [Violation(name, severity, 1, text)]


def _examples(value: str) -> str:
    """Return the SQL of the first examples of a group."""
    return f"min({{'file': file, 'row': row, 'value': {value}}}, {_EXAMPLES})"


def _shown(examples: Sequence[Mapping]) -> tuple[Example, ...]:
    return tuple(Example(**x) for x in examples)
