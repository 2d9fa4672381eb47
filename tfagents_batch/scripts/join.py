"""Join decisions and feedback: ``tfagents-batch join``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.offline.schema import Mode
from tfagents_batch.scripts import command_line
from tfagents_batch.serving.join import JoinConfig, join
from tfagents_batch.serving.server.decision_log import FEEDBACK_FOLDER
from tfagents_batch.training.log import console


@dataclasses.dataclass(frozen=True)
class JoinCommand:
    """Flags of this script, besides the settings of a join."""

    decisions: tuple[str, ...] = option((), "the server's --log, or files of it")
    feedback: str = option(
        "", "folder or file of feedback; empty: _feedback in the decisions"
    )
    output: str = option("rows", "folder of the rows; one of a join is replaced")
    mode: Mode = option("discrete", "discrete or continuous actions")
    debug: bool = option(False, "print tracebacks")


def main(argv: Sequence[str]) -> int:
    """Parse flags, join, and print the counts and the folder."""
    command, settings = command_line.parse_parts(argv, JoinCommand, JoinConfig)
    if not command.decisions:
        raise UserError("no decisions are given; pass --decisions=<the server's --log>")
    decisions = [*command.decisions]
    feedback = command.feedback or str(Path(decisions[0]) / FEEDBACK_FOLDER)
    data = decisions[0] if len(decisions) == 1 else decisions
    with console.doing("joining"):
        summary = join(data, feedback, command.output, command.mode, settings)
    command_line.say(summary.text())
    command_line.show(command.output)
    return 0
