"""Film a trained agent: ``tfagents-batch visualize --logdir=RUN``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from tfagents_batch import importing
from tfagents_batch.config import option
from tfagents_batch.scripts import command_line


@dataclasses.dataclass(frozen=True)
class VisualizeCommand(command_line.PlayCommand):
    """Flags of this script."""

    outdir: str = option("videos", "folder of the videos")
    episodes: int = option(5, "number of episodes", least=1)
    format: Literal["mp4", "gif"] = option(
        "mp4", "format of the videos; mp4 needs the extra video"
    )


def main(argv: Sequence[str]) -> int:
    """Parse flags, record episodes and print a line for each."""
    command = command_line.parse(argv, VisualizeCommand)
    arguments = command.arguments()
    if command.format == "mp4":
        importing.ffmpeg()  # its error needs no TensorFlow
    command_line.import_tensorflow()
    from tfagents_batch import api

    episodes = api.visualize(
        outdir=command.outdir,
        episodes=command.episodes,
        format=command.format,
        **arguments,
    )
    for episode in episodes:
        numbers = f"return {episode.return_:g}, {episode.length} steps"
        command_line.show(f"{episode.path}  {numbers}")
    return 0
