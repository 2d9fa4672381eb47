"""Ordinary tables of decisions, and of rewards that came later, as logged rows."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import duckdb

from tfagents_batch import config
from tfagents_batch.errors import UserError, saving
from tfagents_batch.offline import publish
from tfagents_batch.offline.publish import Scratch
from tfagents_batch.offline.reading import files
from tfagents_batch.offline.reading.convert_settings import Column, ConvertSettings
from tfagents_batch.offline.reading.dialect import enumeration, identifier, literal
from tfagents_batch.offline.reading.tables import MICROSECONDS, ROW, SourceTable
from tfagents_batch.offline.schema import is_integer

ROWS, SUMMARY = "rows.parquet", "_convert.json"
_LEAST = 20  # values of a feature, below which its type cannot be found


class Converted(NamedTuple):
    """Result of ``convert``."""

    rows: int  # number of rows
    columns: tuple[Column, ...]  # what became of the features
    notices: tuple[str, ...]  # lines for the user


def convert(
    data: Sequence[str],
    output: str | Path,
    settings: ConvertSettings,
    known: Sequence[Column] = (),
) -> Converted:
    """Write the rows of a table of decisions, one each, to ``rows.parquet``.

    Decisions of the same episode and time stamp keep the order of the file: their
    sequence numbers are microseconds apart. UserError for a column that does not exist
    or cannot be read as what it is, and for a folder of something else.

    Args:
      data: files or globs of CSV, Parquet or JSON lines.
      output: folder of the rows, replaced as a whole if it is one of this function.
      settings: what the columns are.
      known: features of earlier rows, whose numbers are taken; a name that they do not
        have is no value. Empty for those of the settings.
    """
    settings, output = _checked(settings), Path(output).expanduser()
    _check_output(output)
    files.check_outside(output, map(Path, (*data, *settings.rewards)))
    with contextlib.closing(Scratch()) as scratch:
        limits = {"memory_limit": "2GB", "temp_directory": scratch.name}
        with duckdb.connect(config=limits) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            table = SourceTable(connection, "given", data, settings.nulls)
            table.text("action", settings.action)  # misspelled, it is told first
            _check_features(settings, known)
            notices: list[str] = []
            if settings.reward is None:
                notices.append(
                    f"every reward is {settings.default_reward:g}, since no --reward "
                    "is given"
                )
            columns = tuple(known) or _columns(table, settings)
            _store_decisions(table, settings, columns, notices)
            if settings.rewards:
                later = SourceTable(
                    connection, "later", settings.rewards, settings.nulls
                )
                _store_rewards(later, settings, notices)
            with publish.folder(output, _check_output) as staged, saving(output):
                target = literal(str(staged / ROWS))
                table.run(f"COPY ({_rows(settings)}) TO {target} (FORMAT parquet)")
                ((count,),) = table.run(f"SELECT count(*) FROM {target}")
                summary = {"rows": count, "notices": notices}
                (staged / SUMMARY).write_text(json.dumps(summary, indent=2))
    return Converted(count, columns, tuple(notices))


def _check_output(folder: Path) -> None:
    """Refuse to replace anything but the output of ``convert``."""
    publish.check_only(folder, {ROWS, SUMMARY}, "convert", SUMMARY)


def _checked(settings: ConvertSettings) -> ConvertSettings:
    config.check(settings, "--")
    if not settings.action:
        raise UserError("no column of actions is given; pass --action=<column>")
    if settings.rewards:
        needed = ("reward", "id" if settings.reward_id else "episode")
        needed += () if settings.reward_id and settings.window is None else ("order",)
        for name in needed:
            if getattr(settings, name) is None:
                raise UserError(
                    f"--rewards needs --{name}=<column>: rewards are found by --id and "
                    "--reward_id, or by --episode and --order"
                )
    elif settings.window is not None or settings.reward_id is not None:
        raise UserError("--window and --reward_id need --rewards=<file of rewards>")
    return settings


# ---- features


def _check_features(settings: ConvertSettings, known: Sequence[Column]) -> None:
    names = (*settings.features, *settings.categories)
    if bool(names) == bool(known):
        raise UserError(
            "pass the columns of features, as --features and --categories, or the file "
            "of earlier ones, as --known"
        )
    if wrong := [x for x in names if is_integer(x)]:
        raise UserError(
            f"the feature {wrong[0]} has the name of a number, which would be taken "
            "for an id; rename the column"
        )


def _columns(table: SourceTable, settings: ConvertSettings) -> tuple[Column, ...]:
    """Return the features of a table, with the names that occur, sorted."""
    columns = []
    for name in dict.fromkeys((*settings.features, *settings.categories)):
        is_category = name in settings.categories
        value = _value(table, Column(name, () if is_category else None))
        ((count, distinct),) = table.run(
            f"SELECT count({value}), count(DISTINCT {value}) FROM {table.name}"
        )
        if count < _LEAST:
            raise UserError(
                f"column {name!r} has {count} values; expected at least {_LEAST}: "
                "leave it out, or pass more rows"
            )
        if not is_category:
            columns.append(Column(name))
            continue
        if distinct > settings.max_categories:
            raise UserError(
                f"--categories: column {name!r} has {distinct:,} different names; "
                f"expected at most --max_categories={settings.max_categories:,}: "
                "group them, or leave it out"
            )
        names = f"SELECT DISTINCT {value} FROM {table.name} WHERE {value} IS NOT NULL"
        names = table.run(f"{names} ORDER BY 1")
        columns.append(Column(name, tuple(x for (x,) in names)))
    return tuple(columns)


def _value(table: SourceTable, column: Column) -> str:
    """Return the SQL of a feature: its number, or its name."""
    if column.categories is None:
        return table.number("features", column.name, needed=False)
    return table.text("categories", column.name, needed=False)


def _features(table: SourceTable, columns: Sequence[Column], notices: list[str]) -> str:
    """Return the SQL of the map of features by id, without those that are missing."""
    entries = []
    for i, column in enumerate(columns):
        value = _value(table, column)
        if column.categories is not None:
            code = f"enum_code(TRY_CAST({value} AS {enumeration(column.categories)}))"
            ((count, example),) = table.run(
                f"SELECT count(*), min({value}) FROM {table.name} "
                f"WHERE {value} IS NOT NULL AND {code} IS NULL"
            )
            if count:
                notices.append(
                    f"{count:,} rows have other names in {column.name!r} than before, "
                    f"such as {example!r}, which count as missing"
                )
            value = f"{code}::DOUBLE"
        entries.append(f"{{'key': {i}::BIGINT, 'value': {value}}}")
    present = "lambda entry: entry.value IS NOT NULL"
    return f"map_from_entries(list_filter([{', '.join(entries)}], {present}))"


# ---- decisions and rewards


def _store_decisions(
    table: SourceTable,
    settings: ConvertSettings,
    columns: Sequence[Column],
    notices: list[str],
) -> None:
    """Store the decisions as ``decisions``."""
    row = identifier(ROW)
    values = {"row": row, "action": table.text("action", settings.action)}
    if settings.id is not None:
        values["request_id"] = table.text("id", settings.id)
    own_id = values.get("request_id", f"{row}::VARCHAR")
    episode = settings.episode
    values["mdp_id"] = own_id if episode is None else table.text("episode", episode)
    values["time"], second = row, 1
    if settings.order is not None:
        values["time"], second = table.time("order", settings.order)
    values["ds"] = "'all'"
    if second == MICROSECONDS:
        values["ds"] = f"strftime(make_timestamp({values['time']}), '%Y-%m-%d')"
    values["state_features"] = _features(table, columns, notices)
    if settings.probability is not None:
        column = settings.probability
        values["action_probability"] = table.probability(column)
    if settings.reward is not None and not settings.rewards:
        values["reward"] = table.number("reward", settings.reward, needed=False)
    if settings.terminated is not None:
        values["terminated"] = table.flag("terminated", settings.terminated)
    elif episode is None:
        values["terminated"] = "true"
    parts = ", ".join(f"{value} AS {name}" for name, value in values.items())
    tie = "row_number() OVER (PARTITION BY mdp_id, time ORDER BY row) - 1"
    tie = tie if second == MICROSECONDS else "0"
    table.run(
        f"CREATE TABLE decisions AS SELECT *, time + {tie} AS sequence_number "
        f"FROM (SELECT {parts} FROM {table.name})"
    )
    counted = "count(*) FILTER (sequence_number > time)"
    ((ties,),) = table.run(f"SELECT {counted} FROM decisions")
    if ties and settings.on_duplicate != "keep":
        columns_read = ", ".join(x for x in values if x != "row")
        ties -= _remove_duplicates(table, columns_read, settings, notices)
    if ties:
        notices.append(
            f"{ties:,} rows have the episode and time of another one; they are in the "
            "order of the file"
        )
    if settings.id is not None:
        again = "count(*) - count(DISTINCT request_id)"
        ((ids,),) = table.run(f"SELECT {again} FROM decisions")
        if ids:
            raise UserError(
                f"--id: column {settings.id!r} has {ids:,} ids more than once; "
                "expected one row for each decision"
            )
    if settings.terminated is not None:
        _check_ends(table, settings.terminated)


def _remove_duplicates(
    table: SourceTable, columns: str, settings: ConvertSettings, notices: list[str]
) -> int:
    """Remove rows that equal an earlier one in all columns; return their number."""
    kinds = "SELECT min(row) AS row, count(*) - 1 AS more FROM decisions "
    kinds += f"GROUP BY {columns}"
    ((twice, first),) = table.run(
        f"SELECT sum(more), min(row) FILTER (more > 0) FROM ({kinds})"
    )
    if twice and settings.on_duplicate == "error":
        raise UserError(
            f"{twice:,} rows equal an earlier one, such as row {first:,}, in all that "
            "is read, so the file seems to have these decisions twice; pass "
            "--on_duplicate=first to leave them out, or keep if they are others"
        )
    if twice:
        table.run(f"DELETE FROM decisions WHERE row NOT IN (SELECT row FROM ({kinds}))")
        notices.append(f"{twice:,} rows that equal an earlier one are left out")
    return twice


def _check_ends(table: SourceTable, column: str) -> None:
    """Refuse episodes that go on after their end."""
    following = "lead(row) OVER (PARTITION BY mdp_id ORDER BY sequence_number)"
    ((count, first, episode, after),) = table.run(
        "SELECT count(*), min(row), arg_min(mdp_id, row), arg_min(following, row) "
        f"FROM (SELECT *, {following} AS following FROM decisions) "
        "WHERE terminated AND following IS NOT NULL"
    )
    if count:
        raise UserError(
            f"--terminated: column {column!r} is true in row {first:,}, but episode "
            f"{episode!r} goes on in row {after:,} ({count:,} rows are wrong); "
            "expected true only in the last row of an episode"
        )


def _store_rewards(
    later: SourceTable, settings: ConvertSettings, notices: list[str]
) -> None:
    """Store the sum of rewards of each decision, and which decisions are too young."""
    values = {"amount": later.number("reward", settings.reward or "")}
    by_id, order = settings.reward_id is not None, settings.order
    if by_id:
        values["request_id"] = later.text("reward_id", settings.reward_id)
    else:
        name = settings.reward_episode or settings.episode
        values["mdp_id"] = later.text("reward_episode", name)
    second = 1
    if not by_id or settings.window is not None:
        name = settings.reward_time or order
        values["moment"], second = later.time("reward_time", name)
        ((is_stamp,),) = later.run("SELECT bool_and(ds <> 'all') FROM decisions")
        if is_stamp != (second == MICROSECONDS):
            raise UserError(
                f"--order={order} and --reward_time={name}: one has time stamps, the "
                "other one numbers; expected the same"
            )
    parts = ", ".join(f"{value} AS {name}" for name, value in values.items())
    join = "LEFT JOIN decisions USING (request_id)"
    if not by_id:  # the last decision before it
        join = (
            "ASOF LEFT JOIN decisions ON rewards.mdp_id = decisions.mdp_id "
            "AND rewards.moment >= decisions.sequence_number"
        )
    late, young = "false", "false"
    if settings.window is not None:
        window = int(settings.window * second)
        late = f"moment - time > {window} OR moment < time"
        young = (
            f"(SELECT greatest(max(time), (SELECT max(moment) FROM rewards)) "
            f"FROM decisions) - time < {window}"
        )
    for query in (
        f"CREATE TABLE rewards AS SELECT {parts} FROM {later.name}",
        f"CREATE TABLE found AS SELECT row, amount, {late} AS late FROM rewards {join}",
        "ALTER TABLE decisions ADD COLUMN young BOOLEAN",
        f"UPDATE decisions SET young = {young}",
    ):
        later.run(query)
    ((used, late_count, unknown, left, whole),) = later.run(
        "SELECT count(*) FILTER (row IS NOT NULL AND NOT late), "
        "count(*) FILTER (row IS NOT NULL AND late), "
        "count(*) FILTER (row IS NULL), (SELECT count(*) FROM decisions WHERE young), "
        "(SELECT count(*) FROM decisions WHERE NOT young) FROM found"
    )
    if not used:
        raise UserError(
            f"no reward counts: {late_count:,} are outside of the window, and "
            f"{unknown:,} belong to no decision; expected the same ids or episodes in "
            "both files, and later times"
        )
    if not whole:
        raise UserError(
            f"all {left:,} decisions are younger than --window={settings.window:g} at "
            "the end of the files; pass a shorter one"
        )
    notices.append(
        f"rewards: {used:,} used, {late_count:,} outside of the window, {unknown:,} "
        f"belong to no decision; {left:,} decisions are younger than the window and "
        "left out"
    )


def _rows(settings: ConvertSettings) -> str:
    """Return the query of the rows."""
    names = ["ds", "mdp_id", "sequence_number", "state_features", "action"]
    names += ["action_probability"] if settings.probability else []
    names += ["request_id"] if settings.id else []
    source, reward, extra = "decisions", "NULL", ""
    if settings.terminated is not None or settings.episode is None:
        names.append("terminated")
    if settings.rewards:
        sums = "SELECT row, sum(amount) AS reward FROM found WHERE NOT late GROUP BY 1"
        following = "lead({}) OVER (PARTITION BY mdp_id ORDER BY sequence_number)"
        # An episode goes on after its last row whose rewards are complete.
        source = (
            f"(SELECT *, {following.format('young')} AND NOT young AS cut, "
            f"{following.format('state_features')} AS following FROM decisions) "
            f"LEFT JOIN ({sums}) USING (row)"
        )
        reward = "reward"
        if settings.window is not None:
            extra = (
                ", CASE WHEN cut THEN true END AS truncated, "
                "CASE WHEN cut THEN following END AS final_state_features"
            )
        source += " WHERE NOT young"
    elif settings.reward is not None:
        reward = "reward"
    default = f"{settings.default_reward!r}::DOUBLE"
    return (
        f"SELECT {', '.join(names)}, coalesce({reward}, {default}) AS reward{extra} "
        f"FROM {source} ORDER BY row"
    )
