"""Predict for lines of JSON: ``tfagents-batch predict``."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Sequence

from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import command_line


@dataclasses.dataclass(frozen=True)
class PredictCommand:
    """Flags of this script."""

    export: str = option("", "folder of an ONNX export; required")
    input: str = option("-", "file with an observation in each line; -: stdin")
    debug: bool = option(False, "print tracebacks")


def main(argv: Sequence[str]) -> int:
    """Parse flags, and print a line of JSON for each line."""
    command = command_line.parse(argv, PredictCommand)
    if not command.export:
        raise UserError("no export is given; pass --export, the folder of an export")
    try:
        from tfagents_batch.serving import bodies
    except ImportError as error:
        raise UserError(
            f'predict needs orjson ({error}); pip install "tfagents_batch[serve]"'
        ) from error
    from tfagents_batch.serving.predictor import Predictor

    predictor = Predictor.load(command.export)
    with contextlib.ExitStack() as stack:
        lines = sys.stdin.buffer
        if command.input != "-":
            try:
                lines = stack.enter_context(open(command.input, "rb"))
            except OSError as error:
                raise UserError(f"{command.input}: {error.strerror}") from error
        for line in bodies.predict(predictor, lines):
            command_line.show(line)
    return 0
