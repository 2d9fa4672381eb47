"""Turn logged rows into samples:
``tfagents-batch timeline --input=logs/ --output=table/``.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from tfagents_batch import config
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.offline import manifest, publish
from tfagents_batch.offline import schema as schemas
from tfagents_batch.offline.features import specification
from tfagents_batch.offline.reading import files
from tfagents_batch.offline.schema import Mode, Schema
from tfagents_batch.offline.timeline_config import (
    FromHorizon,
    TimelineConfig,
    from_horizon,
)
from tfagents_batch.scripts import command_line


@dataclasses.dataclass(frozen=True)
class TimelineCommand:
    """Flags of this script."""

    input: tuple[str, ...] = option(
        (), "files, folders or globs of JSON lines or Parquet; or minari:<name>"
    )
    output: str | None = option(None, "folder of the table")
    engine: Literal["duckdb", "spark"] = option(
        "duckdb", "program that runs the SQL: duckdb or spark"
    )
    spark_master: str = option(
        "local[*]", "where Spark runs: local[2] for two threads, or a cluster"
    )
    spark_memory: str = option("2g", "memory of Spark's driver")
    mode: Mode | None = option(
        None, "discrete, parametric or continuous actions; none: discrete"
    )
    schema: str | None = option(
        None, "file with the schema; none: that of the table, or of the rows if new"
    )
    extra_columns: tuple[str, ...] = option((), "further columns to keep")
    features: str | None = option(
        None,
        "specification of features, see tfagents-batch features, to be published, too",
    )
    horizon: str | None = option(
        None, "JSON file of Horizon with settings; flags replace them"
    )
    check: bool = option(True, "check the rows first, as tfagents-batch rows does")
    debug: bool = option(False, "print tracebacks")


def main(argv: Sequence[str]) -> int:
    """Parse flags, write a partition, and print a summary.

    Returns:
      Exit status: 65 if the check of the rows found errors, else 0.
    """
    parts = command_line.flags(argv, (TimelineCommand, ""), (TimelineConfig, ""))
    command = config.replace(TimelineCommand(), parts[0])
    if not command.input:
        raise UserError("no rows are given; pass --input=<file or folder>")
    if command.output is None:
        raise UserError("no folder is given for the table; pass --output=<folder>")
    paths = (Path(x) for x in command.input if "://" not in x)
    files.check_outside(Path(command.output), paths)
    horizon = from_horizon(
        {} if command.horizon is None else publish.read_json(command.horizon)
    )
    base = TimelineConfig() if command.horizon is None else horizon.config
    settings = config.replace(base, parts[1])
    return _run(command, settings, horizon)


def _run(
    command: TimelineCommand, settings: TimelineConfig, horizon: FromHorizon
) -> int:
    from tfagents_batch.offline.timeline import build
    from tfagents_batch.training.log import console

    for notice in horizon.notices:
        command_line.say(f"note: {notice}")
    features = None
    if command.features is not None:
        features = specification.read(command.features)
    mode = command.mode or horizon.mode or "discrete"
    expected = _expected(command, settings)
    extra = command.extra_columns or horizon.extra_columns
    with (
        console.doing("reading rows") as now,
        _opened(command, mode, expected, extra) as rows,
    ):
        now("checking rows")
        schema = expected or rows.find_schema()
        if expected is None and horizon.actions:
            schema = dataclasses.replace(schema, actions=horizon.actions)
        if command.check and not _is_right(command, rows, expected, settings):
            return command_line.EXIT_DATA
        with console.progress() as tell:
            summary = build(rows, schema, settings, command.output, tell, features)
    command_line.show(summary.text())
    command_line.show(str(summary.folder))
    return 0


@contextlib.contextmanager
def _opened(
    command: TimelineCommand,
    mode: Mode,
    expected: Schema | None,
    extra: tuple[str, ...],
) -> Iterator[Any]:
    """Yield the rows, open in the engine."""
    if command.engine == "spark":
        from tfagents_batch.offline.reading import session, spark_rows

        with (
            session.started(command.spark_master, command.spark_memory) as spark,
            spark_rows.open_rows(
                spark, command.input, mode, expected, extra_columns=extra
            ) as rows,
        ):
            yield rows
        return
    from tfagents_batch.offline.reader import open_rows

    with open_rows(command.input, mode, expected, extra_columns=extra) as rows:
        yield rows


def _is_right(
    command: TimelineCommand,
    rows: Any,
    expected: Schema | None,
    settings: TimelineConfig,
) -> bool:
    """Check rows, print what is wrong, and return whether there are no errors."""
    from tfagents_batch.offline.validator import Options, final_names, validate

    if command.engine == "spark":
        command_line.say(
            "note: only what the timeline needs is checked in Spark; "
            "tfagents-batch rows has all rules"
        )
        for violation in final_names(rows) if expected is None else ():
            names = ", ".join(str(example.value) for example in violation.examples)
            raise UserError(f"{violation.text}: {names}. Nothing is published")
        return True

    options = Options(
        on_duplicate=settings.on_duplicate, metric_weights=settings.metric_weights
    )
    report = validate(rows, expected, options)
    if report.errors:
        command_line.show(report.table())
        command_line.say("nothing is published")
    elif report.warnings:
        command_line.say(report.table())
    return not report.errors


def _expected(command: TimelineCommand, settings: TimelineConfig) -> Schema | None:
    """Return the schema that rows must have: the given one, or that of the table."""
    if command.schema is not None:
        return schemas.read(command.schema)
    newest = manifest.newest(Path(command.output or ""))
    if newest is None or settings.on_change == "accept":
        return None
    return manifest.schema(newest)
