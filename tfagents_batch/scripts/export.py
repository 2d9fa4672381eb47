"""Export a trained policy: ``tfagents-batch export``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tfagents_batch.config import option
from tfagents_batch.scripts import command_line


@dataclasses.dataclass(frozen=True)
class ExportCommand(command_line.AgentCommand):
    """Flags of this script."""

    format: str = option(
        "onnx", "onnx (ONNX Runtime), saved_model (TensorFlow) or litert (mobile)"
    )
    outdir: str = option("", "folder to write; empty: export-<format> in the run's")
    exploration: float = option(
        0.0,
        "probability of a random decision, see docs/export.md; 0 is the greedy policy",
        least=0,
        most=1,
    )


def main(argv: Sequence[str]) -> int:
    """Parse flags, export, and print the folder as the last line."""
    command = command_line.parse(argv, ExportCommand)
    played = command.arguments()
    command_line.import_tensorflow()
    from tfagents_batch import api

    done = api.export(
        played.pop("logdir"),
        command.format,
        command.outdir or None,
        command.exploration,
        **played,
    )
    for notice in done.notices:
        command_line.say(f"note: {notice}")
    largest = max(done.parity.differences.values())
    command_line.say(
        f"{done.parity.rows:,} inputs compared with the policy: largest difference "
        f"{largest:.2g}"
    )
    command_line.show(done.folder)
    return 0
