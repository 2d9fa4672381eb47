"""Check logged rows: ``tfagents-batch rows --input=logs/``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.offline import publish
from tfagents_batch.offline import schema as schemas
from tfagents_batch.offline.schema import Mode
from tfagents_batch.scripts import command_line
from tfagents_batch.training.log import console


@dataclasses.dataclass(frozen=True)
class RowsCommand:
    """Flags of this script."""

    input: tuple[str, ...] = option(
        (), "files, folders or globs of JSON lines or Parquet; or minari:<name>"
    )
    mode: Mode = option("discrete", "discrete, parametric or continuous actions")
    extra_columns: tuple[str, ...] = option((), "further columns that are allowed")
    schema: str | None = option(
        None, "file with the expected schema, instead of mode and extra_columns"
    )
    write_schema: str | None = option(None, "file to write the schema of the rows to")
    json: bool = option(False, "print JSON instead of a table")
    debug: bool = option(False, "print tracebacks")


def main(argv: Sequence[str]) -> int:
    """Parse flags, check the rows, and print the findings.

    Returns:
      Exit status: 65 if there are errors, else 0.
    """
    from tfagents_batch.offline.validator import Options, validate

    command, options = command_line.parse_parts(argv, RowsCommand, Options)
    if not command.input:
        raise UserError("no rows are given; pass --input=<file or folder>")
    from tfagents_batch.offline.reader import open_rows

    schema = None if command.schema is None else schemas.read(command.schema)
    with open_rows(
        command.input, command.mode, schema, extra_columns=command.extra_columns
    ) as rows:
        with console.doing("checking rows"):
            report = validate(rows, schema, options)
        if command.write_schema is not None:
            publish.write_text(rows.find_schema().to_json(), command.write_schema)
        for notice in rows.notices:
            command_line.say(f"note: {notice}")
    command_line.show(report.to_json() if command.json else report.table())
    return command_line.EXIT_DATA if report.errors else 0
