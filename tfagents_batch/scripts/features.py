"""Find types of features and how to normalize them:
``tfagents-batch features --input=logs/ --output=features.json``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.features.layout import some
from tfagents_batch.features.specification import TYPES
from tfagents_batch.offline import publish
from tfagents_batch.offline.features import specification
from tfagents_batch.offline.features.identify import FeatureSettings
from tfagents_batch.offline.schema import Mode
from tfagents_batch.scripts import command_line
from tfagents_batch.training.log import console


@dataclasses.dataclass(frozen=True)
class FeaturesCommand:
    """Flags of this script."""

    input: tuple[str, ...] = option(
        (), "files, folders or globs of JSON lines or Parquet; or minari:<name>"
    )
    mode: Mode = option("discrete", "discrete, parametric or continuous actions")
    extra_columns: tuple[str, ...] = option((), "further columns that are allowed")
    output: str | None = option(None, "file of the specification, JSON")
    report: str | None = option(None, "file of a page on the features, HTML")
    debug: bool = option(False, "print tracebacks")


def main(argv: Sequence[str]) -> int:
    """Parse flags, write the files, and print what was found.

    Returns:
      Exit status: 65 if a feature has infinite values, or values cannot be read, so
      that only the page is written; else 0.
    """
    command, settings = command_line.parse_parts(argv, FeaturesCommand, FeatureSettings)
    if not (command.output or command.report):
        raise UserError("no file is given; pass --output=<file>, --report=<file>")
    if not command.input:
        raise UserError("no rows are given; pass --input=<file or folder>")
    return _search(command, settings)


def _search(command: FeaturesCommand, settings: FeatureSettings) -> int:
    from tfagents_batch.offline.features.find import find
    from tfagents_batch.offline.features.page import page
    from tfagents_batch.offline.reader import open_rows

    with (
        console.doing("reading rows"),
        open_rows(
            command.input, command.mode, extra_columns=command.extra_columns
        ) as rows,
    ):
        search = find(rows, settings)
        for notice in rows.notices:
            command_line.say(f"note: {notice}")
    if command.report is not None:
        publish.write_text(page(search, ", ".join(command.input)), command.report)
    for feature in search.features:
        for name, text in feature.suspicions:
            if name != "infinite":
                command_line.say(f"note: feature {feature.id}: {name}: {text}")
    if search.problem:
        command_line.say(f"error: {search.problem}")
        return command_line.EXIT_DATA
    if command.output is not None:
        specification.write(search.specification, command.output)
    features = search.specification.features.items()
    for kind in TYPES:
        ids = [i for i, x in features if x.feature_type == kind]
        if ids:
            command_line.show(f"{kind:17} {len(ids):>6,}  {some(ids)}")
    command_line.show(f"sha256 {search.specification.sha256}")
    return 0
