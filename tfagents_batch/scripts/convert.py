"""Turn an ordinary table, such as a CSV file, into rows:
``tfagents-batch convert --input=decisions.csv --action=offer --features=age``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.offline.features import specification
from tfagents_batch.offline.features.identify import FeatureSettings
from tfagents_batch.offline.features.specification import Specification
from tfagents_batch.offline.reading.convert_settings import Column, ConvertSettings
from tfagents_batch.scripts import command_line
from tfagents_batch.training.log import console

_SMALL = 500_000  # rows


@dataclasses.dataclass(frozen=True)
class ConvertCommand:
    """Flags of this script, besides the columns of the tables."""

    input: tuple[str, ...] = option(
        (), "files or globs of decisions: CSV, Parquet or JSON lines"
    )
    output: str = option("rows", "folder of the rows; one of this command is replaced")
    specification: str = option(
        "features.json", "file to write names, numbers and types of features to"
    )
    known: str | None = option(
        None, "such a file of an earlier table, whose names and numbers are taken"
    )
    debug: bool = option(False, "print tracebacks")


def main(argv: Sequence[str]) -> int:
    """Parse flags, write rows and the specification, and print what comes next."""
    command, settings = command_line.parse_parts(argv, ConvertCommand, ConvertSettings)
    if not command.input:
        raise UserError("no table is given; pass --input=<file of decisions>")
    # Imported here, as help needs no DuckDB.
    from tfagents_batch.offline.reading.convert import convert

    earlier = None if command.known is None else specification.read(command.known)
    with console.doing("reading the table") as now:
        known = () if earlier is None else _columns(earlier, command.known)
        converted = convert(command.input, command.output, settings, known)
        if earlier is None:
            now("finding types of features")
            types = _types(command.output, converted.columns)
            specification.write(types, command.specification)
    for notice in converted.notices:
        command_line.say(f"note: {notice}")
    features = command.known or command.specification
    halves = ""
    if converted.rows < _SMALL:  # a tenth of them, the default, could judge nothing
        halves = " --train_share=0.5 --eval_share=0.5"
    command_line.say(
        f"{converted.rows:,} rows; next: tfagents-batch timeline "
        f"--input={command.output} --features={features} --output=table{halves}"
    )
    command_line.show(command.output)
    return 0


def _columns(earlier: Specification, path: str) -> tuple[Column, ...]:
    """Return the columns that the features of a specification were made from."""
    if earlier.ids != tuple(range(len(earlier.ids))) or not all(
        x.name for x in earlier.features.values()
    ):
        raise UserError(
            f"--known={path} has features without names of columns; expected a file "
            "that this command has written"
        )
    return tuple(Column(x.name, x.categories) for x in earlier.features.values())


def _types(rows: str, columns: Sequence[Column]) -> Specification:
    """Return the types of the features of rows, with the names of their columns."""
    from tfagents_batch.offline.features.find import find
    from tfagents_batch.offline.reader import open_rows

    enums = {i: "ENUM" for i, x in enumerate(columns) if x.categories is not None}
    with open_rows(Path(rows) / "rows.parquet") as opened:
        typed = find(opened, FeatureSettings(feature_overrides=enums)).specification
    features = {
        i: dataclasses.replace(x, **columns[i]._asdict())
        for i, x in typed.features.items()
    }
    return dataclasses.replace(typed, features=features)
