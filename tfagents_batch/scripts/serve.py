"""Serve an ONNX export: ``tfagents-batch serve --export=...``."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from tfagents_batch.config import option
from tfagents_batch.scripts import command_line
from tfagents_batch.serving.server.settings import ServerSettings
from tfagents_batch.training.log import console


@dataclasses.dataclass(frozen=True)
class ServeCommand:
    """Flags of this script, besides the settings of the server."""

    debug: bool = option(False, "print tracebacks")


def main(argv: Sequence[str]) -> int:
    """Parse flags, and serve until the process is asked to stop."""
    _, settings = command_line.parse_parts(argv, ServeCommand, ServerSettings)
    for name in ("token", "admin_token"):
        if not getattr(settings, name):
            token = os.environ.get(f"TFAGENTS_BATCH_{name.upper()}", "")
            settings = dataclasses.replace(settings, **{name: token})
    # Imported here because NumPy takes part of a second.
    from tfagents_batch.serving.server import run

    console.started()  # here, because only the worker, another process, shows its line
    run.serve(settings, command_line.show)
    return 0
